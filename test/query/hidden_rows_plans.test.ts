/**
 * What a policy hides stays below the barrier in DuckDB's own plans: whatever a reader asks, the
 * scan and all that stands over it up to the barrier is the policy's alone. The pinned DuckDB's
 * optimiser is the guarantee, so its plans are read, as they ran.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { DeletedRowSets, makeDeletedTable, type NativeLiveRows } from '../../src/query/duckdb/deleted-rows.ts'
import { DuckdbInstances } from '../../src/query/duckdb/duckdb-instances.ts'
import { boundType, duckdbValue } from '../../src/query/duckdb/duckdb-values.ts'
import { Engine } from '../../src/query/duckdb/engine.ts'
import type { EngineSettings } from '../../src/query/duckdb/engine-calls.ts'
import { type PoolSources, withRows } from '../../src/query/duckdb/live-rows.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { counter } from '../../src/query/plan/counter.ts'
import { dataGrid } from '../../src/query/plan/data-grid.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { percentile } from '../../src/query/plan/percentile.ts'
import type { QueryPlan, Statement } from '../../src/query/plan/plan.ts'
import type { PlanContext } from '../../src/query/plan/plan-context.ts'
import {
  type LimitedPool,
  type PoolsOfQuestion,
  planFor,
  type RowPolicy,
} from '../../src/query/plan/policy.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { recordsByUniqueId } from '../../src/query/plan/records-by-unique-id.ts'
import { columnRange, columnValues } from '../../src/query/plan/statistics.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import type { Filter } from '../../src/query/plan/where.ts'
import { planSelection } from '../../src/query/selection.ts'
import { type SqlQuestion, sql as sqlQuestion } from '../../src/query/sql/sql-question.ts'
import { tryNative } from '../../src/util/native.ts'
import { below, casesOf, newSeed, randomFrom, someOf } from '../util/random.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const columnsOfPool = schemaOf(
  [
    ['ts', 'TIMESTAMP'],
    ['tenant', 'STRING'],
    ['name', 'STRING'],
    ['n', 'INT64'],
    ['x', 'DOUBLE'],
    ['day', 'DATE'],
    ['flag', 'BOOLEAN'],
    ['doc', 'JSON'],
    ['late', 'INT32'],
  ],
  { timestamp: 0, tenant: 1, version: 2 },
)
const schema = { ...columnsOfPool, uniqueId: 3 }
const SEEN = ['ts', 'name', 'n', 'x', 'day', 'flag', 'doc', 'late', '_service_payload']

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

/** A question as the real planner takes it. */
type Ask = (pools: PoolsOfQuestion) => Promise<QueryPlan>

const HEAVY = 'length(upper(concat(name, name))) + length(lower(name))'
const COUNT = { kind: 'count' } as const

function asked<Query>(question: Askable<Query>, query: Query): Ask {
  return async pools => {
    await question.prepare?.(query, async work => work())
    return await planFor(pools, question.texts(query), parse, 0, (view, context, others) =>
      question.plan(view, query, context, others),
    )
  }
}

