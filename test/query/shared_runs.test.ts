/**
 * Equal questions that wait share a run: how many runs there are, when each begins, who gets its
 * answer. The engine is one whose queries end when the test says so.
 */
import { expect, test } from 'vitest'
import { type Answered, ask, type QuestionDeps } from '../../src/query/ask.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import type { BadQuery } from '../../src/query/expression/values.ts'
import { counter } from '../../src/query/plan/counter.ts'
import type { PoolsOfQuestion, RowPolicy } from '../../src/query/plan/policy.ts'
import type { QueryDone, QueryEngine } from '../../src/query/plan/query-task.ts'
import { SharedRuns } from '../../src/query/shared-runs.ts'
import { nativeSql } from '../../src/query/sql/native-question.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { schemaOf } from './pool.ts'

const SCHEMA = schemaOf([
  ['n', 'INT64'],
  ['tenant', 'STRING'],
])

interface Begun {
  readonly fairKey: string
  readonly bounds: string
  verify(): void
  readonly gone: AbortSignal
  /** Answers it with the pin's number. */
  end(): void
}

interface AskOptions {
  readonly by?: string
  readonly filter?: string
  readonly policy?: RowPolicy | null
  readonly gone?: AbortSignal
  readonly version?: number
  readonly rowsMax?: number
  readonly verify?: () => void
}

type Answer = Answered | BadQuery

class Rig {
  readonly begun: Begun[] = []
  /** Pins so far, as what is acknowledged would be flushed by each. */
  pins = 0
  released = 0
  readonly deps: QuestionDeps

  constructor() {
    const run: QueryEngine['run'] = (task, fairKey, verify = () => {}, gone) =>
      new Promise((resolve, reject) => {
        const done = { columns: ['value'], recordsProcessed: 9, bytesProcessed: 8, durationMs: 7 }
        const end = () => reject(new Unavailable('client_gone', 'gone'))
        if (gone?.aborted === true) end()
        gone?.addEventListener('abort', end)
        this.begun.push({
          fairKey,
          bounds: JSON.stringify(task.statement.bounds),
          verify: () => {
            try {
              verify()
            } catch (error) {
              reject(error as Error)
            }
          },
          gone: gone!,
          end: () => resolve({ ...done, rows: [[String(task.source)]] } satisfies QueryDone),
        })
      })
    const engine = { dialect: duckdb, run, parse: () => Promise.reject(new Error('no text')) }
    this.deps = {
      engine: engine as unknown as QueryEngine,
      runs: new SharedRuns(),
      onQuery: () => {},
      pin: async () => ({ source: ++this.pins, release: () => (this.released += 1) }),
    }
  }

  async ask({ by = 'A', filter = '1', policy = null, ...more }: AskOptions = {}): Promise<Answer> {
    const { gone, version = 1, rowsMax = counter.rowsMax, verify = () => {} } = more
    const pools: PoolsOfQuestion = [{ schema: { ...SCHEMA, version }, policy }]
    const filters = [{ column: 'n', operator: 'GREATER_THAN' as const, value: filter }]
    const { query } = counter.read(
      { metric: { sum: { dataPool: { id: 'x' }, measure: { columnName: 'n' } } }, filters } as never,
      () => undefined as never,
    )
    const reader = {
      applicationId: by,
      verifyAgain: verify,
      inTurn: async <T>(plan: () => T): Promise<T> => plan(),
      gone,
    }
    return await ask({ ...counter, rowsMax }, pools, query, reader, this.deps)
  }

  async until(runs: number): Promise<void> {
    await expect.poll(() => this.begun.length, { interval: 1 }).toBe(runs)
  }
}

const values = (answers: readonly Answer[]) =>
  answers.map(each => ('rows' in each ? each.rows[0]?.[0] : each.badRequest))

/** Long enough for every promise that needs no more than others. */
const settled = () => new Promise(resolve => setTimeout(resolve, 5))

test('of equal questions two runs are under way, and all that wait share the next one', async () => {
  const rig = new Rig()
  const asked = Array.from({ length: 64 }, () => rig.ask())
  await rig.until(2)
  await settled()
  expect(rig.begun.length).toBe(2)
  rig.begun[1]!.end()
  await rig.until(3)
  const late = rig.ask()
  await settled()
  expect([rig.begun.length, rig.pins]).toEqual([3, 3])
  rig.begun[0]!.end()
  await rig.until(4)
  rig.begun[2]!.end()
  rig.begun[3]!.end()
  expect(values(await Promise.all(asked))).toEqual(['1', '2', ...Array.from({ length: 62 }, () => '3')])
  // It came after the third run had begun, and may have acknowledged something before (W-8).
  expect(values([await late])).toEqual(['4'])
  expect(rig.released).toBe(4)
  // Nothing of the question is left: the next one begins at once.
  const again = rig.ask()
  await rig.until(5)
  rig.begun[4]!.end()
  expect(await again).toMatchObject({
    recordsProcessed: 9,
    bytesProcessed: 8,
    durationMs: 7,
    fromCache: false,
  })
})

