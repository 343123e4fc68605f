/**
 * The functions that a statement may name, by name. The lists are pinned here, so that a new
 * version of DuckDB adds nothing by itself. All of them are pure but random() and uuid(): none
 * reads a file, a setting, the catalog or the text of the query, and none changes a state. What
 * makes long texts or lists out of short ones is in LIMITED, with a limit.
 *
 * docs/sql-functions.md shows these lists, and a test compares the two.
 */
import { MiB } from '../../util/limits.ts'

const words = (text: string): readonly string[] => text.trim().split(/\s+/)

const OPERATORS = words('!__postfix !~~ % & && * ** + - -> ->> / // <-> << <=> <@ >> @ @> ^ ^@ | || ~ ~~')

const SCALARS = words(`
  abs acos acosh add age ago array_aggr array_aggregate array_append array_apply array_cat
  array_concat array_contains array_cosine_distance array_cosine_similarity array_cross_product
  array_distance array_distinct array_dot_product array_extract array_filter array_grade_up
  array_has array_has_all array_has_any array_indexof array_inner_product array_intersect
  array_length array_negative_dot_product array_negative_inner_product array_pop_back
  array_pop_front array_position array_prepend array_push_back array_push_front array_reverse
  array_reverse_sort array_select array_slice array_sort array_to_json array_to_string
  array_to_string_comma_default array_transform array_unique array_value array_where array_zip
  apply ascii asin asinh atan atan2 atanh bar base64 bin bit_count bit_length bit_position
  cardinality cbrt ceil ceiling century char_length character_length chr concat concat_ws contains
  cos cosh cot date_add date_diff date_part date_sub date_trunc datediff datepart datesub
  datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decode degrees divide
  element_at encode ends_with epoch epoch_ms epoch_ns epoch_us era even exp factorial fdiv filter
  flatten floor fmod formatreadabledecimalsize formatreadablesize format_bytes from_base64
  from_binary from_hex from_json from_json_strict gamma gcd geomean geometric_mean get_bit
  grade_up greatest greatest_common_divisor hamming hash hex hour instr isfinite isinf isnan
  isodow isoyear jaccard json json_array json_array_length json_contains json_exists json_extract
  json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch
  json_object json_pretty json_quote json_structure json_transform json_transform_strict json_type
  json_valid json_value julian last_day lcase lcm least least_common_multiple left left_grapheme
  len length length_grapheme lgamma list_aggr list_aggregate list_any_value list_append list_apply
  list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and
  list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity
  list_count list_distance list_distinct list_dot_product list_element list_entropy list_extract
  list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram
  list_indexof list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last
  list_mad list_max list_median list_min list_mode list_negative_dot_product
  list_negative_inner_product list_pack list_position list_prepend list_product list_reverse
  list_reverse_sort list_select list_sem list_skewness list_slice list_sort list_stddev_pop
  list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
  list_var_samp list_where list_zip ln log log10 log2 lower ltrim make_date make_time
  make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains
  map_contains_entry map_contains_value map_entries map_extract map_extract_value map_from_entries
  map_keys map_values md5 md5_number microsecond millennium millisecond minute mismatches mod
  month monthname multiply nanosecond nextafter nfc_normalize normalized_interval nullif
  octet_length ord parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path pi
  position pow power prefix quarter radians random regexp_escape regexp_extract regexp_extract_all
  regexp_full_match regexp_matches regexp_split_to_array reverse right right_grapheme round
  round_even roundbankers row row_to_json rtrim second set_bit sha1 sha256 sign signbit sin sinh
  split split_part sqrt starts_with str_split str_split_regex strftime string_split
  string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat
  struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
  struct_keys struct_pack struct_position struct_update struct_values substr substring
  substring_grapheme subtract suffix tan tanh time_bucket timezone timezone_hour timezone_minute
  to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json
  to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds
  to_timestamp to_weeks to_years today translate trim trunc try_strptime typeof ucase unbin unhex
  unicode upper url_decode url_encode uuid gen_random_uuid uuidv4 uuidv7 uuid_extract_timestamp
  uuid_extract_version version week weekday weekofyear year yearweek`)

