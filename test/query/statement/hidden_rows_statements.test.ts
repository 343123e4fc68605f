/**
 * The barrier below statements in DuckDB's own SQL: whatever form a statement has, only the policy
 * reaches the scan, and no error, no value and no order comes of a hidden row.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask } from '../../../src/query/ask.ts'
import { segmentPins } from '../../../src/query/pin-segments.ts'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import type { Askable } from '../../../src/query/plan/question.ts'
import { type NativeQuestion, nativeSql } from '../../../src/query/sql/native-question.ts'
import { below, casesOf, newSeed, randomFrom } from '../../util/random.ts'
import {
  type Ask,
  asked,
  Barrier,
  belowBarriers,
  countOf,
  everything,
  isEmpty,
  isScan,
  limited,
  planOf,
  SEEN,
} from '../barrier.ts'
import { schemaOf, TestPool } from '../pool.ts'

const POLICIES: readonly Partial<RowPolicy>[] = [
  { rows: [{ column: 'tenant', operator: 'EQUALS', value: 'a' }], columns: SEEN },
  { filterSql: "tenant IN ('a', 'c')" },
  { filterSql: 'n < 700 AND x > 20' },
  { filterSql: "name IS NULL OR late > 2 OR (doc->>'k') = 'k1'" },
  { filterSql: "day > '1970-01-01' AND flag", columns: SEEN },
  { filterSql: "ts < '1970-01-01T00:20:00Z' AND tenant <> 'b'" },
]

/** Statements over `p`, whose columns are those of barrier.ts without the tenant. */
const STATEMENTS: Readonly<Record<string, string>> = {
  'every column': 'SELECT * EXCLUDE (doc) FROM p',
  'a filter beyond every row': 'SELECT name FROM p WHERE n > 5000000',
  'a filter on a text': "SELECT count(*) FROM p WHERE upper(name) = 'N7' OR name LIKE 'n%3%'",
  'a regular expression': "SELECT count(*) FROM p WHERE regexp_matches(name, 'n[1-3]+$')",
  'a cast that may fail': 'SELECT count(*) FROM p WHERE TRY_CAST(name AS INT) IS NULL',
  'a filter on JSON': "SELECT name FROM p WHERE doc->>'k' = 'k2'",
  'CASE with an operand': 'SELECT CASE n WHEN 7 THEN length(repeat(name, 50)) ELSE 0 END FROM p',
  'windows with frames':
    'SELECT n, sum(x) OVER (PARTITION BY name ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM p WHERE n > 30',
  'WINDOW and QUALIFY':
    'SELECT n, row_number() OVER w AS r FROM p WINDOW w AS (PARTITION BY name ORDER BY n DESC) QUALIFY r <= 2',
  'lag in a subquery':
    'SELECT * FROM (SELECT n, lag(n) OVER (ORDER BY n) AS before FROM p) WHERE n - before > 1',
  'DISTINCT ON': 'SELECT DISTINCT ON (name) name, n FROM p ORDER BY name, n DESC',
  'groups of all':
    'SELECT name, flag, max(n) FROM p WHERE n > 10 GROUP BY ALL HAVING max(n) > 50 ORDER BY ALL',
  ROLLUP: 'SELECT name, flag, count(*) FROM p GROUP BY ROLLUP (name, flag)',
  CUBE: 'SELECT day, flag, count(*) FROM p GROUP BY CUBE (day, flag)',
  'GROUPING SETS': 'SELECT day, name, count(*) FROM p GROUP BY GROUPING SETS ((day), (name), ())',
  'aggregates with FILTER': "SELECT count(*) FILTER (name = 'n1'), max(x) FILTER (n < 5) FROM p",
  'least and greatest': 'SELECT min(n), max(n), min(name), max(ts) FROM p',
  percentiles: 'SELECT name, quantile_cont(x, [0.5, 0.9]), mode(n) FROM p GROUP BY name',
  'arg_max and lists': "SELECT arg_max(name, n), list(n ORDER BY n)[1:3], string_agg(name, ',') FROM p",
  'the newest rows': 'SELECT n, ts FROM p ORDER BY ts DESC LIMIT 5',
  'a part of the rows': 'SELECT n FROM p ORDER BY x LIMIT 10%',
  'a correlated subquery': 'SELECT n FROM p a WHERE x > (SELECT avg(x) FROM p b WHERE b.name = a.name)',
  'EXISTS and NOT IN':
    'SELECT n FROM p a WHERE EXISTS (FROM p b WHERE b.n = a.n + 1) AND n NOT IN (SELECT n FROM p WHERE n < 3)',
  LATERAL:
    'SELECT a.n, l.m FROM p a, LATERAL (SELECT max(b.n) AS m FROM p b WHERE b.name = a.name AND b.n < a.n) l',
  ASOF: 'SELECT a.n, b.n FROM p a ASOF JOIN p b ON a.name = b.name AND a.ts > b.ts',
  'a join with few rows': 'SELECT p.name FROM p JOIN (VALUES (5), (7)) v(g) ON p.n = v.g',
  'a natural join':
    'SELECT count(*) FROM (SELECT n, x FROM p) NATURAL JOIN (SELECT n, name FROM p WHERE n > 100)',
  'semi and anti joins': 'SELECT a.n FROM p a SEMI JOIN p b ON a.n = b.n + 3 ANTI JOIN p c ON a.n = c.n * 2',
  'a calendar': 'SELECT g, count(n) FROM generate_series(0, 100) t(g) LEFT JOIN p ON p.n = g GROUP BY g',
  'a recursion':
    'WITH RECURSIVE r AS (SELECT min(n) AS n FROM p UNION ALL SELECT p.n FROM r JOIN p ON p.n > r.n AND p.n <= r.n + 3 WHERE r.n < 12) SELECT count(*) FROM r',
  'common tables':
    'WITH a AS (SELECT name, n FROM p WHERE n > 3), b AS MATERIALIZED (FROM a) SELECT a.n FROM a JOIN b USING (n) WHERE b.n < 90',
  'UNION BY NAME': 'SELECT n, name FROM p WHERE n < 5 UNION ALL BY NAME SELECT name, x FROM p WHERE x > 480',
  'INTERSECT and EXCEPT':
    '(SELECT name FROM p WHERE n < 50 INTERSECT SELECT name FROM p WHERE n > 10) EXCEPT SELECT name FROM p WHERE flag',
  'lambdas and structs':
    "SELECT list_transform([n, late], v -> v * 2), {'n': n, 'x': x} FROM p WHERE list_contains([5, 7, 9], n)",
  'unnested JSON': 'SELECT n, unnest(json_keys(doc)) FROM p WHERE n % 100 = 1',
  'a row as a value': 'SELECT p FROM p WHERE p.n = 5',
  'COLUMNS of a pattern': "SELECT max(COLUMNS('n|x')) FROM p",
  'times and zones':
    "SELECT time_bucket(INTERVAL 5 MINUTE, ts), ts AT TIME ZONE 'Asia/Tokyo' FROM p WHERE extract(minute FROM ts) = 3",
  'an alias in WHERE': 'SELECT length(name) + n AS size FROM p WHERE size > 300',
  'a shuffle': 'SELECT n FROM p ORDER BY random() LIMIT 3',
}