const POLICY: RowPolicy = { columns: ['*'], rows: [], filterSql: null, values: {} }
const PLACEHOLDER = `$${'{{ t }}'}`
const tenant = (value: string, columns = ['n', 'tenant']): RowPolicy => ({
  columns,
  rows: [{ column: 'tenant', operator: 'EQUALS', value: PLACEHOLDER }],
  filterSql: null,
  values: { t: value },
})
const DIFFERENT: readonly (readonly [string, AskOptions, AskOptions])[] = [
  ['applications', { by: 'A' }, { by: 'B' }],
  ['values', { filter: '1' }, { filter: '2' }],
  ['values of a policy', { policy: tenant('a') }, { policy: tenant('b') }],
  ['columns of a policy', { policy: tenant('a') }, { policy: tenant('a', ['n']) }],
  ['a policy and none', { policy: tenant('a') }, {}],
  ['schemas', { version: 1 }, { version: 2 }],
  ['limits of rows', { rowsMax: 5 }, { rowsMax: 6 }],
]

test.each(DIFFERENT)('questions of different %s share no run', async (_, one, other) => {
  const rig = new Rig()
  const asked = [one, one, one, other, other, other].map(each => rig.ask(each))
  await rig.until(4)
  for (const each of rig.begun.slice(0, 4)) each.end()
  await rig.until(6)
  for (const each of rig.begun.slice(4)) each.end()
  expect(new Set(values(await Promise.all(asked))).size).toBe(6)
  expect(new Set(rig.begun.map(({ fairKey }) => fairKey))).toEqual(new Set([one.by ?? 'A', other.by ?? 'A']))
})

test('a reader whose policy shows all shares with one of the same application without a policy', async () => {
  const rig = new Rig()
  const asked = [rig.ask(), rig.ask(), rig.ask({ policy: POLICY }), rig.ask()]
  await rig.until(2)
  for (const each of rig.begun) each.end()
  await rig.until(3)
  rig.begun[2]!.end()
  const answers = await Promise.all(asked)
  expect(values(answers)).toEqual(['1', '2', '3', '3'])
  // The costs tell of hidden rows.
  expect(answers[2]).toMatchObject({ recordsProcessed: 0, bytesProcessed: 0 })
  expect(answers[3]).toMatchObject({ recordsProcessed: 9 })
})

test('a client that leaves ends nothing for the others; the last one ends the run', async () => {
  const rig = new Rig()
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()]
  const alone = rig.ask({ gone: first.signal }).catch((error: unknown) => error)
  const other = rig.ask()
  await rig.until(2)
  const shared = [second, third].map(({ signal }) =>
    rig.ask({ gone: signal }).catch((error: unknown) => error),
  )
  const stays = rig.ask()
  await settled()
  first.abort()
  expect(await alone).toMatchObject({ code: 'client_gone' })
  expect([rig.begun[0]!.gone.aborted, rig.begun[1]!.gone.aborted]).toEqual([true, false])
  await rig.until(3)
  second.abort()
  expect(await shared[0]).toMatchObject({ code: 'client_gone' })
  expect(rig.begun[2]!.gone.aborted).toBe(false)
  rig.begun[2]!.end()
  rig.begun[1]!.end()
  expect(values([await stays, (await shared[1]) as Answer, await other])).toEqual(['3', '3', '2'])
  expect(rig.released).toBe(3)
})

test('a run that all have left before its begin never begins, and a later asker gets one', async () => {
  const rig = new Rig()
  const client = new AbortController()
  const two = [rig.ask(), rig.ask()]
  await rig.until(2)
  const left = rig.ask({ gone: client.signal }).catch((error: unknown) => error)
  await settled()
  client.abort()
  expect(await left).toMatchObject({ code: 'client_gone' })
  const later = rig.ask()
  await settled()
  rig.begun[0]!.end()
  await rig.until(3)
  rig.begun[2]!.end()
  expect(values([await later])).toEqual(['3'])
  const gone = rig.ask({ gone: AbortSignal.abort() })
  await expect(gone).rejects.toMatchObject({ code: 'client_gone' })
  rig.begun[1]!.end()
  await Promise.all(two)
  expect(rig.begun.length).toBe(3)
})

