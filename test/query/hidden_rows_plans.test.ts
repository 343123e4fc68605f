/**
 * What a policy hides stays below the barrier in DuckDB's own plans: whatever a reader asks, the
 * scan and all that stands over it up to the barrier is the policy's alone. The pinned DuckDB's
 * optimiser is the guarantee, so its plans are read, as they ran.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { counter } from '../../src/query/plan/counter.ts'
import { dataGrid } from '../../src/query/plan/data-grid.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { percentile } from '../../src/query/plan/percentile.ts'
import type { Statement } from '../../src/query/plan/plan.ts'
import { planFor, type RowPolicy } from '../../src/query/plan/policy.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { recordsByUniqueId } from '../../src/query/plan/records-by-unique-id.ts'
import { columnRange, columnValues } from '../../src/query/plan/statistics.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import type { Filter } from '../../src/query/plan/where.ts'
import { planSelection } from '../../src/query/selection.ts'
import { type SqlQuestion, sql as sqlQuestion } from '../../src/query/sql/sql-question.ts'
import { below, casesOf, newSeed, randomFrom, someOf } from '../util/random.ts'
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
} from './barrier.ts'

const one = (column: string, operator: Filter['operator'], value?: string): Partial<RowPolicy> => ({
  rows: [{ column, operator, ...(value === undefined ? {} : { value }) }],
})
const holder = (name: string) => `\${{ ${name} }}`

/** Each hides some rows and shows others. */
const POLICIES: readonly Partial<RowPolicy>[] = [
  one('tenant', 'EQUALS', 'a'),
  one('tenant', 'NOT_EQUALS', 'b'),
  one('n', 'GREATER_THAN', '100'),
  one('n', 'GREATER_THAN_OR_EQUAL_TO', '100'),
  one('x', 'LESS_THAN', '400'),
  one('ts', 'LESS_THAN_OR_EQUAL_TO', '1970-01-01T00:30:00Z'),
  one('name', 'IS_NULL'),
  one('late', 'IS_NOT_NULL'),
  one('tenant', 'LIKE', 'a'),
  one('name', 'LIKE', 'n%1%'),
  one('name', 'NOT_LIKE', '%7'),
  one('flag', 'EQUALS', 'true'),
  one('day', 'GREATER_THAN', '1970-01-02'),
  one('doc', 'EQUALS', '{"k":"k1"}'),
  {
    rows: [
      {
        column: 'tenant',
        operator: 'EQUALS',
        value: 'a',
        and: [{ column: 'n', operator: 'LESS_THAN', value: '900' }],
        or: [{ column: 'name', operator: 'EQUALS', value: 'n3' }],
      },
    ],
  },
  { filterSql: "tenant IN ('a', 'c')" },
  { filterSql: "tenant NOT IN ('b', 'c') AND n <> 5" },
  { filterSql: "_service_payload->>'$.k' = 'k1'" },
  { filterSql: "doc->>'k' IN ('k1', 'k2') AND NOT (tenant = 'b' OR n > 800)" },
  { filterSql: "day BETWEEN '1970-01-01' AND '1970-01-02' AND flag" },
  { filterSql: "ts >= '1970-01-01T00:10:00Z' AND lower(tenant) = 'a'" },
  { filterSql: "CASE WHEN n > 500 THEN tenant = 'a' ELSE tenant = 'b' END" },
  { filterSql: `tenant = ${holder('t')} AND n < ${holder('n')}`, values: { t: 'a', n: 700 } },
  { ...one('tenant', 'EQUALS', 'a'), columns: SEEN },
  { filterSql: "tenant = 'a' AND flag", columns: SEEN },
]

const HEAVY = 'length(upper(concat(name, name))) + length(lower(name))'
const COUNT = { kind: 'count' } as const

function statement(text: string, poolOf = [0, 0, 0]): Ask {
  return async (pools, barrier) => {
    const parsed = await barrier.engine.parser.parseStatement(text)
    if ('badRequest' in parsed) throw new Error(parsed.badRequest)
    return await asked(sqlQuestion as Askable<SqlQuestion>, {
      statement: parsed,
      poolOf,
      dialect: 'POSTGRESQL',
    })(pools, barrier)
  }
}

