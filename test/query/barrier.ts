/**
 * The barrier in DuckDB's own plans, for the tests of hidden rows: a pool in several layouts of
 * segments, plans as they ran, and what of them stands from the scans up to the barrier.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { expect } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { DeletedRowSets, makeDeletedTable, type NativeLiveRows } from '../../src/query/duckdb/deleted-rows.ts'
import { DuckdbInstances } from '../../src/query/duckdb/duckdb-instances.ts'
import { boundType, duckdbValue } from '../../src/query/duckdb/duckdb-values.ts'
import { Engine } from '../../src/query/duckdb/engine.ts'
import type { EngineSettings } from '../../src/query/duckdb/engine-calls.ts'
import { withoutModule } from '../../src/query/duckdb/exact-sums.ts'
import { type PoolSources, withRows } from '../../src/query/duckdb/live-rows.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { partialPlans } from '../../src/query/plan/partials.ts'
import type { QueryPlan, Statement } from '../../src/query/plan/plan.ts'
import type { PlanContext } from '../../src/query/plan/plan-context.ts'
import {
  type LimitedPool,
  type PoolsOfQuestion,
  planFor,
  type RowPolicy,
} from '../../src/query/plan/policy.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { planSelection } from '../../src/query/selection.ts'
import { tryNative } from '../../src/util/native.ts'
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
/** The pool's. `late` was added by version 2. */
const schema = { ...columnsOfPool, uniqueId: 3 }
/** All columns but the tenant and the received time. */
export const SEEN = ['ts', 'name', 'n', 'x', 'day', 'flag', 'doc', 'late', '_service_payload']

/** A question as the real planner takes it. */
export type Ask = (pools: PoolsOfQuestion, barrier: Barrier) => Promise<QueryPlan>

export function asked<Query>(question: Askable<Query>, query: Query): Ask {
  return async (pools, { parse }) => {
    await question.prepare?.(query, async work => work())
    return await planFor(pools, question.texts(query), parse, 0, (view, context, others) =>
      question.plan(view, query, context, others),
    )
  }
}

const ROWS = 1_000
const TABLE = { by: 'table', table: 'deleted' } as const

/** A way in which segments are read, with its connection. */
export interface Layout {
  readonly connection: DuckDBConnection
  readonly sources: Pick<PoolSources, 'whole' | 'reduced'>
}

/** An engine that plans questions, and the layouts over which their plans are read. */
export class Barrier {
  readonly layouts = new Map<string, Layout>()
  readonly engine: Engine
  readonly #pool: TestPool
  readonly #settings: EngineSettings
  readonly #closers: (() => Promise<void>)[] = []

  private constructor(pool: TestPool, engine: Engine, settings: EngineSettings) {
    this.#pool = pool
    this.engine = engine
    this.#settings = settings
  }

  static async open(): Promise<Barrier> {
    const pool = new TestPool()
    const settings = pool.nativeSettings
    const barrier = new Barrier(pool, await Engine.open(settings), settings)
    await barrier.#open()
    return barrier
  }

  readonly parse = async (texts: readonly string[]): Promise<PlanContext['expressions']> =>
    new Map(await Promise.all(texts.map(async text => [text, await this.engine.parser.parse(text)] as const)))

  async written(ask: Ask, pools: PoolsOfQuestion): Promise<Statement> {
    return duckdb.write(await ask(pools, this))
  }

  /** The statement of its partial groups, where it has any. */
  async writtenPartial(ask: Ask, pools: PoolsOfQuestion): Promise<Statement | undefined> {
    const plans = partialPlans(await ask(pools, this))
    return plans && duckdb.write(plans.partial)
  }