const AGGREGATES = words(`
  any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
  arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and
  bit_or bit_xor bool_and bool_or corr count count_if count_star countif covar_pop covar_samp
  entropy favg first fsum group_concat histogram histogram_exact json_group_array
  json_group_object kahan_sum kurtosis kurtosis_pop last list listagg mad max max_by mean median
  min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count
  regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop
  stddev_samp string_agg sum sum_no_overflow sumkahan var_pop var_samp variance wavg weighted_avg`)

/** Functions that need OVER. All aggregates may have it. */
const WINDOWS = words(`
  cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank
  rank_dense row_number`)

/** Functions after FROM. They make their rows one by one. */
const TABLES = words('generate_series range unnest json_each json_tree')

/** Characters of a text that repeat and its kin make, and elements of a list of range. */
export const TEXTS_MAX = 65_536
export const LISTS_MAX = 100_000

/**
 * What makes a long value out of short ones, as macros with a limit. An argument beyond it is an
 * error before anything is made, so the check stands inside of the argument.
 */
const LIMITED: Readonly<Record<string, string>> = {
  repeat: text('repeat', '(s, n)', 'length(s) * n', TEXTS_MAX),
  lpad: text('lpad', '(s, n, c)', 'n', TEXTS_MAX),
  rpad: text('rpad', '(s, n, c)', 'n', TEXTS_MAX),
  list_resize: `(l, n, v := NULL) AS list_resize(l, ${atMost('n', 'n', 'list_resize', LISTS_MAX)}, v)`,
  range: series('range', LISTS_MAX),
  generate_series: series('generate_series', LISTS_MAX),
  range_time: series('range', LISTS_MAX, 'epoch'),
  generate_series_time: series('generate_series', LISTS_MAX, 'epoch'),
  replace: `(s, a, b) AS replace(s, a, ${atMost('b', 'length(s) // greatest(1, length(a)) * length(b)', 'replace', MiB)})`,
  regexp_replace: `(s, a, b, o := '') AS regexp_replace(s, a, ${atMost('b', '(length(s) + 1) * length(b)', 'regexp_replace', 4 * MiB)}, o)`,
  // They take the product of both lengths.
  ...Object.fromEntries(
    ['levenshtein', 'editdist3', 'damerau_levenshtein', 'jaro_similarity', 'jaro_winkler_similarity'].map(
      name => [name, `(a, b) AS ${name}(${atMost('a', 'length(a) * length(b)', name, MiB)}, b)`],
    ),
  ),
  // Inside of a lambda each element makes one.
  repeat_inner: text('repeat', '(s, n)', 'length(s) * n', 1_000),
  lpad_inner: text('lpad', '(s, n, c)', 'n', 1_000),
  rpad_inner: text('rpad', '(s, n, c)', 'n', 1_000),
  range_inner: series('range', 1_000),
  generate_series_inner: series('generate_series', 1_000),
  // DuckDB's own tries every position for each %, and hears no interrupt. RE2 is linear.
  like: likeMacro('(?s)'),
  ilike: likeMacro('(?si)'),
}

/** A text of `size` characters, which the argument `n` says. */
function text(name: string, parameters: string, size: string, max: number): string {
  const call = parameters.replace('n', atMost('n', size, name, max))
  return `${parameters} AS ${name}${call}`
}

function likeMacro(options: string): string {
  const any = "replace(replace(regexp_escape(p), '\\%', '.*'), '_', '.')"
  return `(s, p) AS regexp_full_match(s, '(${options}' || ${any} || ')')`
}

function atMost(value: string, size: string, name: string, max: number): string {
  return `CASE WHEN ${size} > ${max} THEN error('${name}: more than ${max} are not made') ELSE ${value} END`
}

/** A list from `a` to `b` by `c`. Times are measured in seconds by `unit`. */
function series(name: string, max: number, unit = ''): string {
  const size = `abs((${unit}(b) - ${unit}(a)) / nullif(${unit}(c), 0))`
  return `(a, b, c) AS ${name}(a, ${atMost('b', size, name, max)}, c)`
}