test('who may not ask any more is refused, before the run and after it; the others are answered', async () => {
  const rig = new Rig()
  const mayNot = new Set<string>()
  const verify = (name: string) => () => {
    if (mayNot.has(name)) throw new Unavailable('policy_changed', name)
  }
  const two = [rig.ask(), rig.ask()]
  await rig.until(2)
  const [a, b, c] = ['a', 'b', 'c'].map(name =>
    rig.ask({ verify: verify(name) }).catch((error: unknown) => error),
  )
  await settled()
  rig.begun[0]!.end()
  await rig.until(3)
  mayNot.add('a')
  rig.begun[2]!.verify()
  expect(await a).toMatchObject({ code: 'policy_changed', message: 'a' })
  mayNot.add('b')
  rig.begun[2]!.end()
  expect(await b).toMatchObject({ code: 'policy_changed', message: 'b' })
  expect(values([(await c) as Answer])).toEqual(['3'])
  // Where none of them may ask, the query does not run.
  const last = rig.ask({ verify: verify('d') }).catch((error: unknown) => error)
  await rig.until(4)
  mayNot.add('d')
  rig.begun[3]!.verify()
  expect(await last).toMatchObject({ code: 'policy_changed', message: 'd' })
  rig.begun[1]!.end()
  await Promise.all(two)
})

test('the failure of a run is that of all who share it', async () => {
  const rig = new Rig()
  const two = [rig.ask(), rig.ask()]
  await rig.until(2)
  rig.deps.engine.run = () => Promise.reject(new Unavailable('timeout', 'too long'))
  const shared = [rig.ask(), rig.ask()].map(each => each.catch((error: unknown) => error))
  await settled()
  for (const each of rig.begun) each.end()
  expect(await Promise.all(shared)).toMatchObject([{ code: 'timeout' }, { code: 'timeout' }])
  expect(values(await Promise.all(two))).toEqual(['1', '2'])
})

test('those that wait are bounded: one more is refused, and one of another application waits', async () => {
  const runs = new SharedRuns<string>()
  const held: (() => void)[] = []
  const work = () => new Promise<string>(resolve => held.push(() => resolve('done')))
  const sharer = (applicationId: string, bytes: number) => ({
    applicationId,
    bytes,
    gone: undefined,
    verify: () => {},
    onStage: () => {},
  })
  const HALF = 64 * 1024 * 1024
  const begun = [1, 2].map(() => runs.ask('q', sharer('A', HALF), work))
  const waits = runs.ask('q', sharer('A', HALF), work)
  await expect(runs.ask('q', sharer('A', 1), work)).rejects.toMatchObject({ code: 'queue_full' })
  const other = runs.ask('q', sharer('B', HALF / 2), work)
  while (held.length > 0) {
    held.shift()!()
    await settled()
  }
  expect(await Promise.all([...begun, waits, other])).toEqual(Array.from({ length: 4 }, () => 'done'))
  // What they took was given back.
  const again = [1, 2, 3].map(() => runs.ask('q', sharer('A', HALF), work))
  await settled()
  while (held.length > 0) {
    held.shift()!()
    await settled()
  }
  expect(await Promise.all(again)).toEqual(['done', 'done', 'done'])
})

const NATIVE = { prefix: 'p_', pools: ['x'], parameters: [], conditions: [[]] }

/** The runs of four askers one after the other, and how many are under way before one ends. */
async function runsOf(varies: 'clock' | 'lot' | undefined, form: 'rows' | 'columns' = 'rows') {
  const rig = new Rig()
  const statement = { ...NATIVE, sql: 'SELECT 1 FROM p_rows0', ...(varies === undefined ? {} : { varies }) }
  const conditions = [[{ column: '_service_received_at', operator: '>=', value: { kind: 'ago', us: 1 } }]]
  const read = varies === 'clock' ? { ...statement, conditions } : statement
  const query = { statement: read, poolOf: [0], bounds: [], form, text: '' }
  const reader = { applicationId: 'A', verifyAgain: () => {}, inTurn: async <T>(plan: () => T) => plan() }
  const asked = []
  for (let n = 0; n < 4; n++) {
    asked.push(ask(nativeSql, [{ schema: SCHEMA, policy: null }], query as never, reader, rig.deps))
    // Each has another time of its plan.
    await settled()
  }
  const running = rig.begun.length
  const bounds = new Set(rig.begun.map(each => each.bounds)).size
  for (let at = 0; at < rig.begun.length; at++) {
    rig.begun[at]!.end()
    await settled()
  }
  await Promise.all(asked)
  return { running, bounds, runs: rig.begun.length }
}

test('statements that read the clock share their run, those that draw lots never do', async () => {
  expect(await runsOf('clock')).toEqual({ running: 2, bounds: 2, runs: 3 })
  expect((await runsOf(undefined)).running).toBe(2)
  expect((await runsOf('lot')).running).toBe(4)
  expect((await runsOf(undefined, 'columns')).running).toBe(4)
})
