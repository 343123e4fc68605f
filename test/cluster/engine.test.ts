/** The engine of the cluster store: its limits, failures and turns, and what a policy hides. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClickHouseEngine, type ClickHouseEngineOptions } from '../../src/query/clickhouse/engine.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import type { PoolTable, TableRows } from '../../src/query/clickhouse/rows.ts'
import { withRows } from '../../src/query/clickhouse/rows.ts'
import { clickhouse } from '../../src/query/clickhouse/write-statement.ts'
import { columnOf, operation } from '../../src/query/expression/typed.ts'
import type { Statement } from '../../src/query/plan/plan.ts'
import type { QueryEngine, QueryTask } from '../../src/query/plan/query-task.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { schemaOf } from '../query/pool.ts'
import { startClickHouse, type TestClickHouse, whyNoClickHouse } from './clickhouse.ts'

const why = whyNoClickHouse()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const schema = schemaOf([
  ['n', 'INT64'],
  ['secret', 'STRING'],
])
const parser: Pick<QueryEngine, 'parse' | 'parseStatement'> = {
  parse: async () => ({ badRequest: 'no text' }),
  parseStatement: async () => ({ badRequest: 'no text' }),
}
const TABLE = { table: 'numbers_table', isLive: '_deleted = 0', key: ['n'] }
const engines: ClickHouseEngine[] = []
afterAll(async () => {
  for (const engine of engines) await engine.stop()
})

function engineAt(
  url: string,
  more: Partial<ClickHouseEngineOptions> = {},
  table: PoolTable = TABLE,
): ClickHouseEngine {
  const http = new ClickHouseHttp({ url })
  const placeOf = async (pools: readonly unknown[]) => ({ http, tables: pools.map(() => table) })
  const engine = new ClickHouseEngine({ parser, placeOf, ...more })
  engines.push(engine)
  return engine
}

function taskOf(sql: string): QueryTask<TableRows> {
  const statement: Statement = { sql, bounds: [] }
  return { source: { pools: [{ schema }] }, statement, rowsMax: 1_000 }
}

describe.skipIf(why !== undefined)('against ClickHouse', () => {
  let clickHouse: TestClickHouse
  let engine: ClickHouseEngine

  beforeAll(async () => {
    clickHouse = await startClickHouse()
    engine = engineAt(clickHouse.url)
    await clickHouse.query(
      `CREATE TABLE numbers_table (_service_received_at DateTime64(6, 'UTC'), _service_payload String, n Int64,
       secret String, _version UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_version) ORDER BY n`,
    )
    await clickHouse.query(
      `INSERT INTO numbers_table SELECT 0, '{}', number, toString(number % 10), 1, 0 FROM numbers(100000)`,
    )
    await clickHouse.query(`INSERT INTO numbers_table SELECT 0, '{}', number, '', 2, 1 FROM numbers(10)`)
  })
  afterAll(() => clickHouse.stop())

  test('a tombstone hides its row', async () => {
    const { rows, recordsProcessed } = await engine.run(
      taskOf('SELECT toInt64(count()) FROM rows AS r'),
      'APP',
    )
    expect(rows).toEqual([['99990']])
    expect(recordsProcessed).toBeGreaterThan(0)
  })

  test.each([
    ['SELECT r.n FROM rows AS r', {}, 'too_many_rows'],
    ['SELECT arrayJoin(groupArray(r.n)) FROM rows AS r', {}, 'too_many_rows'],
    ["SELECT repeat('x', 900000) FROM rows AS r LIMIT 100", {}, 'answer_too_large'],
    ['SELECT sum(a.n * b.n) FROM rows AS a CROSS JOIN rows AS b', { queryMsMax: 300 }, 'timeout'],
    [
      "SELECT toInt64(length(groupArray(concat(toString(r.n), repeat('x', 10000))))) FROM rows AS r",
      {},
      'query_memory',
    ],
  ])('%s ends', async (sql, more, code) => {
    const limited = engineAt(clickHouse.url, more)
    await expect(limited.run(taskOf(sql), 'APP')).rejects.toMatchObject({ name: 'Unavailable', code })
    expect((await engine.run(taskOf('SELECT max(r.n) FROM rows AS r'), 'APP')).rows).toEqual([['99999']])
  })

  /** What an operator may have set for Weir's user, a statement, and its whole answer. */
  const PROFILES: readonly (readonly [string, string, readonly string[]])[] = [
    [
      "max_rows_to_read = 10, read_overflow_mode = 'break'",
      'SELECT toInt64(count()) FROM rows AS r',
      ['99990'],
    ],
    [
      "max_rows_to_read_leaf = 10, read_overflow_mode_leaf = 'break'",
      'SELECT toInt64(count()) FROM rows AS r',
      ['99990'],
    ],
    [
      "max_rows_to_group_by = 10, group_by_overflow_mode = 'any'",
      'SELECT toInt64(count()) FROM (SELECT r.n FROM rows AS r GROUP BY r.n) AS g',
      ['99990'],
    ],
    [
      "max_rows_in_distinct = 10, distinct_overflow_mode = 'break'",
      'SELECT toInt64(count()) FROM (SELECT DISTINCT r.n FROM rows AS r) AS d',
      ['99990'],
    ],
    [
      "max_rows_to_sort = 10, sort_overflow_mode = 'break'",
      'SELECT toInt64(count()) FROM (SELECT r.n FROM rows AS r ORDER BY r.secret, r.n DESC LIMIT 100000) AS s',
      ['99990'],
    ],
    [
      "max_rows_in_set = 10, set_overflow_mode = 'break'",
      'SELECT toInt64(count()) FROM rows AS a WHERE a.n IN (SELECT b.n + 0 FROM rows AS b)',
      ['99990'],
    ],
    [
      "max_rows_in_join = 10, join_overflow_mode = 'break'",
      'SELECT toInt64(count()) FROM rows AS a INNER JOIN rows AS b ON a.n = b.n',
      ['99990'],
    ],
    [
      "timeout_overflow_mode = 'break'",
      'SELECT toInt64(sum(a.n * b.n) % 1000) FROM rows AS a CROSS JOIN rows AS b',
      ['never, within the time of a query'],
    ],
    ['limit = 1', 'SELECT r.n FROM rows AS r WHERE r.n < 13 ORDER BY r.n', ['10', '11', '12']],
    ['offset = 2', 'SELECT r.n FROM rows AS r WHERE r.n < 13 ORDER BY r.n', ['10', '11', '12']],
  ]

  test.each(PROFILES)('with %s an answer is whole or none', async (profile, sql, whole) => {
    const names = [...profile.matchAll(/(\w+) = /g)].map(([, name]) => name)
    await clickHouse.query(`SET ${profile}`)
    try {
      const more = profile.startsWith('timeout') ? { queryMsMax: 300 } : {}
      const asked = engineAt(clickHouse.url, more).run(taskOf(sql), 'APP')
      const answer = await asked.catch((error: Error) => error)
      if (answer instanceof Error) expect(answer).toMatchObject({ name: 'Unavailable' })
      else expect(answer.rows.flat()).toEqual(whole)
    } finally {
      for (const name of names) await clickHouse.query(`SET ${name} = DEFAULT`)
    }
    expect((await engine.run(taskOf('SELECT toInt64(count()) FROM rows AS r'), 'APP')).rows).toEqual([
      ['99990'],
    ])
  })

  test('a shard that does not answer is not left out', async () => {
    const ofShards = (select: string) => `remote('127.0.0.1,127.0.0.1:1', view(${select}))`
    const table = { ...TABLE, table: 'default.numbers_table', ofShards }
    await clickHouse.query('SET skip_unavailable_shards = 1')
    try {
      const asked = engineAt(clickHouse.url, {}, table).run(
        taskOf('SELECT toInt64(count()) FROM rows AS r'),
        'APP',
      )
      await expect(asked).rejects.toMatchObject({ name: 'Unavailable' })
    } finally {
      await clickHouse.query('SET skip_unavailable_shards = DEFAULT')
    }
  })

  test('a limited reader runs nothing below the policy', async () => {
    const n = columnOf({ name: 'n', type: 'INT64' })
    const bound = {
      op: 'value',
      kind: 'integer',
      bits: 63,
      operands: [],
      bound: { type: 'INT64', value: '7' },
    } as const
    const select = {
      where: operation('>', 'boolean', [n, bound]),
      outputs: [{ name: 'value', value: operation('count_rows', 'integer', []) }],
    }
    const where = operation('starts_with', 'boolean', [
      columnOf({ name: 'secret', type: 'STRING' }),
      { op: 'value', kind: 'text', bits: 0, operands: [], bound: { type: 'STRING', value: '3' } },
    ])
    const planOf = async (visible?: { columns: null; where: typeof where }) => {
      const statement = clickhouse.write({ select, visible })
      const values = statement.bounds.map(({ value }) =>
        typeof value === 'string' && value === '3' ? "'3'" : value,
      )
      const pools = [{ schema, table: TABLE }]
      const sql = withRows(pools, statement).replaceAll(/\{p(\d+):\w+\}/g, (_, place) =>
        String(values[place - 1]),
      )
      return await clickHouse.query(`EXPLAIN indexes = 1 ${sql}`)
    }
    // Without the policy the reader's condition is one of the table's index.
    expect(await planOf()).toMatch(/Condition: \(n in \[8, \+Inf\)\)/)
    const limited = await planOf({ columns: null, where })
    expect(limited).not.toMatch(/n in/)
    expect(limited).toMatch(/Filter[\s\S]*Limit[\s\S]*Filter[\s\S]*ReadFromMergeTree/)
  })

  test('shards group their rows, and joins read them', async () => {
    const ofShards = (select: string) => `remote('localhost,127.0.0.1', view(${select}))`
    const table = { table: 'default.numbers_table', isLive: '_deleted = 0', key: ['n'], ofShards }
    const shards = engineAt(clickHouse.url, {}, table)
    const count = await shards.run(taskOf('SELECT toInt64(count()) FROM rows AS r WHERE r.n >= 50000'), 'APP')
    expect(count.rows).toEqual([['100000']])
    const joined = await shards.run(
      taskOf('SELECT toInt64(count()) FROM rows AS a INNER JOIN rows AS b ON a.n = b.n WHERE a.n < 20'),
      'APP',
    )
    expect(joined.rows).toEqual([['40']])
  })
})