/** Functions of PostgreSQL and ClickHouse that DuckDB lacks, as macros of its own functions. */
const MACROS: Readonly<Record<string, string>> = {
  adddays: '(t, n) AS t + to_days(CAST(n AS INTEGER))',
  addhours: '(t, n) AS t + to_hours(n)',
  addminutes: '(t, n) AS t + to_minutes(n)',
  addmonths: '(t, n) AS t + to_months(CAST(n AS INTEGER))',
  addseconds: '(t, n) AS t + to_seconds(n)',
  addweeks: '(t, n) AS t + to_weeks(CAST(n AS INTEGER))',
  addyears: '(t, n) AS t + to_years(CAST(n AS INTEGER))',
  subtractdays: '(t, n) AS t - to_days(CAST(n AS INTEGER))',
  subtracthours: '(t, n) AS t - to_hours(n)',
  subtractminutes: '(t, n) AS t - to_minutes(n)',
  subtractmonths: '(t, n) AS t - to_months(CAST(n AS INTEGER))',
  subtractseconds: '(t, n) AS t - to_seconds(n)',
  subtractweeks: '(t, n) AS t - to_weeks(CAST(n AS INTEGER))',
  subtractyears: '(t, n) AS t - to_years(CAST(n AS INTEGER))',
  arrayelement: '(l, n) AS list_extract(l, n)',
  domain: `(u) AS regexp_extract(u, '^(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//(?:[^/?#@]*@)?([^/?#:@]*)', 1)`,
  path: `(u) AS regexp_extract(u, '^(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//[^/?#]*([^?#]*)', 1)`,
  extracturlparameter: `(u, k) AS coalesce(regexp_extract(u, '[?&]' || regexp_escape(k) || '=([^&#]*)', 1), '')`,
  empty: '(v) AS len(v) = 0',
  notempty: '(v) AS len(v) > 0',
  initcap: `(s) AS array_to_string(list_transform(regexp_extract_all(s, '[\\p{L}\\p{N}]+|[^\\p{L}\\p{N}]+'), lambda w: upper(w[1]) || lower(w[2:])), '')`,
  intdiv: '(a, b) AS a // b',
  jsonhas: `(j, k) AS coalesce(json_contains(json_keys(j)::JSON, to_json(k)), false)`,
  jsonlength: `(j) AS coalesce(CASE json_type(j) WHEN 'OBJECT' THEN len(json_keys(j)) WHEN 'ARRAY' THEN json_array_length(j) END, 0)`,
  overlay: '(s, r, a, n := NULL) AS left(s, a - 1) || r || substring(s, a + coalesce(n, length(r)))',
  protocol: `(u) AS regexp_extract(u, '^([a-zA-Z][a-zA-Z0-9+.-]*)://', 1)`,
  todayofweek: '(t) AS isodow(t)',
  todayofyear: '(t) AS dayofyear(t)',
  tomonday: `(t) AS date_trunc('week', CAST(t AS TIMESTAMP))`,
  tostartofday: `(t) AS date_trunc('day', CAST(t AS TIMESTAMP))`,
  tostartoffifteenminutes: '(t) AS time_bucket(INTERVAL 15 MINUTE, CAST(t AS TIMESTAMP))',
  tostartoffiveminutes: '(t) AS time_bucket(INTERVAL 5 MINUTE, CAST(t AS TIMESTAMP))',
  tostartofhour: `(t) AS date_trunc('hour', CAST(t AS TIMESTAMP))`,
  tostartofminute: `(t) AS date_trunc('minute', CAST(t AS TIMESTAMP))`,
  tostartofmonth: `(t) AS date_trunc('month', CAST(t AS TIMESTAMP))`,
  tostartofquarter: `(t) AS date_trunc('quarter', CAST(t AS TIMESTAMP))`,
  tostartofsecond: `(t) AS date_trunc('second', CAST(t AS TIMESTAMP))`,
  tostartoftenminutes: '(t) AS time_bucket(INTERVAL 10 MINUTE, CAST(t AS TIMESTAMP))',
  // ClickHouse's weeks begin on Sundays here, and those of toMonday on Mondays.
  tostartofweek: `(t) AS date_trunc('week', CAST(t AS TIMESTAMP) + INTERVAL 1 DAY) - INTERVAL 1 DAY`,
  tostartofyear: `(t) AS date_trunc('year', CAST(t AS TIMESTAMP))`,
  tounixtimestamp: '(t) AS CAST(floor(epoch(CAST(t AS TIMESTAMP))) AS BIGINT)',
  toyyyymm: '(t) AS year(t) * 100 + month(t)',
  toyyyymmdd: '(t) AS year(t) * 10000 + month(t) * 100 + day(t)',
  width_bucket:
    '(v, a, b, n) AS CASE WHEN v < a THEN 0 WHEN v >= b THEN n + 1 ELSE CAST(floor((v - a) / (b - a) * n) AS BIGINT) + 1 END',
  // DuckDB's own takes no truth values.
  xor: '(a, b) AS xor(CAST(a AS BIGINT), CAST(b AS BIGINT))',
  yesterday: '() AS current_date - 1',
}