  async close(): Promise<void> {
    for (const close of this.#closers.reverse()) await close()
    await this.engine.close()
    await this.#pool.close()
  }

  async #open(): Promise<void> {
    const [a, b, old] = [await this.#write(0, false), await this.#write(1, false), await this.#write(2, true)]
    const names = ['_service_received_at', '_service_payload', ...schema.columns.map(({ name }) => name)]
    const columns = new Set(names)
    const oldColumns = new Set(names.filter(name => name !== 'late'))
    const source = ({ file }: QuerySegment) => ({ file, columns: file === old.file ? oldColumns : columns })
    const reduced = withDeletionVectors(a, [0, 3, 5, 6, 600, 999])
    for (const kernel of ['native', 'js'] as const) {
      const instances = new DuckdbInstances({ ...this.#settings, kernel })
      const { duckdb: instance, hasIsLive } = await instances.of('P1_X_LARGE')
      expect(hasIsLive).toBe(kernel === 'native')
      const connection = await instance.connect()
      const native = tryNative<NativeLiveRows>(kernel)
      const sets = native && new DeletedRowSets(native, this.#settings.deletionVectorBytesMax)
      const view = sets?.begin([reduced])
      if (view === undefined) await makeDeletedTable(connection, 'deleted', [reduced])
      const skipping = view === undefined ? TABLE : ({ by: 'view', view } as const)
      this.#closers.push(async () => {
        if (view !== undefined) sets?.end(view)
        // Test files share a process, and another one counts what the module holds.
        sets?.forget([reduced.file])
        connection.closeSync()
        await instances.close()
      })
      const add = (name: string, whole: readonly QuerySegment[], isReduced = false) =>
        this.layouts.set(name, {
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
  }

  async #write(part: number, isOld: boolean): Promise<QuerySegment> {
    return await this.#pool.write(
      `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{"k":"k' || (i % 3) || '"}' AS _service_payload,
     make_timestamptz((i * 3 + ${part}) * 1000000) AS ts, ['a', 'b', 'c'][1 + i % 3] AS tenant,
     CASE WHEN i % 50 = 9 THEN NULL ELSE 'n' || (i % 40) END AS name, i::BIGINT AS n, i / 2 AS x,
     (DATE '1970-01-01' + (i // 300)::INTEGER) AS day, i % 2 = 0 AS flag, '{"k":"k' || (i % 4) || '"}' AS doc,
     ${isOld ? '' : 'CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 7)::INTEGER END AS late,'} i::BIGINT AS _service_sequence
     FROM range(${part * ROWS}, ${(part + 1) * ROWS}) t(i)`,
      { schemaVersion: isOld ? 1 : 2 },
    )
  }
}

/** An operator of a plan as DuckDB prints it. */
export interface Operator {
  /** The root has none. */
  readonly operator_name?: string
  readonly operator_cardinality: number
  readonly extra_info: Readonly<Record<string, string | readonly string[]>>
  readonly children: readonly Operator[]
}

export async function planOf(
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
    `EXPLAIN (ANALYZE, FORMAT json) ${withoutModule(withRows(read, statement)).replaceAll('_service_sum_state(', 'FSUM(')}`,
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

export const isScan = ({ operator_name: name }: Operator) => name?.includes('PARQUET') === true
export const isEmpty = ({ operator_name: name }: Operator) => name === 'EMPTY_RESULT'

export function countOf(operator: Operator, is: (operator: Operator) => boolean): number {
  return operator.children.reduce((sum, child) => sum + countOf(child, is), is(operator) ? 1 : 0)
}

/** What reads rows in a plan: the operators over each scan up to the barrier, and what they do. */
export function belowBarriers(operator: Operator): readonly string[] {
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

/** The pool for a reader with this policy, or with none. */
export function limited(policy: Partial<RowPolicy> | null): LimitedPool {
  const full = { columns: ['*'], rows: [], filterSql: null, values: {}, ...policy }
  return { schema, policy: policy === null ? null : full }
}

/** The policy alone: every visible row and column. */
export const everything: Ask = async (pools, { parse }) =>
  await planFor(pools, [], parse, 0, (view, context) => planSelection(view, {}, context))