function statement(text: string): Ask {
  return async (pools, barrier) => {
    const guarded = await barrier.engine.parser.guard(text, 'POSTGRESQL')
    if ('badRequest' in guarded) throw new Error(`${text}: ${guarded.badRequest}`)
    const question: NativeQuestion = {
      statement: guarded,
      poolOf: guarded.pools.map(() => 0),
      bounds: [],
      form: 'rows',
      text: '',
    }
    return await asked(nativeSql as Askable<NativeQuestion>, question)(pools, barrier)
  }
}

let barrier: Barrier
beforeAll(async () => {
  barrier = await Barrier.open()
})
afterAll(() => barrier.close())

/** Layouts other than one file. `npm test` reads each statement's plan in about one of them. */
const OTHER_LAYOUTS = 4
const seed = newSeed()
const random = randomFrom(seed)

describe(`nothing of a statement stands below the barrier, seed ${seed}`, () => {
  test.each(POLICIES.map(policy => [JSON.stringify(policy), policy] as const))(
    'with the policy %s',
    { timeout: 120_000 },
    async (_, policy) => {
      const wrong: string[] = []
      const bare = await barrier.written(everything, [limited(policy)])
      for (const [name, layout] of barrier.layouts) {
        const barePlan = await planOf(layout, bare)
        const [want] = belowBarriers(barePlan)
        for (const [title, text] of Object.entries(STATEMENTS)) {
          if (name !== 'one file' && below(random, OTHER_LAYOUTS) >= casesOf(1, OTHER_LAYOUTS)) continue
          const plan = await planOf(layout, await barrier.written(statement(text), [limited(policy)]))
          const found = belowBarriers(plan)
          const isWhole =
            found.length > 0 &&
            found.every(each => each === want) &&
            countOf(plan, isScan) === found.length * countOf(barePlan, isScan) &&
            countOf(plan, isEmpty) === found.length * countOf(barePlan, isEmpty)
          if (!isWhole) wrong.push(`${title}, ${name}: ${JSON.stringify(found)} instead of ${want}`)
        }
      }
      expect(wrong).toEqual([])
    },
  )
})