/** Other names of functions with equal arguments. */
export const RENAMED: Readonly<Record<string, string>> = {
  anylast: 'last',
  argmax: 'arg_max',
  argmin: 'arg_min',
  arraydistinct: 'list_distinct',
  arrayjoin: 'unnest',
  average: 'avg',
  char: 'chr',
  endswith: 'ends_with',
  every: 'bool_and',
  grouparray: 'list',
  has: 'list_contains',
  jsonextractkeys: 'json_keys',
  lengthutf8: 'length',
  lowerutf8: 'lower',
  match: 'regexp_matches',
  // DuckDB's is quantile_disc, and Weir's has always been this one.
  quantile: 'quantile_cont',
  quantileexact: 'quantile_disc',
  replaceall: 'replace',
  startswith: 'starts_with',
  stddevpop: 'stddev_pop',
  stddevsamp: 'stddev_samp',
  todayofmonth: 'day',
  tohour: 'hour',
  tominute: 'minute',
  tomonth: 'month',
  toquarter: 'quarter',
  tosecond: 'second',
  toyear: 'year',
  uniqcombined: 'approx_count_distinct',
  uniqhll12: 'approx_count_distinct',
  upperutf8: 'upper',
  varpop: 'var_pop',
  varsamp: 'var_samp',
}

/** Names that no pool, column or user's function can have. */
export function macroName(name: string): string {
  return `_service_${name}`
}

/** The statements that make the macros in an instance of DuckDB. */
export const MAKE_MACROS: readonly string[] = [LIMITED, MACROS].flatMap(macros =>
  Object.entries(macros).map(([name, body]) => `CREATE MACRO ${macroName(name)}${body}`),
)

const PLAIN: ReadonlySet<string> = new Set([...OPERATORS, ...SCALARS, ...AGGREGATES])
const OVER: ReadonlySet<string> = new Set([...WINDOWS, ...AGGREGATES])
const FROM: ReadonlySet<string> = new Set(TABLES)
const MACRO_NAMES: ReadonlySet<string> = new Set([...Object.keys(LIMITED), ...Object.keys(MACROS)])

/** Functions of a list that take the name of an aggregate. */
export const TAKES_AGGREGATE: ReadonlySet<string> = new Set(
  words('aggregate array_aggr array_aggregate list_aggr list_aggregate'),
)
/** DuckDB's own macros of the lists, and what is rewritten so, that name an argument twice. */
const COPYING: ReadonlySet<string> = new Set(
  words(`array_pop_back array_pop_front array_resize array_to_string array_to_string_comma_default
    days_in_month decode fdiv fmod generate_series geomean geometric_mean json_group_array
    json_group_object nullif range round_even roundbankers split_part wavg weighted_avg`),
)
/** How often a call names an argument at most: of calls in calls the copies multiply. */
export function copiesOf(name: string): number {
  if (name === 'jsonlength') return 4
  return isCallable(name) || COPYING.has(name) ? 2 : 1
}

export const isPlain = (name: string): boolean => PLAIN.has(name)
export const isOver = (name: string): boolean => OVER.has(name)
export const isTable = (name: string): boolean => FROM.has(name)
/** With those that stand for others in lambdas, over times and for LIKE. */
export const isMacro = (name: string): boolean => MACRO_NAMES.has(name)
/** A macro that a statement may name. */
export const isCallable = (name: string): boolean => isMacro(name) && !/_(?:inner|time)$|^i?like$/.test(name)

/** By kind, for docs/sql-functions.md and for the nearest name. */
export const LISTED = {
  scalars: [...SCALARS, ...Object.keys(LIMITED).filter(name => isCallable(name))],
  aggregates: AGGREGATES,
  windows: WINDOWS,
  tables: TABLES,
  others: [...Object.keys(MACROS), ...Object.keys(RENAMED)],
}
