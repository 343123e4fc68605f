/**
 * The Arrow route over HTTP against a model: deletion vectors, deletes, all types, selections, bad
 * requests, aborts, stopping.
 */
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type Table, tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fetchToken, send, startServer, type TestPool, type TestServer } from '../util/server.ts'

const COLUMNS = [
  ['at', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['b', 'BOOLEAN'],
  ['f', 'FLOAT'],
  ['x', 'DOUBLE'],
  ['i8', 'INT8'],
  ['i16', 'INT16'],
  ['i32', 'INT32'],
  ['i64', 'INT64'],
  ['d', 'DATE'],
  ['j', 'JSON'],
] as const

/** The text of an event as it is sent. */
function eventOf(id: number, round: number): string {
  const at = `"2026-01-0${(id % 3) + 1}T00:00:00.123456Z"`
  if (id % 7 === 0) return `{"at":${at},"id":"k${id}"}`
  const j = id % 2 === 0 ? `{ "r" : ${round},\\n"t":"a\\\\nb é" }`.replace('\\n"t"', '\n"t"') : 'null'
  return (
    `{"at":${at},"id":"k${id}","b":${id % 2 === 0},"f":${id / 4},"x":${id}.1e-3,"i8":${(id % 256) - 128},` +
    `"i16":${id - 300},"i32":-${id},"i64":9223372036854775${String(id % 1000)
      .padStart(3, '0')
      .replace(/^[89]/, '7')},"d":"1969-12-31","j":${j},"round":${round}}`
  )
}

let server: TestServer
let pool: TestPool
let token: string
/** The text of the last event of each id. */
const model = new Map<number, string>()

async function post(ids: readonly number[], round: number): Promise<void> {
  for (let from = 0; from < ids.length; from += 500) {
    const events = ids.slice(from, from + 500).map(id => [id, eventOf(id, round)] as const)
    const answer = await send(pool.url, `[${events.map(([, text]) => text).join()}]`)
    expect([answer.status, answer.headers.get('x-events-rejected')]).toEqual([200, '0'])
    for (const [id, text] of events) model.set(id, text)
  }
}

async function createPool(uniqueName: string): Promise<TestPool> {
  const columns = COLUMNS.map(([name, type]) => ({
    name,
    type,
    jsonProperty: name,
    nullable: name !== 'at' && name !== 'id',
  }))
  return server.createPool({ uniqueName, timestamp: 'at', uniqueId: 'id', columns })
}

function get(query = '', headers: Record<string, string> = {}, name = 'orders'): Promise<Response> {
  return fetch(`${server.base}/v1/pools/${name}/arrow${query}`, {
    headers: { authorization: `Bearer ${token}`, ...headers },
  })
}

async function read(query = '', name = 'orders'): Promise<Table> {
  const answer = await get(query, {}, name)
  if (answer.status !== 200) throw new Error(await answer.text())
  expect(answer.headers.get('content-type')).toBe('application/vnd.apache.arrow.stream')
  return tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
}

beforeAll(async () => {
  server = await startServer()
  token = await fetchToken(server.base, server.dataDir)
  pool = await createPool('orders')
  await post(
    Array.from({ length: 900 }, (_, id) => id),
    1,
  )
  await server.count(pool.poolId) // flushes
  await post(
    Array.from({ length: 300 }, (_, id) => id * 2),
    2,
  )
  await server.count(pool.poolId)
  const gone = [1, 2, 3, 500].map(id => ({ at: JSON.parse(model.get(id) ?? '').at, id: `k${id}` }))
  expect((await send(pool.url, gone, 'DELETE')).status).toBe(200)
  for (const id of [1, 2, 3, 500]) model.delete(id)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

test('the rows are the live ones, each value of each type as it was sent', async () => {
  await post([10_000], 3) // not flushed when the request comes
  const table = await read()
  expect(table.schema.fields.map(({ name, type }) => `${name} ${type}`)).toEqual([
    '_service_received_at Timestamp<MICROSECOND, UTC>',
    '_service_payload Utf8',
    'at Timestamp<MICROSECOND, UTC>',
    'id Utf8',
    'b Bool',
    'f Float32',
    'x Float64',
    'i8 Int8',
    'i16 Int16',
    'i32 Int32',
    'i64 Int64',
    'd Date32<DAY>',
    'j Utf8',
  ])
  const seen = new Map<number, string>()
  for (const row of table) {
    const value = row.toJSON() as Record<string, unknown>
    const text = value['_service_payload'] as string
    const sent = JSON.parse(text) as Record<string, unknown>
    const id = Number((value['id'] as string).slice(1))
    seen.set(id, text)
    expect(value['at']).toBeCloseTo(Date.parse(sent['at'] as string) + 0.456, 3)
    for (const name of ['b', 'f', 'x', 'i8', 'i16', 'i32']) expect(value[name]).toBe(sent[name] ?? null)
    const i64 = /"i64":(\d+)/.exec(text)?.[1]
    expect(value['i64'] === null ? undefined : String(value['i64'])).toBe(i64)
    expect(value['d']).toBe(sent['d'] === undefined ? null : -86_400_000)
    const j = /"j":(\{[^}]*\})/.exec(text)?.[1] ?? null
    expect(value['j']).toBe(j)
  }
  expect(table.numRows).toBe(model.size)
  expect(seen).toEqual(model)
})

test('columns, filters and times select', async () => {
  const filters = encodeURIComponent(
    JSON.stringify([
      {
        column: 'i32',
        operator: 'LESS_THAN',
        value: '-880',
        or: [{ column: 'id', operator: 'EQUALS', value: 'k7' }],
      },
    ]),
  )
  const some = await read(`?columns=i32,id&filters=${filters}&columns=_service_payload`)
  expect(some.schema.fields.map(({ name }) => name)).toEqual(['i32', 'id', '_service_payload'])
  const want = [...model.keys()].filter(id => (id > 880 && id % 7 !== 0) || id === 7)
  expect([...some].map(row => row['id'] as string).sort()).toEqual(want.map(id => `k${id}`).sort())
  const listed = await read(`?columns=${encodeURIComponent('["i32","id"]')}&columns=b`)
  expect(listed.schema.fields.map(({ name }) => name)).toEqual(['i32', 'id', 'b'])
  const day = await read('?columns=id&start=2026-01-02&stop=2026-01-03')
  expect(day.numRows).toBe([...model.keys()].filter(id => id % 3 === 1).length)
  const none = await read('?columns=id,i8&stop=2020-01-01')
  expect([none.numRows, none.schema.fields.length]).toEqual([0, 2])
})

test('bad parameters are 400 and named; strangers stay outside', async () => {
  const cases = [
    ['?columns=nope', 'columns'],
    ['?columns=id,id', 'columns'],
    ['?columns=', 'columns'],
    ['?columns=[%22id%22', 'columns'],
    ['?columns=[1]', 'columns'],
    ['?columns=[]&filters=[]', 'columns'],
    ['?column=id', 'column'],
    ['?filters=%7B', 'filters'],
    ['?filters=%7B%7D', 'filters'],
    ['?filters=[{"column":"id","operator":"EQUALS","value":1}]', 'filters'],
    ['?filters=[{"column":"id","operator":"SOUNDS_LIKE","value":"1"}]', 'filters'],
    ['?filters=[{"column":"i8","operator":"EQUALS","value":"1) OR (1=1"}]', 'filters'],
    ['?filters=[]&filters=[]', 'filters'],
    ['?start=yesterday', 'start'],
    ['?stop=1-1-1', 'stop'],
  ] as const
  for (const [query, name] of cases) {
    const answer = await get(query)
    const body = (await answer.json()) as { code: string; errors: string }
    expect([query, answer.status, body.code]).toEqual([query, 400, 'bad_parameter'])
    expect(body.errors.startsWith(`${name}:`)).toBe(true)
  }
  expect((await get('', {}, 'nope')).status).toBe(404)
  expect((await get('', { authorization: 'Bearer x' })).status).toBe(401)
  expect((await fetch(`${server.base}/v1/pools/orders/arrow`)).status).toBe(401)
  const ingestOnly = await fetchToken(server.base, server.dataDir, 'data_pool:read')
  expect((await get('', { authorization: `Bearer ${ingestOnly}` })).status).toBe(403)
  expect((await get('', {}, pool.poolId)).status).toBe(200)
})

test('a pool without a row is its schema', async () => {
  await createPool('empty')
  const table = await read('', 'empty')
  expect([table.numRows, table.schema.fields.length]).toEqual([0, 13])
})

/** A wide pool of so many megabytes that the socket buffers and ours cannot hold it. */
async function fillLarge(name: string): Promise<TestPool> {
  const made = await createPool(name)
  const pad = 'x'.repeat(1900)
  for (let batch = 0; batch < 40; batch += 1) {
    const events = Array.from({ length: 500 }, (_, index) => ({
      at: 1_767_225_600,
      id: `k${batch * 500 + index}`,
      pad,
    }))
    expect((await send(made.url, events)).status).toBe(200)
    if (batch % 8 === 7) await server.count(made.poolId)
  }
  return made
}

function copies(): string[] {
  return readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('export-'))
}

async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error('the awaited state did not come')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** A client that reads the first bytes of the answer and then nothing. */
function stalled(name: string) {
  const socket = connect(Number(new URL(server.base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET /v1/pools/${name}/arrow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
  )
  return new Promise<typeof socket>(resolve => {
    socket.once('data', () => {
      socket.pause()
      resolve(socket)
    })
  })
}

test('a stalled client holds no query slot and no file; replaced segments stay readable for it', async () => {
  const large = await fillLarge('large')
  const sockets = [await stalled('large'), await stalled('large'), await stalled('large')]
  expect(copies()).toEqual([])
  // Three streams wait, and the query process is free: counters and whole streams are answered.
  expect(await server.count(large.poolId)).toBe('20000')
  const [one, two] = await Promise.all([read('?columns=id', 'large'), read('?columns=id', 'large')])
  expect([one.numRows, two.numRows]).toEqual([20_000, 20_000])
  // Rows that are posted later are not in a stream that began before.
  const third = sockets[2]
  if (third === undefined) throw new Error('three were opened')
  const parts: Buffer[] = []
  third.on('data', part => parts.push(part))
  expect((await send(large.url, [{ at: 1, id: 'later' }])).status).toBe(200)
  expect(await server.count(large.poolId)).toBe('20001')
  const ended = new Promise(resolve => third.once('end', resolve))
  third.resume()
  await ended
  const bytes = Buffer.concat(parts)
  expect(bytes.subarray(-5).toString('latin1')).toBe('0\r\n\r\n')
  expect(bytes.byteLength).toBeGreaterThan(20_000 * 1900)
  for (const socket of sockets) socket.destroy()
  await eventually(() => copies().length === 0)
})

test('a pool deleted in the middle streams on to its end, then its files go', async () => {
  const large = await fillLarge('doomed')
  const socket = await stalled('doomed')
  const answer = await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: large.poolId })
  expect(answer.errors).toBeUndefined()
  expect((await get('', {}, 'doomed')).status).toBe(404)
  let last = Buffer.alloc(0)
  let bytes = 0
  socket.on('data', part => {
    last = Buffer.concat([last, part]).subarray(-13)
    bytes += part.byteLength
  })
  const ended = new Promise(resolve => socket.once('close', resolve))
  socket.resume()
  await ended
  expect(bytes).toBeGreaterThan(20_000 * 1900 * 0.9)
  expect(last.subarray(-5).toString('latin1')).toBe('0\r\n\r\n')
  const folder = join(server.dataDir, 'segment', large.poolId)
  await eventually(() => {
    try {
      return readdirSync(folder).filter(name => name.endsWith('.parquet')).length === 0
    } catch {
      return true
    }
  })
})

test('SIGTERM in the middle of a stream: it breaks off without its end, and the stop is clean', async () => {
  const socket = await stalled('large')
  let last = Buffer.alloc(0)
  const ended = new Promise(resolve => socket.once('close', resolve))
  const began = Date.now()
  const done = await server.stop()
  expect(done.code).toBe(0)
  expect(Date.now() - began).toBeLessThan(10_000)
  socket.on('data', part => {
    last = Buffer.concat([last, part]).subarray(-5)
  })
  socket.resume()
  await ended
  expect(last.toString('latin1')).not.toBe('0\r\n\r\n')
  expect(copies()).toEqual([])
  server = await startServer({ dataDir: server.dataDir })
  expect(await server.count(pool.poolId)).toBe(String(model.size))
})

test('a stream that searches too many long texts is refused before it starts, and the next one is whole', async () => {
  const columns = [{ name: 's', type: 'STRING' as const, jsonProperty: 's', nullable: true }]
  const long = await server.createPool({ uniqueName: 'long texts', columns })
  for (let i = 0; i < 20; i += 1) {
    const answer = await send(long.url, JSON.stringify({ s: 'a'.repeat(1_000_000) }))
    expect(answer.status).toBe(200)
  }
  const ask = (count: number) => {
    const filters = Array.from({ length: count }, (_, i) => ({
      column: 's',
      operator: 'LIKE',
      value: `%a${i}b%`,
    }))
    return get(`?columns=s&filters=${encodeURIComponent(JSON.stringify(filters))}`, {}, 'long%20texts')
  }
  const refused = await ask(100)
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([400, 'too_much_work'])
  expect(tableFromIPC(new Uint8Array(await (await ask(1)).arrayBuffer())).numRows).toBe(0)
})
