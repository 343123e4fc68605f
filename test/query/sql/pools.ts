/** Three pools with rows, and statements over them as sqlV1 runs them. */
import type { PoolSchema } from '../../../src/format/schema.ts'
import type { QuerySegment } from '../../../src/index/index-types.ts'
import { type Answered, ask, planQuestion } from '../../../src/query/ask.ts'
import type { BadQuery } from '../../../src/query/expression/values.ts'
import { segmentPins } from '../../../src/query/pin-segments.ts'
import type { AnswerForm } from '../../../src/query/plan/plan.ts'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import type { SegmentEngine } from '../../../src/query/plan/segment-task.ts'
import type { SqlDialect } from '../../../src/query/sql/check-statement.ts'
import {
  boundParameters,
  type NativeQuestion,
  nativeSql,
  type Parameter,
} from '../../../src/query/sql/native-question.ts'
import {
  readClickHouseNames,
  type SqlAnswer,
  type SqlQuestion,
  sql,
} from '../../../src/query/sql/sql-question.ts'
import { type Row, schemaOf, TestPool, withDeletionVectors } from '../pool.ts'

const DAY_US = 86_400_000_000n

/** Names as statements write them. */
export const POOLS: Readonly<Record<string, PoolSchema>> = {
  orders: schemaOf(
    [
      ['id', 'INT64'],
      ['customer', 'INT32'],
      ['plan', 'STRING'],
      ['amount', 'DOUBLE'],
      ['quantity', 'INT32'],
      ['paid', 'BOOLEAN'],
      ['seen', 'TIMESTAMP'],
      ['day', 'DATE'],
      ['details', 'JSON'],
    ],
    { timestamp: 6, tenant: 2 },
  ),
  customers: schemaOf([
    ['id', 'INT32'],
    ['name', 'STRING'],
    ['country', 'STRING'],
    ['secret', 'STRING'],
    ['score', 'FLOAT'],
  ]),
  'My "odd" pool': schemaOf([
    ['select', 'STRING'],
    ['Größe', 'INT32'],
    ['say "hi"; --', 'STRING'],
  ]),
}

export const ROWS: Readonly<Record<string, readonly Row[]>> = {
  orders: Array.from({ length: 40 }, (_, i) => ({
    _service_received_at: BigInt(i) * 1_000_000n,
    _service_payload: `{"i":${i}}`,
    id: BigInt(i),
    customer: i % 7 === 6 ? null : i % 6,
    plan: ['free', 'pro', 'team', null, "it's"][i % 5] ?? null,
    amount: i % 9 === 8 ? null : i * 0.25,
    quantity: (i * 7) % 11,
    paid: i % 4 === 3 ? null : i % 2 === 0,
    seen: 19_800n * DAY_US + BigInt(i) * 9_000_000_000n,
    day: 19_800 + (i % 5),
    details: `{"n":${i % 3},"tag":"t${i % 2}"}`,
  })),
  customers: Array.from({ length: 8 }, (_, i) => ({
    _service_received_at: BigInt(i),
    _service_payload: '{}',
    id: i === 7 ? null : i,
    name: `name ${i}`,
    country: ['DE', 'FR', null, 'JP'][i % 4] ?? null,
    secret: `secret-${i}`,
    score: i * 0.5,
  })),
  'My "odd" pool': [
    { _service_received_at: 1n, _service_payload: '1', select: 'a', Größe: 1, 'say "hi"; --': 'x' },
    { _service_received_at: 2n, _service_payload: '2', select: 'b', Größe: 2, 'say "hi"; --': "y'z" },
  ],
}

export interface SqlAsker {
  readonly policies?: Readonly<Record<string, RowPolicy>>
  readonly dialect?: SqlDialect
  readonly rowsMax?: number
  readonly parameters?: readonly Parameter[]
  readonly form?: AnswerForm
}

/** `typed`: as on a cluster. `native`: in DuckDB's own SQL. */
export type SqlForm = 'typed' | 'native'

export class SqlPools {
  readonly #form: SqlForm
  readonly pool = new TestPool()
  readonly #segments = new Map<number, readonly QuerySegment[]>()
  #engine: SegmentEngine | undefined

  constructor(form: SqlForm = 'typed') {
    this.#form = form
  }