const QUESTIONS: Readonly<Record<string, Ask>> = {
  'a filter beyond every row': asked(counter, {
    metric: COUNT,
    filters: [{ column: 'n', operator: 'GREATER_THAN', value: '5000000' }],
  }),
  'a filter beyond the visible rows': asked(counter, {
    metric: { kind: 'sum', column: 'x' },
    filters: [{ column: 'name', operator: 'EQUALS', value: 'n1' }],
  }),
  'heavy work in filterSql': asked(counter, {
    metric: COUNT,
    filterSql: `CASE WHEN name = 'guess' THEN ${HEAVY} > 5 ELSE false END`,
  }),
  'no null is asked for': asked(counter, { metric: COUNT, filterSql: 'n IS NULL OR late IS NULL' }),
  'heavy work in a metric': asked(counter, {
    metric: { kind: 'custom', expression: `MAX(CASE WHEN n = 7 THEN ${HEAVY} END)` },
  }),
  'aggregates with FILTER': asked(counter, {
    metric: { kind: 'custom', expression: "COUNT() FILTER (WHERE name = 'guess') + MIN(n) + MAX(n)" },
  }),
  'a range of time': asked(timeSeries, {
    metric: COUNT,
    timeRange: { start: '1970-01-01T00:00:00Z', stop: '1970-01-01T00:20:00Z' },
    granularity: 'MINUTE',
    groupBy: ['name'],
  }),
  'groups and their order': asked(leaderboard, {
    name: 'v',
    metric: { kind: 'sum', column: 'x' },
    filterSql: "contains(name, '1')",
    dimensions: ['name'],
    sort: 'DESC',
    rowLimit: 10,
  }),
  'the first rows of an order': asked(dataGrid, {
    columns: ['n', 'name'],
    orderByColumn: 1,
    sort: 'DESC',
    filterSql: 'n > 5',
    page: { way: 'forward', count: 3, cursor: null },
  }),
  'the most frequent values': asked(topValues, { column: 'name', maxValues: 5 }),
  'the values of a column': asked(columnValues, { column: 'name' }),
  'the range of a column': asked(columnRange, { column: 'n' }),
  'records by their ids': asked(recordsByUniqueId, { columns: ['name', 'x'], uniqueIds: ['7', '5000000'] }),
  'a percentile': asked(percentile, { column: 'x', fractions: [0.5, 0.9], filterSql: "name <> 'n2'" }),
  'a selection': async (pools, { parse }) =>
    await planFor(pools, [], parse, 0, (view, context) =>
      planSelection(
        view,
        { columns: ['name'], filters: '[{"column":"n","operator":"EQUALS","value":"7"}]' },
        context,
      ),
    ),
  'a join': statement("SELECT COUNT(*) FROM p a JOIN p b ON a.n = b.n WHERE a.name = 'n1'"),
  'a join with few rows': statement(
    "SELECT a.name FROM p a JOIN (SELECT 5 AS g UNION ALL SELECT 7) AS x ON a.n = x.g WHERE upper(a.name) = 'N5'",
  ),
  'EXISTS and IN': statement(
    "SELECT COUNT(*) FROM p WHERE n IN (SELECT n FROM p WHERE name LIKE 'n%2') AND EXISTS (SELECT 1 FROM p WHERE n = 3)",
  ),
  'common tables': statement(
    'WITH q AS (SELECT name, n FROM p WHERE n > 3), r AS (SELECT name, COUNT(*) AS c FROM q GROUP BY name HAVING COUNT(*) > 1) SELECT r.name, q.n FROM r JOIN q ON r.name = q.name WHERE q.n < 400 ORDER BY q.n LIMIT 7',
  ),
  'UNION and DISTINCT': statement(
    'SELECT DISTINCT name FROM p WHERE n > 990 UNION SELECT upper(name) FROM p WHERE n < 5 ORDER BY 1 LIMIT 4',
  ),
  'the ends of a column': statement(
    'SELECT (SELECT MAX(n) FROM p) AS a, (SELECT MIN(name) FROM p WHERE n > 7) AS b, COUNT(*) AS c FROM p WHERE late > 3',
  ),
}