describe('of a server that fails', () => {
  let server: Server | undefined

  async function listen(answer: Parameters<typeof createServer>[1]): Promise<string> {
    server = createServer(answer!)
    await new Promise<void>(resolve => server!.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  afterAll(() => {
    server?.closeAllConnections()
    server?.close()
  })

  test('nothing listens', async () => {
    const url = await listen((_, response) => response.end())
    await new Promise(resolve => server!.close(resolve))
    await expect(engineAt(url).run(taskOf('SELECT 1'), 'APP')).rejects.toMatchObject({
      name: 'Unavailable',
      code: 'cluster_unreachable',
    })
  })

  test.each([
    ['Code: 60', 60, 'cluster'],
    ['Code: 241', 241, 'query_memory'],
    ['Code: 159', 159, 'timeout'],
    ['Code: 999 keeper', 999, 'cluster'],
  ])('%s', async (text, number, code) => {
    const url = await listen((_, response) => {
      response.writeHead(500, { 'X-ClickHouse-Exception-Code': number }).end(text)
    })
    await expect(engineAt(url).run(taskOf('SELECT 1'), 'APP')).rejects.toMatchObject({
      name: 'Unavailable',
      code,
    })
  })

  test.each([
    ['x', 131_073, 1],
    // Three characters each, as they are sent.
    ['!', 60_000, 6],
    ['~', 130_000, 7],
  ])('values of %s that fit into no address are refused', async (text, length, count) => {
    const engine = engineAt(await listen((_, response) => response.end()))
    const bound = { type: 'STRING', value: text.repeat(length) } as const
    const statement = { sql: 'SELECT 1', bounds: Array.from({ length: count }, () => bound) }
    const asked = engine.run({ ...taskOf(''), statement }, 'APP')
    await expect(asked).rejects.toMatchObject({ name: 'Unavailable', code: 'too_much_work' })
  })

  test('an answer that is cut off is no answer', async () => {
    const text = 'a text of a row'
    const whole = Buffer.from(`\x02\x01c\x01d\x05Int64\x06String${'\0'.repeat(8)}\x0f${text}`, 'latin1')
    let length = whole.length
    const url = await listen((_, response) => response.end(whole.subarray(0, length)))
    const engine = engineAt(url)
    expect((await engine.run(taskOf('SELECT 1'), 'APP')).rows).toEqual([['0', text]])
    const header = whole.length - text.length - 9
    for (length = whole.length - 1; length >= 0; length -= 1) {
      const asked = engine.run(taskOf('SELECT 1'), 'APP')
      if (length === header) expect((await asked).rows).toEqual([])
      else await expect(asked, `${length}`).rejects.toMatchObject({ code: 'cluster' })
    }
  })

  test('a client that goes ends its query, and applications take turns', async () => {
    const killed: string[] = []
    const open: { readonly key: string; readonly end: () => void }[] = []
    let arrived = () => {}
    const url = await listen((request, response) => {
      const query = new URL(request.url!, 'http://x').searchParams
      if (query.has('param_id')) killed.push(query.get('param_id')!)
      const end = () => response.end(Buffer.from('\x01\x01c\x05Int64', 'latin1'))
      if (query.has('param_id')) end()
      else open.push({ key: query.get('query_id')!, end })
      arrived()
    })
    const engine = engineAt(url, { runningMax: 1, shortMs: 600_000 })
    const order: string[] = []
    const ask = (key: string, gone?: AbortSignal) =>
      engine.run(taskOf('SELECT 1'), key, () => order.push(key), gone).catch((error: Error) => error)
    const gone = new AbortController()
    const arrival = new Promise<void>(resolve => {
      arrived = resolve
    })
    const first = ask('A', gone.signal)
    const waiting = [ask('A'), ask('A'), ask('B')]
    expect(engine.stats()).toEqual({ running: 1, waiting: 3 })
    await arrival
    const { key } = open[0]!
    const next = () =>
      new Promise<void>(resolve => {
        arrived = () => open.length > order.length - 1 && killed.length > 0 && resolve()
      })
    const after = next()
    gone.abort()
    expect(await first).toMatchObject({ code: 'client_gone' })
    await after
    expect(killed).toEqual([key])
    for (let turn = 1; turn <= waiting.length; turn++) {
      while (open[turn] === undefined) await new Promise<void>(resolve => (arrived = resolve))
      open[turn]!.end()
    }
    await Promise.all(waiting)
    expect(order).toEqual(['A', 'A', 'B', 'A'])
  })

  test.each(['question', 'stream'])(
    'a long %s leaves a slot to what is short, and begins again when another slot is free',
    async what => {
      const asked: string[] = []
      const url = await listen(async (request, response) => {
        const parts: Buffer[] = []
        for await (const part of request) parts.push(part as Buffer)
        const sql = Buffer.concat(parts).toString()
        if (sql.startsWith('KILL')) response.end()
        else asked.push(sql.split(' ')[1]!)
        if (sql.startsWith('SELECT short')) response.end(Buffer.from('\x01\x01c\x05Int64', 'latin1'))
      })
      const engine = engineAt(url)
      const clients = ['a', 'b', 'c'].map(() => new AbortController())
      const ask = async (task: QueryTask<TableRows>, fairKey: string, gone: AbortSignal) => {
        if (what === 'question') return await engine.run(task, fairKey, undefined, gone)
        for await (const _ of engine.stream(task, 'ArrowStream', {}, { fairKey, gone }));
        return undefined
      }
      const long = clients.map(({ signal }, n) => ask(taskOf(`SELECT long${n}`), `APP${n}`, signal))
      const ended = Promise.allSettled(long)
      expect((await engine.run(taskOf('SELECT short'), 'APP3')).rows).toEqual([])
      expect(asked).toEqual(['long0', 'long1', 'long2', 'short'])
      expect(engine.stats()).toEqual({ running: 2, waiting: 1 })
      clients[0]!.abort()
      await expect.poll(() => asked.at(-1)).toBe('long2')
      expect(engine.stats()).toEqual({ running: 2, waiting: 0 })
      for (const client of clients) client.abort()
      expect(await ended).toMatchObject(long.map(() => ({ reason: { code: 'client_gone' } })))
    },
  )

  test('what fails after an interrupt does not begin again', async () => {
    let asked = 0
    const fails = (_: unknown, gone: AbortSignal | undefined) =>
      new Promise<never>((_, reject) => {
        asked += 1
        gone!.addEventListener('abort', () => reject(new Unavailable('cluster_not_synced', 'no replica')))
      })
    const engine = engineAt('http://127.0.0.1:1', { placeOf: fails })
    const clients = ['a', 'b', 'c'].map(() => new AbortController())
    const all = clients.map(({ signal }, n) => engine.run(taskOf('SELECT 1'), `APP${n}`, undefined, signal))
    const ended = Promise.allSettled(all)
    const third = all[2]!.catch((error: Error) => error)
    // Another try would wait for a slot.
    await expect.poll(() => engine.stats()).toEqual({ running: 2, waiting: 0 })
    expect(await third).toMatchObject({ code: 'cluster_not_synced' })
    expect(asked).toBe(3)
    for (const client of clients) client.abort()
    await ended
  })
})