function statement(text: string, poolOf = [0, 0, 0]): Ask {
  return async pools => {
    const parsed = await engine.parser.parseStatement(text)
    if ('badRequest' in parsed) throw new Error(parsed.badRequest)
    return await asked(sqlQuestion as Askable<SqlQuestion>, {
      statement: parsed,
      poolOf,
      dialect: 'POSTGRESQL',
    })(pools)
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
  'a selection': async pools =>
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

const ROWS = 1_000
const pool = new TestPool()
const settings: EngineSettings = {
  segmentFolder: pool.segmentFolder,
  temporaryFolder: pool.temporaryFolder,
  kernel: 'native',
  threads: 2,
  memoryBytes: 256 * 1024 * 1024,
  deletionVectorBytesMax: 4 * 1024 * 1024,
  queryMsMax: 60_000,
}
let engine: Engine
let parse: (texts: readonly string[]) => Promise<PlanContext['expressions']>
const closers: (() => Promise<void>)[] = []

/** A way in which segments are read, with its connection. */
interface Layout {
  readonly connection: DuckDBConnection
  readonly sources: Pick<PoolSources, 'whole' | 'reduced'>
}
const layouts = new Map<string, Layout>()

async function write(part: number, isOld: boolean): Promise<QuerySegment> {
  return await pool.write(
    `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{"k":"k' || (i % 3) || '"}' AS _service_payload,
     make_timestamptz((i * 3 + ${part}) * 1000000) AS ts, ['a', 'b', 'c'][1 + i % 3] AS tenant,
     CASE WHEN i % 50 = 9 THEN NULL ELSE 'n' || (i % 40) END AS name, i::BIGINT AS n, i / 2 AS x,
     (DATE '1970-01-01' + (i // 300)::INTEGER) AS day, i % 2 = 0 AS flag, '{"k":"k' || (i % 4) || '"}' AS doc,
     ${isOld ? '' : 'CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 7)::INTEGER END AS late,'} i::BIGINT AS _service_sequence
     FROM range(${part * ROWS}, ${(part + 1) * ROWS}) t(i)`,
    { schemaVersion: isOld ? 1 : 2 },
  )
}

const TABLE = { by: 'table', table: 'deleted' } as const

beforeAll(async () => {
  engine = await Engine.open(settings)
  closers.push(() => engine.close())
  parse = async texts =>
    new Map(await Promise.all(texts.map(async text => [text, await engine.parser.parse(text)] as const)))
  const [a, b, old] = [await write(0, false), await write(1, false), await write(2, true)]
  const names = ['_service_received_at', '_service_payload', ...schema.columns.map(({ name }) => name)]
  const columns = new Set(names)
  const oldColumns = new Set(names.filter(name => name !== 'late'))
  const source = ({ file }: QuerySegment) => ({ file, columns: file === old.file ? oldColumns : columns })
  const reduced = withDeletionVectors(a, [0, 3, 5, 6, 600, 999])
  for (const kernel of ['native', 'js'] as const) {
    const instances = new DuckdbInstances({ ...settings, kernel })
    const { duckdb: instance, hasIsLive } = await instances.of('P1_X_LARGE')
    expect(hasIsLive).toBe(kernel === 'native')
    const connection = await instance.connect()
    const native = tryNative<NativeLiveRows>(kernel)
    const sets = native && new DeletedRowSets(native, settings.deletionVectorBytesMax)
    const view = sets?.begin([reduced])
    if (view === undefined) await makeDeletedTable(connection, 'deleted', [reduced])
    const skipping = view === undefined ? TABLE : ({ by: 'view', view } as const)
    closers.push(async () => {
      if (view !== undefined) sets?.end(view)
      connection.closeSync()
      await instances.close()
    })
    const add = (name: string, whole: readonly QuerySegment[], isReduced = false) =>
      layouts.set(name, {
        connection,
        sources: {
          whole: whole.map(source),
          reduced: isReduced ? { sources: [source(a)], skipping } : undefined,
        },
      })
    if (kernel === 'native') {
      add('one file', [a])
      add('several files', [a, b])
      add('files of two versions', [old, a])
    }
    add(`deleted rows by ${skipping.by}`, [b], true)
  }
})
afterAll(async () => {
  for (const close of closers.reverse()) await close()
  await pool.close()
})

/** An operator of a plan as DuckDB prints it. */
interface Operator {
  /** The root has none. */
  readonly operator_name?: string
  readonly operator_cardinality: number
  readonly extra_info: Readonly<Record<string, string | readonly string[]>>
  readonly children: readonly Operator[]
}

async function planOf(
  layout: Layout,
  statement: Statement,
  more: readonly Layout['sources'][] = [],
): Promise<Operator> {
  const restrictions = [statement.restriction, ...(statement.otherRestrictions ?? [])]
  const read = [layout.sources, ...more].map((sources, index) => ({
    schema,
    ...sources,
    restriction: restrictions[index],
  }))
  const prepared = await layout.connection.prepare(
    `EXPLAIN (ANALYZE, FORMAT json) ${withRows(read, statement)}`,
  )
  try {
    statement.bounds.forEach((bound, index) => {
      prepared.bindValue(index + 1, duckdbValue(bound), boundType(bound))
    })
    const rows = await (await prepared.run()).getRows()
    return JSON.parse(String(rows[0]?.[1])) as Operator
  } finally {
    prepared.destroySync()
  }
}

const isScan = ({ operator_name: name }: Operator) => name?.includes('PARQUET') === true
const isEmpty = ({ operator_name: name }: Operator) => name === 'EMPTY_RESULT'

function countOf(operator: Operator, is: (operator: Operator) => boolean): number {
  return operator.children.reduce((sum, child) => sum + countOf(child, is), is(operator) ? 1 : 0)
}

/** What reads rows in a plan: the operators over each scan up to the barrier, and what they do. */
function belowBarriers(operator: Operator): readonly string[] {
  const below = operator.children.flatMap(belowBarriers)
  const isBarrier = operator.operator_name === 'STREAMING_LIMIT' && below.length === 0
  return isBarrier ? operator.children.map(own) : below
}

/**
 * The operators from here down. Projections that choose columns by name, or have nulls for missing
 * ones, are left out.
 */
function own({ operator_name: name, extra_info: info, children }: Operator): string {
  const below = children.map(own).join(' | ')
  if (name === 'PROJECTION') {
    const columns = [info['Projections'] ?? []].flat()
    const isPlain = columns.every(
      column => /^#\d+$|^NULL$/.test(column) || KNOWN.has(column.replaceAll('"', '')),
    )
    return isPlain ? below : `PROJECTION ${columns.join()} ${below}`
  }
  const facts = Object.entries(info)
    .filter(([key]) => TELLING.includes(key))
    .map(([key, value]) => `${key}: ${[value].flat().toSorted().join(' AND ')}`)
  return `${name} ${facts.join('; ')} (${below})`
}
/**
 * What an operator does. The number of files that were read is none of them: it is 0 too where
 * another side of a join was empty.
 */
const TELLING = [
  'Function',
  'Filters',
  'Dynamic Filters',
  'File Filters',
  'Expression',
  'Conditions',
  'Join Type',
]
const KNOWN = new Set(['_service_received_at', '_service_payload', 'file_index', 'file_row_number'])
for (const { name } of schema.columns) KNOWN.add(name)

async function written(ask: Ask, pools: PoolsOfQuestion): Promise<Statement> {
  return duckdb.write(await ask(pools))
}

function limited(policy: Partial<RowPolicy> | null): LimitedPool {
  const full = { columns: ['*'], rows: [], filterSql: null, values: {}, ...policy }
  return { schema, policy: policy === null ? null : full }
}

/** The policy alone: every visible row and column. */
const everything: Ask = async pools =>
  await planFor(pools, [], parse, 0, (view, context) => planSelection(view, {}, context))

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
      const bare = await written(everything, [limited(policy)])
      const statements = new Map<string, Statement>()
      for (const [title, ask] of Object.entries(QUESTIONS))
        statements.set(title, await written(ask, [limited(policy)]))
      for (const [name, layout] of layouts) {
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
    for (const [name, layout] of layouts) {
      const want = new Set<string>()
      for (const policy of [one, two]) {
        const bare = await written(everything, [limited(policy)])
        for (const below of belowBarriers(await planOf(layout, bare))) want.add(below)
      }
      const both = await written(ask, [limited(one), limited(two)])
      const plan = await planOf(layout, both, [layout.sources])
      expect(new Set(belowBarriers(plan)), name).toEqual(want)
      expect(want.size).toBe(2)
    }
  })

  test('keeps the filters of the reader in the scan of the pool that hides none', async () => {
    const layout = layouts.get('one file')!
    const plan = await planOf(layout, await written(ask, [limited(one), limited(null)]), [layout.sources])
    const below = belowBarriers(await planOf(layout, await written(everything, [limited(one)])))
    expect(belowBarriers(plan)).toEqual(below)
    expect(countOf(plan, each => /name='n1'/.test(String(each.extra_info['Filters'])))).toBe(1)
  })
})