test('without a policy the filter of a statement reaches the scan', async () => {
  const layout = barrier.layouts.get('one file')!
  const plan = await planOf(
    layout,
    await barrier.written(statement("SELECT x FROM p WHERE name = 'n1'"), [limited(null)]),
  )
  expect(countOf(plan, each => /name='n1'/.test(String(each.extra_info['Filters'])))).toBe(1)
})

/** Each fails, or has another order or value, where it meets a hidden row. */
const ON_HIDDEN_ROWS: readonly string[] = [
  'SELECT CAST(name AS INT) AS v FROM p ORDER BY v',
  'SELECT n FROM p WHERE CAST(name AS INT) > 2 ORDER BY n',
  'SELECT sum(CAST(name AS INT)) FROM p',
  'SELECT CAST(name AS INT) AS g, count(*) FROM p GROUP BY g ORDER BY g',
  'SELECT count(*) FROM p HAVING max(CAST(name AS INT)) > 0',
  'SELECT n FROM p ORDER BY CAST(name AS INT) DESC LIMIT 3',
  'SELECT n, sum(CAST(name AS INT)) OVER (ORDER BY n) FROM p ORDER BY n',
  'SELECT n, rank() OVER (ORDER BY x DESC), ntile(2) OVER (ORDER BY x) FROM p ORDER BY n',
  'SELECT n FROM p QUALIFY row_number() OVER (ORDER BY CAST(name AS INT) DESC) <= 2 ORDER BY n',
  'SELECT DISTINCT ON (CAST(name AS INT) % 2) n FROM p ORDER BY CAST(name AS INT) % 2, n',
  'SELECT CAST(name AS INT) % 3 AS g, count(*) FROM p GROUP BY ROLLUP (g) ORDER BY g NULLS LAST',
  'SELECT n * 1000000000000000000 FROM p WHERE n < 5 ORDER BY n',
  'SELECT n::TINYINT FROM p ORDER BY n',
  'SELECT x::DECIMAL(4, 1) FROM p ORDER BY x',
  'SELECT sqrt(x), ln(x) FROM p ORDER BY x',
  "SELECT CAST(doc->>'k' AS INT) AS k FROM p ORDER BY k",
  "SELECT json_extract(name, '$') FROM p ORDER BY n",
  'SELECT make_date(2024, n::INT, 1) FROM p ORDER BY n',
  'SELECT a.n, b.n FROM p a JOIN p b ON CAST(a.name AS INT) = CAST(b.name AS INT) + 1 ORDER BY a.n',
  'SELECT a.n, b.n FROM p a ASOF JOIN p b ON a.n > b.n ORDER BY a.n',
  'SELECT n, (SELECT max(CAST(b.name AS INT)) FROM p b WHERE b.n < a.n) FROM p a ORDER BY n',
  'SELECT a.n, l.v FROM p a, LATERAL (SELECT CAST(a.name AS INT) AS v) l ORDER BY a.n',
  'SELECT n FROM p WHERE CAST(name AS INT) IN (SELECT CAST(name AS INT) FROM p) ORDER BY n',
  'SELECT n, unnest(range(CAST(name AS INT) % 3)) AS u FROM p ORDER BY ALL',
  'SELECT list_transform([name], v -> CAST(v AS INT)) FROM p ORDER BY n',
  'SELECT list_sort(list(CAST(name AS INT))), max(name), min(name) FROM p',
  'WITH a AS MATERIALIZED (SELECT CAST(name AS INT) AS v FROM p) SELECT a.v FROM a, a AS b WHERE a.v = b.v ORDER BY 1',
  'WITH RECURSIVE r AS (SELECT 0 AS v UNION SELECT CAST(name AS INT) FROM p, r WHERE CAST(name AS INT) > v) SELECT v FROM r ORDER BY v',
  'SELECT CAST(name AS INT) AS v FROM p UNION SELECT n FROM p ORDER BY v',
  'SELECT median(CAST(name AS INT)), mode(x), approx_count_distinct(name), first(n ORDER BY x) FROM p',
  'SELECT name, n FROM p ORDER BY name COLLATE NOCASE DESC LIMIT 4',
  'SELECT CASE WHEN n < 100 THEN CAST(name AS INT) END AS v FROM p ORDER BY v',
  'SELECT p, struct_pack(v := CAST(name AS INT)) FROM p ORDER BY n',
]