let barrier: Barrier
beforeAll(async () => {
  barrier = await Barrier.open()
})
afterAll(() => barrier.close())

/** Layouts other than one file. `npm test` asks each question of about one of them, at random. */
const OTHER_LAYOUTS = 4
const ASKED_LAYOUTS = casesOf(1, OTHER_LAYOUTS)
/** `npm test` has so many of the policies, by lot, and the long run all. */
const ASKED_POLICIES = 12
const seed = newSeed()

describe(`nothing of a reader stands below the barrier, seed ${seed}`, () => {
  const random = randomFrom(seed)
  test.each(someOf(POLICIES, ASKED_POLICIES, seed).map(policy => [JSON.stringify(policy), policy] as const))(
    'with the policy %s',
    { timeout: 120_000 },
    async (_, policy) => {
      const bare = await barrier.written(everything, [limited(policy)])
      const statements = new Map<string, Statement>()
      for (const [title, ask] of Object.entries(QUESTIONS)) {
        statements.set(title, await barrier.written(ask, [limited(policy)]))
        const partial = await barrier.writtenPartial(ask, [limited(policy)])
        if (partial !== undefined) statements.set(`partial groups of ${title}`, partial)
      }
      expect(statements.size).toBeGreaterThan(Object.keys(QUESTIONS).length)
      for (const [name, layout] of barrier.layouts) {
        const isAsked = () => name === 'one file' || below(random, OTHER_LAYOUTS) < ASKED_LAYOUTS
        const barePlan = await planOf(layout, bare)
        const [want, ...others] = belowBarriers(barePlan)
        expect(others).toEqual([])
        const scansEach = countOf(barePlan, isScan)
        const emptyEach = countOf(barePlan, isEmpty)
        expect(scansEach).toBeGreaterThan(0)
        for (const [title, statement] of statements) {
          if (!isAsked()) continue
          const where = `${name}: ${title}`
          const plan = await planOf(layout, statement)
          const found = belowBarriers(plan)
          expect([...new Set(found)], where).toEqual([want])
          expect(countOf(plan, isScan), where).toBe(found.length * scansEach)
          expect(countOf(plan, isEmpty), where).toBe(found.length * emptyEach)
        }
      }
    },
  )
})

describe('a statement about two pools', () => {
  const ask = statement(
    "SELECT COUNT(*) FROM p a JOIN r b ON a.n = b.n WHERE a.x > 3 AND b.name = 'n1' AND b.day > '1970-01-01'",
    [0, 1],
  )
  const [one, two] = [POLICIES[0]!, POLICIES[19]!]

  test('has a barrier for each of them', async () => {
    for (const [name, layout] of barrier.layouts) {
      const want = new Set<string>()
      for (const policy of [one, two]) {
        const bare = await barrier.written(everything, [limited(policy)])
        for (const below of belowBarriers(await planOf(layout, bare))) want.add(below)
      }
      const both = await barrier.written(ask, [limited(one), limited(two)])
      const plan = await planOf(layout, both, [layout.sources])
      expect(new Set(belowBarriers(plan)), name).toEqual(want)
      expect(want.size).toBe(2)
    }
  })

  test('keeps the filters of the reader in the scan of the pool that hides none', async () => {
    const layout = barrier.layouts.get('one file')!
    const plan = await planOf(layout, await barrier.written(ask, [limited(one), limited(null)]), [
      layout.sources,
    ])
    const below = belowBarriers(await planOf(layout, await barrier.written(everything, [limited(one)])))
    expect(belowBarriers(plan)).toEqual(below)
    expect(countOf(plan, each => /name='n1'/.test(String(each.extra_info['Filters'])))).toBe(1)
  })
})
