/** A pool with a column of every type and rows with extreme values, for tests of expressions. */
import type { PoolSchema } from '../../../src/format/schema.ts'
import type { QuerySegment } from '../../../src/index/index-types.ts'
import type { CounterQuery } from '../../../src/query/plan/counter.ts'
import type { MetricFormula } from '../../../src/query/plan/metric.ts'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import type { QueryEngine } from '../../../src/query/plan/query-task.ts'
import { type Row, schemaOf, TestPool } from '../pool.ts'

export const NOW_MS = Date.UTC(2024, 4, 15, 12, 30)
const DAY_US = 86_400_000_000n

export const SCHEMA: PoolSchema = schemaOf(
  [
    ['name', 'STRING'],
    ['tenant', 'STRING'],
    ['secret', 'STRING'],
    ['flag', 'BOOLEAN'],
    ['i8', 'INT8'],
    ['i32', 'INT32'],
    ['i64', 'INT64'],
    ['f32', 'FLOAT'],
    ['f64', 'DOUBLE'],
    ['day', 'DATE'],
    ['ts', 'TIMESTAMP'],
    ['seen', 'TIMESTAMP'],
    ['payload', 'JSON'],
    ['say "hi"; --', 'STRING'],
    ['Größe', 'INT32'],
    ['__proto__', 'STRING'],
  ],
  { timestamp: 10, tenant: 1 },
)

const ROWS: readonly Row[] = [
  {
    name: 'Ada',
    tenant: 'a',
    secret: 'x1',
    flag: true,
    i8: 1,
    i32: 10,
    i64: 100n,
    f32: 0.5,
    f64: 2.25,
    day: 19_000,
    ts: 19_000n * DAY_US,
    payload: '{"a":{"b":[1,"é"]},"n":5,"s":"x","t":true,"a/b~c":"deep","empty":null}',
    'say "hi"; --': 'quoted',
    Größe: 7,
    _service_payload: '{"n":1}',
  },
  {
    name: 'Bob',
    tenant: 'a',
    secret: 'x2',
    flag: false,
    i8: -128,
    i32: -2_147_483_648,
    i64: -9_223_372_036_854_775_808n,
    f32: -3.4e38,
    f64: -1.7e308,
    day: -719_162,
    ts: -62_135_596_800_000_000n,
    payload: '{"n":"\\ud800"}',
    Größe: 0,
    _service_payload: '[]',
  },
  {
    name: '',
    tenant: 'b',
    secret: 'x3',
    flag: null,
    i8: 127,
    i32: 2_147_483_647,
    i64: 9_223_372_036_854_775_807n,
    f32: 3.4e38,
    f64: 1.7e308,
    day: 2_932_896,
    ts: 253_402_300_799_999_999n,
    payload: '"a text"',
    _service_payload: '{"n":2,"$ip":"::1","a\\"b":"quote","c\\\\d":"backslash"}',
  },
  { tenant: 'b', name: "O'Brien % _ 👨‍👩‍👧 ß", i8: 0, i32: 0, i64: 0n, f64: 0, payload: '{"n":1e999}' },
  { tenant: "it's ' OR 1=1 --", name: 'x'.repeat(1_000) },
]

export class ExpressionPool {
  readonly pool = new TestPool()
  #segment: QuerySegment | undefined

  async open(): Promise<QueryEngine> {
    this.#segment = await this.pool.segment(SCHEMA, ROWS)
    return await this.pool.engine()
  }

  segments(): readonly QuerySegment[] {
    return this.#segment === undefined ? [] : [this.#segment]
  }

  /** The answer of a metric, or its refusal as `BAD: …`. Any other failure rejects. */
  async ask(
    metric: MetricFormula,
    rows: Omit<CounterQuery, 'metric'> = {},
    policy: RowPolicy | null = null,
  ): Promise<string | null> {
    const answer = await this.pool.ask(SCHEMA, { metric, ...rows }, this.segments(), {
      policy,
      nowMs: NOW_MS,
    })
    return typeof answer === 'object' && answer !== null ? `BAD: ${answer.badRequest}` : answer
  }

  /** The rows that a filterSql selects. */
  async count(filterSql: string, policy: RowPolicy | null = null): Promise<string | null> {
    return await this.ask({ kind: 'count' }, { filterSql }, policy)
  }

  async custom(expression: string): Promise<string | null> {
    return await this.ask({ kind: 'custom', expression })
  }

  close(): Promise<void> {
    return this.pool.close()
  }
}