describe('what fails on hidden rows is answered as if they were not there', () => {
  const schema = schemaOf(
    [
      ['ts', 'TIMESTAMP'],
      ['tenant', 'STRING'],
      ['name', 'STRING'],
      ['n', 'INT64'],
      ['x', 'DOUBLE'],
      ['doc', 'JSON'],
    ],
    { timestamp: 0, tenant: 1 },
  )
  const received = { _service_received_at: 1n, _service_payload: '{}', ts: 1n }
  const visible = Array.from({ length: 9 }, (_, i) => ({
    ...received,
    tenant: 'a',
    name: String(i + 1),
    n: BigInt(i + 1),
    x: i + 0.5,
    doc: `{"k":"${i}"}`,
  }))
  const hidden = Array.from({ length: 9 }, (_, i) => ({
    ...received,
    tenant: 'b',
    name: `no number ${i}`,
    n: BigInt(i) * 999_999_999_999_999_999n,
    x: i % 2 === 0 ? -i : 1e300,
    doc: '{"k":"no number"}',
  }))
  const pool = new TestPool()
  afterAll(() => pool.close())

  async function answerTo(text: string, rows: typeof visible, policy: RowPolicy | null): Promise<unknown> {
    const engine = await pool.engine()
    const guarded = await engine.guard!(text, 'POSTGRESQL', 'APP')
    if ('badRequest' in guarded) return guarded
    const segment = await segmentOf(rows)
    const poolOf = guarded.pools.map(() => 0)
    const question: NativeQuestion = { statement: guarded, poolOf, bounds: [], form: 'rows', text: '' }
    const deps = {
      engine,
      pin: segmentPins({
        makeVisible: async () => {},
        snapshot: async () => ({ segments: [segment], release: () => {} }),
      }),
      onQuery: () => {},
    }
    const reader = { applicationId: 'APP', verifyAgain: () => {}, inTurn: async <T>(plan: () => T) => plan() }
    const answered = await ask(nativeSql, [{ schema, policy }], question, reader, deps)
    return 'badRequest' in answered ? answered : answered.answer.rows
  }

  const segments = new Map<readonly object[], ReturnType<TestPool['segment']>>()
  function segmentOf(rows: typeof visible) {
    const known = segments.get(rows)
    if (known !== undefined) return known
    const made = pool.segment(schema, rows)
    segments.set(rows, made)
    return made
  }

  const mixed = visible.flatMap((row, i) => [hidden[i]!, row])
  // No scan takes this condition: it is computed as those of a statement are.
  const filterSql = "lower(concat(tenant, upper(tenant), tenant)) = 'aaa'"
  const policy = { columns: ['name', 'n', 'x', 'doc'], rows: [], filterSql, values: {} }
  const columnsOnly = { ...policy, filterSql: null }
  test.each(ON_HIDDEN_ROWS)('%s', async text => {
    const want = await answerTo(text, visible, columnsOnly)
    expect(want).toEqual(expect.any(Array))
    expect(await answerTo(text, mixed, policy)).toEqual(want)
    // It would be seen: the same rows without the policy's condition answer otherwise.
    expect(await answerTo(text, mixed, columnsOnly).catch(String)).not.toEqual(want)
  })
})