  async open(): Promise<void> {
    for (const [name, schema] of Object.entries(POOLS)) {
      const rows = ROWS[name]!
      // Two segments, the second with rows that are deleted and must not be seen.
      const half = Math.ceil(rows.length / 2)
      const deleted = rows.slice(0, 2).map(row => ({ ...row, id: 999, name: 'deleted', select: 'deleted' }))
      const first = await this.pool.segment(schema, rows.slice(0, half))
      const second = await this.pool.segment(schema, [...rows.slice(half), ...deleted])
      const at = rows.length - half
      this.#segments.set(schema.pool, [first, withDeletionVectors(second, [at, at + 1])])
    }
    this.#engine = await this.pool.engine()
  }

  /** Runs statements in another engine over the same files. */
  useEngine(engine: SegmentEngine): void {
    this.#engine = engine
  }

  /** Replaces the rows of a pool. */
  replaceSegments(name: string, segments: readonly QuerySegment[]): void {
    this.#segments.set(POOLS[name]!.pool, segments)
  }

  /** So many orders of a customer, without long texts. */
  async replaceOrders(rows: number): Promise<void> {
    const segment =
      await this.pool.write(`SELECT make_timestamp(i) AS _service_received_at, '{}' AS _service_payload,
      i::BIGINT AS id, 1::INTEGER AS customer, 'plan ' || i AS plan, 1::DOUBLE AS amount, 1::INTEGER AS quantity,
      true AS paid, make_timestamp(i) AS seen, DATE '2024-01-01' AS day, '{}' AS details,
      0::BIGINT AS _service_sequence FROM range(${rows}) t(i)`)
    this.replaceSegments('orders', [segment])
  }

  get engine(): SegmentEngine {
    return this.#engine!
  }

  /** The answer of a statement, or its refusal. Any other failure rejects. */
  async ask(text: string, asker: SqlAsker = {}): Promise<SqlAnswer | BadQuery> {
    const answered = await this.answered(text, asker)
    return 'badRequest' in answered ? answered : answered.answer
  }

  /** The same with its cost. */
  async answered(text: string, asker: SqlAsker = {}): Promise<Answered<SqlAnswer> | BadQuery> {
    const read = await this.#read(text, asker)
    if ('badRequest' in read) return read
    const { question, pools, reader } = read
    const deps = {
      engine: this.engine,
      pin: segmentPins({
        makeVisible: async () => {},
        snapshot: async pool => ({ segments: this.#segments.get(pool)!, release: () => {} }),
      }),
      onQuery: () => {},
    }
    const rowsMax = asker.rowsMax ?? sql.rowsMax
    return 'text' in question
      ? await ask({ ...nativeSql, rowsMax }, pools, question, reader, deps)
      : await ask({ ...sql, rowsMax }, pools, question, reader, deps)
  }

  /** The plan of a statement: no row is read. */
  async plan(text: string, asker: SqlAsker = {}) {
    const read = await this.#read(text, asker)
    if ('badRequest' in read) return read
    const { question, pools, reader } = read
    return 'text' in question
      ? await planQuestion(nativeSql, pools, question, reader, this.engine)
      : await planQuestion(sql, pools, question, reader, this.engine)
  }

  /** The rows in any order, or the refusal as `BAD: …`. */
  async rows(text: string, asker: SqlAsker = {}): Promise<string> {
    const answer = await this.ask(text, asker)
    return 'badRequest' in answer ? `BAD: ${answer.badRequest}` : JSON.stringify(answer.rows)
  }

  async #read(
    text: string,
    { policies = {}, dialect = 'POSTGRESQL', parameters = [], form = 'rows' }: SqlAsker,
  ) {
    const read = dialect === 'CLICKHOUSE' ? readClickHouseNames(text) : text
    const statement =
      this.#form === 'native'
        ? await this.engine.guard!(read, dialect, 'APP')
        : await this.engine.parseStatement(read, 'APP')
    if ('badRequest' in statement) return statement
    const unknown = statement.pools.find(name => POOLS[name] === undefined)
    if (unknown !== undefined) return { badRequest: `Data Pool ${JSON.stringify(unknown)} not found` }
    const pools = statement.pools.map(name => ({ schema: POOLS[name]!, policy: policies[name] ?? null }))
    if (pools.length === 0 && this.#form === 'typed') return { badRequest: 'no pool' }
    const reader = {
      applicationId: 'APP',
      verifyAgain: () => {},
      inTurn: async <T>(plan: () => T) => plan(),
    }
    const poolOf = statement.pools.map((_, index) => index)
    const question: NativeQuestion | SqlQuestion =
      'prefix' in statement
        ? { statement, poolOf, bounds: boundParameters(statement.parameters, parameters), form, text }
        : { statement, poolOf, dialect }
    return { question, pools, reader }
  }

  close(): Promise<void> {
    return this.pool.close()
  }
}
