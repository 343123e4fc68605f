/**
 * Everyday questions of event analysts over the pools of ground.ts. Each orders its rows, so that
 * there is one right answer. Columns are those that the policies of ground.ts show.
 */
export interface Question {
  readonly sql: string
  /** The same question to plain DuckDB. Absent: the same text. */
  readonly plain?: string
  /** By position or by name. */
  readonly parameters?: readonly { readonly name?: string; readonly value: string; readonly type?: string }[]
  readonly dialect?: 'CLICKHOUSE'
}

const sessions = `WITH marked AS (
    SELECT visitor, ts, ts - lag(ts) OVER (PARTITION BY visitor ORDER BY ts) > INTERVAL 8 HOUR AS is_later
    FROM hits WHERE visitor IS NOT NULL),
  sessions AS (
    SELECT visitor, ts, count(*) FILTER (is_later) OVER (PARTITION BY visitor ORDER BY ts) AS session FROM marked)`

const items = `SELECT e.id, e.ts, item->>'sku' AS sku, (item->>'qty')::INT AS qty, (item->>'price')::DECIMAL(10, 2) AS price
    FROM hits e, LATERAL (SELECT unnest(CAST(e.props->'items' AS JSON[])) AS item) i`

export const QUESTIONS: Readonly<Record<string, string | Question>> = {
  // Sessions, funnels, retention
  'sessions by gaps of eight hours': `${sessions}
    SELECT visitor, session, min(ts) AS began, max(ts) - min(ts) AS lasted, count(*) AS events
    FROM sessions GROUP BY ALL ORDER BY visitor, session`,
  'sessions of a visitor at the median': `${sessions},
    counted AS (SELECT visitor, count(DISTINCT session) AS n FROM sessions GROUP BY visitor)
    SELECT median(n) AS median, max(n) AS most, count(*) AS visitors FROM counted`,
  'events before and after each purchase': `SELECT id, name,
      lag(name) OVER w AS before, lead(name, 1, 'none') OVER w AS after, first_value(name) OVER w AS first
    FROM hits WHERE visitor IS NOT NULL WINDOW w AS (PARTITION BY visitor ORDER BY ts)
    QUALIFY name = 'purchase' ORDER BY ts`,
  'a funnel of three steps': `WITH steps AS (SELECT visitor,
        min(ts) FILTER (WHERE name = 'search') AS searched,
        min(ts) FILTER (WHERE name = 'add_to_cart') AS added,
        min(ts) FILTER (WHERE name = 'purchase') AS bought
      FROM hits GROUP BY visitor)
    SELECT count(searched) AS searched, count(*) FILTER (added > searched) AS added,
      count(*) FILTER (added > searched AND bought > added) AS bought FROM steps`,
  'a funnel within two days, by join': `SELECT count(DISTINCT a.visitor) AS viewed, count(DISTINCT b.visitor) AS bought
    FROM hits a LEFT JOIN hits b ON b.visitor = a.visitor AND b.name = 'purchase'
      AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2 days'
    WHERE a.name = 'page_view'`,
  'retention by days since the first event': `WITH firsts AS (
      SELECT visitor, min(ts)::DATE AS started FROM hits WHERE visitor IS NOT NULL GROUP BY visitor)
    SELECT started, date_diff('day', started, e.ts::DATE) AS days, count(DISTINCT visitor) AS visitors
    FROM hits e JOIN firsts USING (visitor) GROUP BY 1, 2 ORDER BY 1, 2`,
  'cohorts by week of sign-up': `SELECT date_trunc('week', v.signed_up) AS cohort, v.plan, count(DISTINCT e.visitor) AS active,
      count(DISTINCT v.id) AS signed_up
    FROM visitors v LEFT JOIN hits e ON e.visitor = v.id AND e.ts >= v.signed_up
    GROUP BY ALL ORDER BY ALL`,
  'visitors who came back the next day': `SELECT day, count(DISTINCT visitor) AS visitors,
      count(DISTINCT visitor) FILTER (WHERE EXISTS (SELECT 1 FROM hits n WHERE n.visitor = e.visitor AND n.day = e.day + 1)) AS back
    FROM hits e GROUP BY day ORDER BY day`,
  'the time to the first purchase': `SELECT v.id, min(e.ts) - v.signed_up AS waited
    FROM visitors v JOIN hits e ON e.visitor = v.id AND e.name = 'purchase' AND e.ts > v.signed_up
    GROUP BY v.id, v.signed_up ORDER BY v.id`,
  'the path of a visitor': `SELECT visitor, string_agg(name, ' > ' ORDER BY ts) AS path, list(name ORDER BY ts)[1:3] AS beginning
    FROM hits WHERE ts < '2024-02-28' AND visitor IS NOT NULL GROUP BY visitor ORDER BY visitor`,

  // Running and moving figures
  'a running sum of revenue': `SELECT ts, amount, sum(amount) OVER (ORDER BY ts, id ROWS UNBOUNDED PRECEDING) AS total
    FROM hits WHERE name = 'purchase' ORDER BY ts, id`,
  'the moving average of seven days': `WITH days AS (SELECT day, count(*) AS n FROM hits GROUP BY day)
    SELECT day, n, round(avg(n) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW), 4) AS average
    FROM days ORDER BY day`,
  'a sum over the last day, by range': `SELECT id, ts, sum(quantity) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS last_day
    FROM hits WHERE name = 'add_to_cart' ORDER BY ts, id`,
  'distances in groups, without the current row': `SELECT id, count(*) OVER (ORDER BY quantity GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS beside
    FROM hits WHERE day = '2024-02-27' ORDER BY id`,
  'change to the week before': `WITH weeks AS (SELECT date_trunc('week', ts) AS week, count(*) AS n FROM hits GROUP BY 1)
    SELECT week, n, n - lag(n) OVER (ORDER BY week) AS more, round(100.0 * n / lag(n) OVER (ORDER BY week) - 100, 1) AS percent
    FROM weeks ORDER BY week`,
  'the share of the total': `SELECT name, count(*) AS n, round(100 * count(*) / sum(count(*)) OVER (), 2) AS percent
    FROM hits GROUP BY name ORDER BY n DESC, name`,
  'the share by a subquery': `SELECT country, sum(quantity) / (SELECT sum(quantity) FROM hits) AS share
    FROM hits GROUP BY country ORDER BY country NULLS FIRST`,
  'the share of the country in its name': `SELECT name, country, count(*) * 1.0 / sum(count(*)) OVER (PARTITION BY name) AS share
    FROM hits GROUP BY name, country ORDER BY name, country NULLS LAST`,
  'first and last touch': `SELECT visitor, arg_min(url, ts) AS first_url, arg_max(url, ts) AS last_url, max_by(name, ts) AS last_name
    FROM hits WHERE visitor IS NOT NULL GROUP BY visitor ORDER BY visitor`,
  'the source of a purchase': `SELECT p.id, (SELECT t.url FROM hits t WHERE t.visitor = p.visitor AND t.ts < p.ts AND t.url IS NOT NULL ORDER BY t.ts DESC LIMIT 1) AS touch
    FROM hits p WHERE p.name = 'purchase' AND p.visitor IS NOT NULL ORDER BY p.id`,
  'the current state of each visitor': `SELECT DISTINCT ON (visitor) visitor, name, ts FROM hits
    WHERE visitor IS NOT NULL ORDER BY visitor, ts DESC`,
  'gaps and islands of active days': `WITH days AS (SELECT DISTINCT visitor, day FROM hits WHERE visitor IS NOT NULL),
    numbered AS (SELECT visitor, day, day - (row_number() OVER (PARTITION BY visitor ORDER BY day))::INT AS island FROM days)
    SELECT visitor, min(day) AS since, count(*) AS days FROM numbered GROUP BY visitor, island
    HAVING count(*) > 1 ORDER BY visitor, since`,

  // Top lists
  'the top two names of each country': `SELECT country, name, count(*) AS n FROM hits GROUP BY country, name
    QUALIFY row_number() OVER (PARTITION BY country ORDER BY count(*) DESC, name) <= 2 ORDER BY country NULLS LAST, n DESC, name`,
  'the top by rank, ties too': `SELECT * FROM (SELECT visitor, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS place,
      dense_rank() OVER (ORDER BY count(*) DESC) AS dense FROM hits GROUP BY visitor)
    WHERE place <= 5 ORDER BY place, visitor NULLS LAST`,
  'quartiles of visitors': `SELECT visitor, n, ntile(4) OVER (ORDER BY n, visitor) AS quartile, round(percent_rank() OVER (ORDER BY n), 3) AS rank,
      round(cume_dist() OVER (ORDER BY n), 3) AS dist
    FROM (SELECT visitor, count(*) AS n FROM hits WHERE visitor IS NOT NULL GROUP BY visitor) ORDER BY n, visitor`,
  'the longest urls': `SELECT DISTINCT url, length(url) AS characters FROM hits WHERE url IS NOT NULL
    ORDER BY characters DESC, url LIMIT 3 OFFSET 1`,
  'the ten percent with the most events': `SELECT id, quantity FROM hits WHERE quantity IS NOT NULL
    ORDER BY quantity DESC, id LIMIT 5%`,
  'the most frequent name of a day': `SELECT day, mode(country) AS country, count(*) AS n FROM hits
    WHERE country = 'DE' GROUP BY day ORDER BY day`,

  // URLs and texts
  'pages out of urls': `SELECT regexp_extract(url, '^https?://[^/]+(/[^?#]*)', 1) AS page, count(*) AS n FROM hits
    WHERE url IS NOT NULL GROUP BY page ORDER BY n DESC, page`,
  'campaigns out of urls': `SELECT url_decode(regexp_extract(url, 'utm_campaign=([^&#]*)', 1)) AS campaign,
      split_part(split_part(url, 'utm_source=', 2), '&', 1) AS source, count(*) AS n
    FROM hits WHERE url IS NOT NULL GROUP BY ALL ORDER BY campaign, source`,
  'hosts and parts of paths': `SELECT split_part(url, '/', 3) AS host, string_split(split_part(url, '?', 1), '/')[4:] AS parts, count(*) AS n
    FROM hits WHERE url LIKE 'https://%' GROUP BY 1, 2 ORDER BY 2`,
  'names in groups of words': `SELECT CASE name WHEN 'purchase' THEN 'money' WHEN 'refund' THEN 'money' ELSE 'other' END AS kind,
      count(*) AS n, list(DISTINCT name ORDER BY name) AS names
    FROM hits GROUP BY kind ORDER BY kind`,
  'texts by regular expression': `SELECT id, regexp_replace(name, '_(.)', '-\\1', 'g') AS dashed, upper(left(name, 1)) || substr(name, 2) AS capital,
      name ~ '.*_to_.*' AS is_to, name SIMILAR TO '(page|cart).*' AS is_page, position('_' IN name) AS at
    FROM hits WHERE day = '2024-02-26' ORDER BY id`,
  'texts put together': `SELECT concat_ws('/', country, tenant, name) AS joined, lpad(quantity::VARCHAR, 4, '0') AS padded,
      format('{:.2f} of {}', amount, name) AS formatted, replace(tenant, '''', '') AS plain, reverse(id) AS back, contains(url, 'tea') AS has_tea
    FROM hits WHERE name IN ('purchase', 'refund') ORDER BY id LIMIT 20`,
  'letters of all scripts': `SELECT DISTINCT tag, length(tag) AS n, upper(tag) AS upper, strip_accents(tag) AS plain, ascii(tag) AS code, md5(tag) AS sum
    FROM (SELECT unnest(CAST(props->'tags' AS VARCHAR[])) AS tag FROM hits) ORDER BY tag`,

  // JSON, lists, structs, maps
  'items out of JSON arrays': `WITH items AS (${items})
    SELECT sku, sum(qty) AS sold, sum(qty * price) AS revenue FROM items GROUP BY sku ORDER BY sku`,
  'items by json_each': `SELECT e.id, i.key, i.value->>'$.sku' AS sku FROM hits e, json_each(e.props, '$.items') i
    WHERE e.day = '2024-02-27' ORDER BY e.id, i.key`,
  'events with at least two items': `SELECT count(*) AS n FROM hits WHERE json_array_length(props, '$.items') >= 2`,
  'values of JSON in all ways': `SELECT id, props->>'$.utm.source' AS source, props->'items'->0->>'sku' AS sku, json_type(props->'tags') AS type,
      json_keys(props) AS keys, props.n::INT AS n, props['n']::INT + 1 AS next, json_exists(props, '$.utm') AS has
    FROM hits WHERE props IS NOT NULL AND day < '2024-02-28' ORDER BY id`,
  'values of the payload': `SELECT _service_payload->>'$.none' AS none, (_service_payload->>'price')::DECIMAL(9, 2) AS price, _service_payload->'sku' AS sku
    FROM prices ORDER BY price`,
  'lists of tags': `SELECT id, list_transform(CAST(props->'tags' AS VARCHAR[]), x -> upper(x)) AS tags,
      list_filter(CAST(props->'tags' AS VARCHAR[]), lambda x: length(x) > 3) AS longer
    FROM hits WHERE props IS NOT NULL AND day = '2024-02-28' ORDER BY id`,
  'pairs of tags': `SELECT a.tag AS one, b.tag AS two, count(*) AS n FROM
      (SELECT id, unnest(CAST(props->'tags' AS VARCHAR[])) AS tag FROM hits) a JOIN
      (SELECT id, unnest(CAST(props->'tags' AS VARCHAR[])) AS tag FROM hits) b ON a.id = b.id AND a.tag < b.tag
    GROUP BY ALL ORDER BY ALL`,
  'lists reduced': `SELECT visitor, list_sum(list(quantity)) AS sum, list_aggregate(list(quantity), 'max') AS most,
      len(list(quantity)) AS n, list_sort(list(DISTINCT name)) AS names, [x * 2 FOR x IN [1, 2, 3] IF x > 1] AS comprehended
    FROM hits WHERE visitor = 'v2' OR visitor = 'v4' GROUP BY visitor ORDER BY visitor`,
  'structs of figures': `SELECT name, {'n': count(*), 'most': max(quantity), 'last': max(ts)} AS figures, struct_pack(a := min(quantity)).a AS least
    FROM hits GROUP BY name ORDER BY name`,
  'maps of counts': `SELECT country, histogram(name) AS names, map_keys(histogram(name)) AS keys, map {'a': 1}['a'] AS one
    FROM hits WHERE name IN ('purchase', 'refund') GROUP BY country ORDER BY country NULLS LAST`,
  'rows as JSON': `SELECT json_object('id', id, 'n', quantity) AS object, to_json([quantity, 1]) AS list, json(props->'tags') AS tags
    FROM hits WHERE day = '2024-02-29' ORDER BY id`,

  // Times
  'a calendar with empty days': `SELECT d.day::DATE AS day, count(e.id) AS refunds
    FROM generate_series(TIMESTAMP '2024-02-24', TIMESTAMP '2024-03-12', INTERVAL 1 DAY) AS d(day)
    LEFT JOIN hits e ON e.day = d.day::DATE AND e.name = 'refund' GROUP BY 1 ORDER BY 1`,
  'a calendar by unnest and range': `SELECT hour, count(e.id) AS n FROM (SELECT unnest(range(24)) AS hour) h
    LEFT JOIN hits e ON extract(hour FROM e.ts) = h.hour GROUP BY hour ORDER BY hour`,
  'a calendar by recursion': `WITH RECURSIVE days(day) AS (SELECT DATE '2024-02-26' UNION ALL SELECT day + 1 FROM days WHERE day < '2024-03-02')
    SELECT day, (SELECT count(*) FROM hits e WHERE e.day = days.day) AS n FROM days ORDER BY day`,
  'buckets of fifteen minutes': `SELECT time_bucket(INTERVAL '15 minutes', ts) AS bucket, count(*) AS n FROM hits
    WHERE ts >= '2024-02-26' AND ts < '2024-02-28' GROUP BY bucket ORDER BY bucket`,
  'days and hours by name': `SELECT dayname(ts) AS day, isodow(ts) AS number, hour(ts) // 6 AS quarter, count(*) AS n
    FROM hits GROUP BY ALL ORDER BY number, quarter`,
  'times as texts and numbers': `SELECT id, strftime(ts, '%Y-%m-%d %H:%M:%S.%f') AS text, epoch_ms(ts) AS ms, epoch(ts) AS seconds,
      ts::DATE AS day, ts::TIME AS time, last_day(ts) AS last, year(ts) * 100 + month(ts) AS month, monthname(ts) AS name
    FROM hits WHERE day = '2024-02-29' ORDER BY id`,
  'the clock of other places': {
    sql: `SELECT date_trunc('day', ts AT TIME ZONE 'America/New_York') AS day, count(*) AS n,
      min(ts AT TIME ZONE 'Asia/Kathmandu') AS first FROM hits GROUP BY 1 ORDER BY 1`,
    plain: `SELECT date_trunc('day', ts AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York') AS day, count(*) AS n,
      min(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Kathmandu') AS first FROM hits GROUP BY 1 ORDER BY 1`,
  },
  'differences of times': `SELECT id, date_diff('hour', day::TIMESTAMP, ts) AS hours, age(ts, TIMESTAMP '2024-01-01') AS age, ts - day::TIMESTAMP AS since,
      ts + INTERVAL '1 month 2 days' AS later, INTERVAL 90 MINUTE AS interval
    FROM hits WHERE day = '2024-02-26' ORDER BY id`,
  'nothing of the future': `SELECT count(*) AS n FROM hits WHERE ts > now() + INTERVAL '1 day' OR ts > current_date + 1`,

  // Distributions
  'a histogram of quantities': `SELECT floor(quantity / 5) * 5 AS bin, count(*) AS n, bar(count(*), 0, 100, 10) AS bar
    FROM hits WHERE quantity IS NOT NULL GROUP BY bin ORDER BY bin`,
  'a histogram by width': `SELECT least(width, 4) AS bin, count(*) AS n FROM (SELECT (quantity // 6) AS width FROM hits WHERE quantity >= 0)
    GROUP BY bin ORDER BY bin`,
  'percentiles by group': `SELECT name, quantile_cont(quantity, 0.5) AS median, quantile_cont(quantity, [0.25, 0.9]) AS more,
      percentile_cont(0.9) WITHIN GROUP (ORDER BY quantity) AS p90, quantile_disc(quantity, 0.9) AS disc
    FROM hits GROUP BY name ORDER BY name`,
  'spread and correlation': `SELECT name, round(stddev_samp(quantity), 6) AS spread, round(corr(quantity, length(url)), 6) AS corr,
      round(regr_slope(quantity, length(url)), 6) AS slope, mad(quantity) AS mad
    FROM hits GROUP BY name ORDER BY name`,
  'flags over groups': `SELECT country, bool_and(paid) AS all_paid, bool_or(paid) AS any_paid, count_if(paid) AS paid,
      count(*) FILTER (paid IS NULL) AS unknown, avg(paid::INT) AS share
    FROM hits GROUP BY country ORDER BY country NULLS FIRST`,
  'outliers beyond twice the median': `SELECT id, quantity FROM hits
    WHERE quantity > 2 * (SELECT median(quantity) FROM hits) AND quantity > ALL (SELECT quantity - 90 FROM hits WHERE quantity IS NOT NULL)
    ORDER BY quantity DESC, id`,

  // Totals and shapes
  'totals by ROLLUP': `SELECT country, name, count(*) AS n, grouping(country, name) AS level FROM hits
    GROUP BY ROLLUP (country, name) ORDER BY level, country NULLS LAST, name NULLS LAST`,
  'totals by CUBE': `SELECT tenant, paid, sum(quantity) AS n, grouping_id(tenant, paid) AS level FROM hits
    GROUP BY CUBE (tenant, paid) ORDER BY level, tenant NULLS LAST, paid NULLS LAST`,
  'totals by GROUPING SETS': `SELECT name, day, count(*) AS n FROM hits WHERE day < '2024-02-29'
    GROUP BY GROUPING SETS ((name), (day), ()) ORDER BY name NULLS LAST, day NULLS LAST`,
  'columns out of rows': `SELECT day, count(*) FILTER (name = 'page_view') AS views, count(*) FILTER (name = 'purchase') AS purchases,
      sum(CASE WHEN name = 'refund' THEN amount END) AS refunded
    FROM hits GROUP BY day HAVING views > 2 ORDER BY day`,
  'all columns but some': `SELECT * EXCLUDE (props) REPLACE (upper(name) AS name) FROM hits
    WHERE day = '2024-02-27' ORDER BY id`,
  'aliases of the same SELECT': `SELECT quantity * 2 AS twice, twice + 1 AS more FROM hits WHERE more > 45 ORDER BY more, twice LIMIT 5`,
  'figures of two pools under another': `SELECT 'events' AS pool, count(*) AS n FROM hits UNION ALL BY NAME
    SELECT count(*) AS n, 'visitors' AS pool, max(plan) AS plan FROM visitors ORDER BY pool`,
  'visitors of one set and not the other': `(SELECT visitor FROM hits WHERE name = 'search' EXCEPT SELECT visitor FROM hits WHERE name = 'refund')
    UNION SELECT id FROM visitors WHERE plan = 'pro' ORDER BY 1 NULLS LAST`,
  'every output ordered': `SELECT country, tenant, count(*) AS n FROM hits GROUP BY ALL ORDER BY ALL DESC NULLS LAST`,
  'days as a table of values': `SELECT v.label, count(e.id) AS n FROM (VALUES ('view', 'page_view'), ('money', 'purchase')) AS v(label, name)
    LEFT JOIN hits e ON e.name = v.name GROUP BY v.label ORDER BY v.label`,
  'a table without a pool': `SELECT 1 AS one, 'x' AS text, 2 ** 10 AS power, 7 // 2 AS whole, 7 % 4 AS rest, 10 / 4 AS real, NULL AS none`,
  'a table of values alone': `VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC`,

  // Joins
  'the price at the time of an event': `SELECT i.id, i.sku, p.price FROM (${items}) i ASOF JOIN prices p ON i.sku = p.sku AND i.ts >= p.since
    ORDER BY i.id, i.sku, p.price`,
  'the price, or none before the first': `SELECT i.id, i.sku, p.price FROM (${items}) i ASOF LEFT JOIN prices p ON i.sku = p.sku AND i.ts >= p.since
    ORDER BY i.id, i.sku, p.price NULLS LAST LIMIT 40`,
  'the last three events of each visitor': `SELECT v.id, l.name, l.ts FROM visitors v,
      LATERAL (SELECT name, ts FROM hits e WHERE e.visitor = v.id ORDER BY ts DESC LIMIT 3) l ORDER BY v.id, l.ts`,
  'visitors with their events, in all ways': `SELECT v.id, v.plan, e.n FROM (SELECT visitor AS id, count(*) AS n FROM hits GROUP BY visitor) e
    FULL JOIN visitors v USING (id) ORDER BY v.id NULLS LAST, n`,
  'a natural join': `SELECT count(*) AS n, count(DISTINCT id) AS ids FROM (SELECT visitor AS id, country FROM hits) NATURAL JOIN visitors`,
  'visitors without an event': `SELECT id FROM visitors v WHERE NOT EXISTS (FROM hits e WHERE e.visitor = v.id) ORDER BY id`,
  'half joins': `SELECT id FROM visitors v SEMI JOIN hits e ON e.visitor = v.id AND e.name = 'purchase' ORDER BY id`,
  'who shares a country, once each': `SELECT a.id AS one, b.id AS two FROM visitors a JOIN visitors b ON a.country IS NOT DISTINCT FROM b.country AND a.id < b.id
    ORDER BY ALL LIMIT 12`,

  // Types
  'numbers that may be none': `SELECT id, TRY_CAST(country AS INT) AS none, TRY_CAST(substr(id, 2) AS INT) AS number, quantity::VARCHAR || '' AS text,
      coalesce(nullif(country, 'DE'), 'none') AS country, greatest(quantity, 5) AS at_least, paid IS TRUE AS is_paid, iff
    FROM (SELECT *, if(paid, 1, 2) AS iff FROM hits) WHERE day = '2024-02-28' ORDER BY id`,
  'exact money': `SELECT name, sum(amount::DECIMAL(18, 4)) AS sum, avg(amount)::DECIMAL(10, 3) AS average, sum(quantity)::HUGEINT * 1000000000000000000 AS large
    FROM hits GROUP BY name ORDER BY name`,
  'identifiers and bits': `SELECT '00000000-0000-0000-0000-00000000000a'::UUID AS id, 5 & 3 AS both, 5 | 3 AS any, xor(5, 3) AS one, 1 << 4 AS shifted, bit_count(7) AS bits`,
  mathematics: `SELECT id, round(sqrt(quantity), 6) AS root, round(ln(quantity + 1), 6) AS ln, round(log10(quantity + 1), 6) AS log, power(quantity, 2) AS square,
      sign(quantity - 5) AS sign, mod(quantity, 3) AS rest, trunc(quantity / 4) AS whole, abs(-quantity) AS absolute, round(pi(), 5) AS pi
    FROM hits WHERE quantity IS NOT NULL AND day = '2024-02-26' ORDER BY id`,

  // What Weir limits, or writes in its own way
  'patterns of LIKE': `SELECT t.t, p.p, t LIKE p AS "like", t NOT LIKE p AS not_like, t ILIKE p AS ilike, t NOT ILIKE p AS not_ilike, t LIKE 'a!%c' ESCAPE '!' AS escaped
    FROM (VALUES ('abc'), ('ABC'), (''), ('a%c'), ('a_c'), ('a.c'), ('ac'), ('über'), ('two\nlines'), ('$^'), (NULL)) t(t),
      (VALUES ('abc'), ('a%'), ('%c'), ('_b_'), ('%'), (''), ('a!%c'), ('a!_c'), ('a%'), ('a.c'), ('Ü___'), ('$^'), ('%li%'), ('[a]%'), (NULL)) p(p)
    ORDER BY ALL`,
  'constant patterns of LIKE': `SELECT name, name LIKE '%_view' AS a, name LIKE 'p%_view' AS b, name LIKE '%a%r%' AS c, name ILIKE 'PAGE!_%' ESCAPE '!' AS d, name NOT LIKE 'page%' AS e, count(*) AS n
    FROM hits WHERE url LIKE 'https://%' AND url NOT LIKE '%zzz' GROUP BY ALL ORDER BY name`,
  'texts that grow': `SELECT id, repeat(name, 2) AS twice, repeat(name, 0) AS none, lpad(name, 12, 'üß') AS l, rpad(name, 3, '.') AS r, replace(name, 'e', '') AS short, replace(name, '', 'x') AS same,
      regexp_replace(name, '([a-e])', '<\\1>') AS once, regexp_replace(name, '[A-E]', '', 'gi') AS none_of, levenshtein(name, 'page') AS distance, jaro_similarity(name, 'page') > 0.5 AS is_like
    FROM hits WHERE day = '2024-02-28' ORDER BY id`,
  'lists of ranges': `SELECT range(3) AS a, range(2, 5) AS b, range(5, 0, -2) AS c, generate_series(3) AS d, generate_series(1, 2) AS e, range(0) AS f, range(3, 1) AS g, range(NULL) AS h,
      generate_series(DATE '2024-01-30', DATE '2024-03-01', INTERVAL 1 MONTH) AS i, range(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6 hours') AS j, len(range(1000)) AS k,
      list_transform([1, 2], x -> range(x)) AS l, list_resize([1], 3, 0) AS m`,
  'series after FROM': `SELECT a.x, b.y FROM range(1, 4) a(x), generate_series(a.x, 3) b(y), unnest(['p', 'q']) c(z) WHERE z = 'q' ORDER BY ALL`,
  'parts of lists and texts': `SELECT [1, 2, 3][2:] AS a, [1, 2, 3][:2] AS b, [1, 2, 3][-1] AS c, 'abcd'[2:3] AS d, 'abcd'[2:] AS e, [1, 2, 3, 4][1:4:2] AS f, {'a': 1}.a AS g, {'a': {'b': 2}}['a']['b'] AS h`,
  'nulls in orders': `SELECT list(x ORDER BY x DESC) AS down, list(x ORDER BY x) AS up, first(x ORDER BY x DESC) AS first, last(x ORDER BY x) AS last, arg_max(y, x) AS most
    FROM (VALUES (1, 'a'), (NULL, 'b'), (3, 'c')) v(x, y)`,
  'nulls in orders of rows and windows': `SELECT x, row_number() OVER (ORDER BY x DESC) AS down, row_number() OVER (ORDER BY x) AS up, lag(x) OVER (ORDER BY x DESC) AS before
    FROM (VALUES (1), (NULL), (3)) v(x) ORDER BY x DESC`,
  'windows that ignore nulls': `SELECT id, last_value(amount IGNORE NULLS) OVER (ORDER BY ts, id ROWS UNBOUNDED PRECEDING) AS latest, nth_value(name, 2) OVER (ORDER BY ts, id) AS second,
      count(DISTINCT name) OVER (ORDER BY ts, id) AS names
    FROM hits WHERE day <= '2024-02-27' ORDER BY ts, id`,
  'constants of all types': `SELECT 0.1 AS a, 1e3 AS b, -0.0 AS c, 9223372036854775808 AS d, 12345678901234567890.12 AS e, true AS f, DATE '2024-02-29' AS g, TIMESTAMP '2024-02-29 12:00:00.000001' AS h, 'it''s' AS i,
      INTERVAL '1 year 2 months -3 days 04:05:06.5' AS j, TIME '23:59:59.999999' AS k, [] AS l, [NULL, 'a"b'] AS m, {'x': NULL, 'y': [1.5, 2]} AS n, map {'k': DATE '2024-01-01'} AS o,
      0.1::FLOAT AS p, 170141183460469231731687303715884105727 AS q, 1.50::DECIMAL(9, 2) AS r, 'NaN'::DOUBLE AS s, TIMESTAMPTZ '2024-01-01 00:00:00+02' AS t`,

  // Parameters and dialects
  'parameters by position': {
    sql: 'SELECT id, quantity FROM hits WHERE name = $1 AND quantity >= $2 ORDER BY id LIMIT 7',
    parameters: [{ value: 'purchase' }, { value: '5', type: 'INT64' }],
  },
  'parameters by name': {
    sql: 'SELECT $name AS name, count(*) AS n FROM hits WHERE name = $name AND tenant <> $tenant',
    parameters: [
      { name: 'name', value: 'search' },
      { name: 'tenant', value: "east's" },
    ],
  },
  'a parameter is a value, whatever it holds': {
    sql: 'SELECT $1 AS text, count(*) FILTER (name = $1) AS n FROM hits',
    parameters: [{ value: "' OR 1 = 1 --" }],
  },
  'functions of ClickHouse': {
    sql: `SELECT toStartOfDay(ts) AS began, uniqExact(visitor) AS visitors, countIf(name = 'purchase') AS purchases, argMax(name, ts) AS last,
      multiIf(count() > 30, 'much', count() > 10, 'some', 'little') AS size FROM \`hits\` GROUP BY began ORDER BY began`,
    plain: `SELECT date_trunc('day', ts) AS began, count(DISTINCT visitor) AS visitors, count_if(name = 'purchase') AS purchases, arg_max(name, ts) AS last,
      CASE WHEN count() > 30 THEN 'much' WHEN count() > 10 THEN 'some' ELSE 'little' END AS size FROM hits GROUP BY began ORDER BY began`,
    dialect: 'CLICKHOUSE',
  },
}
