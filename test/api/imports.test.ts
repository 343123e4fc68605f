/**
 * Imports through the front end: order, back-pressure, refusals of the request, and everything that
 * ends an import early. Each of those says how many rows are durable.
 */
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { IMPORTS_ADMIN_MIN } from '../../src/api/imports/import-route.ts'
import { UPLOAD_BUFFER_BYTES } from '../../src/api/imports/upload-body.ts'
import { endLeftImports } from '../../src/catalog/change/change-import.ts'
import type { Scope } from '../../src/catalog/documents/model.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { EVENTS_MAX, IMPORT_BATCHES_MAX, IMPORTS_MAX } from '../../src/util/limits.ts'
import { expectProblem } from '../path/client.ts'
import { type Answer, type Ask, ask, head, Raw } from './client.ts'
import { api, fake, gate, ingestSchemaOf, startForEachTest, until } from './fake.ts'

startForEachTest({ uploadStallMs: 3_000, waitMsMax: 500 })

const PATH = '/v1/pools/open/import?format=ndjson'
const TOKEN = 'Authorization: Bearer t'

function send(body: string | Uint8Array, more: Ask = {}, path = PATH): Promise<Answer> {
  return ask(api.port, path, { body, ...more })
}

function lines(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, n) => `{"id":"r${from + n}"}\n`).join('')
}

/** The ids of everything that is in the log, in its order. A record has refused events too. */
function logged(): string[] {
  const events = fake.logged.flatMap(({ body }) => JSON.parse(body) as { readonly id?: unknown }[])
  return events.map(({ id }) => id).filter(id => typeof id === 'string')
}

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `r${from + n}`)

test('rows arrive in the order of the file, whatever the number of batches', async () => {
  const answer = await send(lines(0, 5_250))
  expect([answer.status, logged()]).toEqual([200, ids(0, 5_250)])
  expect(answer.json).toMatchObject({
    rows: 5_250,
    accepted: 5_250,
    rejected: 0,
    durableRows: 5_250,
    refused: [],
  })
  expect(answer.json.durableBytes).toBe(lines(0, 5_250).length)
  expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['5250', '0'])
  expect(fake.tasks.length).toBe(11)
})

test('an empty body, a body in chunks, gzip, and one line', async () => {
  expect((await send('')).json).toMatchObject({ rows: 0, accepted: 0, durableRows: 0 })
  const chunks = [lines(0, 3).slice(0, 20), lines(0, 3).slice(20)]
  expect((await ask(api.port, PATH, { chunks })).json).toMatchObject({ rows: 3, accepted: 3 })
  const zipped = await send(gzipSync(lines(3, 6)), { headers: { 'content-encoding': 'gzip' } })
  expect(zipped.json).toMatchObject({ rows: 3, accepted: 3, durableBytes: null })
  expect((await send('{"id":"r6"}')).json).toMatchObject({ rows: 1 })
  expect(logged()).toEqual(ids(0, 7))
})

test('refused rows are listed by row and line, by whichever side refused them', async () => {
  const body = `${lines(0, 2)}\nno json\n{"id":5}\n${lines(2, 3)}[]\n{"other":1}\n`
  const { status, json, headers } = await send(body)
  expect([status, headers['x-events-accepted'], headers['x-events-rejected']]).toEqual([200, '3', '4'])
  expect(json).toMatchObject({ rows: 7, accepted: 3, rejected: 4, durableRows: 7, refusedOmitted: 0 })
  expect(
    json.refused.map((one: { row: number; line: number; code: string }) => [one.row, one.line, one.code]),
  ).toEqual([
    [3, 4, 'not_json'],
    [4, 5, 'missing_value'],
    [6, 7, 'not_object'],
    [7, 8, 'missing_value'],
  ])
  expect(json.refused[1]).toMatchObject({ column: 'id' })
  expect(logged()).toEqual(ids(0, 3))
  const few = await send(body, {}, `${PATH}&errorsMax=1`)
  expect([few.json.refused.length, few.json.refusedOmitted, few.json.rejectedBy]).toEqual([
    1,
    3,
    { not_json: 1, not_object: 1, missing_value: 2 },
  ])
})

test('a batch without a valid row does not end the import', async () => {
  const { status, json } = await send(`${'{"id":1}\n'.repeat(EVENTS_MAX)}${lines(0, 2)}`)
  expect([status, json.accepted, json.rejected]).toEqual([200, 2, EVENTS_MAX])
  expect(json.refused.length).toBe(100)
})

test('rows that are left out are neither stored nor checked', async () => {
  const { json } = await send(`bad\n${lines(0, 3)}x\n`, {}, `${PATH}&skipRows=2`)
  expect(json).toMatchObject({ rows: 5, accepted: 2, rejected: 1, skippedRows: 2, durableRows: 5 })
  expect(json.refused[0]).toMatchObject({ row: 5, line: 5 })
  expect(logged()).toEqual(ids(1, 3))
})

test.each([
  ['/v1/pools/open/import', {}, 415, 'unsupported_media_type'],
  ['/v1/pools/open/import', { 'content-type': 'application/json' }, 415, 'unsupported_media_type'],
  // Arrow is a format of exports alone.
  [
    '/v1/pools/open/import',
    { 'content-type': 'application/vnd.apache.arrow.stream' },
    415,
    'unsupported_media_type',
  ],
  [PATH, { 'content-encoding': 'br' }, 415, 'unsupported_encoding'],
  [PATH, { 'content-encoding': 'gzip, gzip' }, 415, 'unsupported_encoding'],
  ['/v1/pools/open/import?format=xml', {}, 400, 'bad_parameter'],
  [`${PATH}&skipRows=-1`, {}, 400, 'bad_parameter'],
  [`${PATH}&skipRows=1e3`, {}, 400, 'bad_parameter'],
  [`${PATH}&skipRows=99999999999999999`, {}, 400, 'bad_parameter'],
  [`${PATH}&errorsMax=10001`, {}, 400, 'bad_parameter'],
  [`${PATH}&format=csv`, {}, 400, 'bad_parameter'],
  [`${PATH}&other=1`, {}, 400, 'bad_parameter'],
  [`${PATH}&by=name`, {}, 400, 'bad_parameter'],
  [`${PATH}&by=column&by=column`, {}, 400, 'bad_parameter'],
  [`${PATH}&ignoreUnknown=yes`, {}, 400, 'bad_parameter'],
  [`${PATH}&map=x`, {}, 400, 'bad_parameter'],
  [`${PATH}&map=x=id&map=x=n`, {}, 400, 'bad_parameter'],
  [`${PATH}&map=x=nothing`, {}, 400, 'bad_parameter'],
  ['/v1/pools/none/import?format=ndjson', {}, 404, 'unknown_pool'],
  ['/v1/pools/%ff/import?format=ndjson', {}, 404, 'not_found'],
] as const)('%s %j is refused', async (path, headers, status, code) => {
  const answer = await send(lines(0, 10), { headers }, path)
  expect([answer.status, answer.json.code, logged()]).toEqual([status, code, []])
})

test.each([['application/x-ndjson'], ['Application/JSONL; charset=utf-8']])(
  'the content type %s is a format',
  async type => {
    const answer = await send(lines(0, 1), { headers: { 'content-type': type } }, '/v1/pools/open/import')
    expect([answer.status, logged()]).toEqual([200, ids(0, 1)])
  },
)

test('another method is 405', async () => {
  const answer = await ask(api.port, PATH, { method: 'PUT', body: '' })
  expect([answer.status, answer.headers.allow]).toEqual([405, 'POST, GET, HEAD'])
})

test('a broken body says how many rows are durable', async () => {
  const body = gzipSync(
    Array.from({ length: 20_000 }, (_, n) => `{"id":"r${n}","x":"${Math.random()}"}\n`).join(''),
  )
  const headers = { 'content-encoding': 'gzip' }
  const { status, json, headers: got } = await send(body.subarray(0, body.length - 20), { headers })
  expectProblem({ status, json, headers: got, text: '' }, 400, 'broken_gzip')
  expect(json.detail).toContain(`skipRows=${json.durableRows}`)
  expect(json.durableRows).toBeGreaterThan(10_000)
  expect(logged()).toEqual(ids(0, json.durableRows))
})

test('memory stays bounded while the log is slow, and the client is slowed down', async () => {
  const held = gate()
  fake.commitGate = held.promise
  const raw = await Raw.open(api.port)
  const total = 64 * 1024 * 1024
  raw.write(head(PATH, [TOKEN, `Content-Length: ${total}`]))
  const line = `{"id":"${'x'.repeat(1000)}"}\n`
  const block = Buffer.from(line.repeat(1000))
  let sent = 0
  const pump = () => {
    while (sent < total) {
      const part = block.subarray(0, Math.min(block.length, total - sent))
      sent += part.length
      if (!raw.socket.write(part)) return
    }
  }
  raw.socket.on('drain', pump)
  pump()
  await until(() => fake.tasks.length >= IMPORT_BATCHES_MAX)
  // Nothing moves any more: the sender's socket is full.
  let last = -1
  while (last !== sent) {
    last = sent
    await new Promise(resolve => setTimeout(resolve, 300))
  }
  expect(sent).toBeLessThan(40 * 1024 * 1024)
  expect(fake.tasks.length).toBeLessThanOrEqual(IMPORT_BATCHES_MAX)
  expect(api.stats().slabsInUse).toBeLessThanOrEqual(IMPORT_BATCHES_MAX)
  expect(UPLOAD_BUFFER_BYTES).toBeLessThan(total)
  // Other clients are served meanwhile by the same path, once the log moves.
  held.open()
  await raw.until(({ received }) => received.includes('"refusedOmitted"'))
  expect(raw.received).toContain('HTTP/1.1 200')
  raw.socket.destroy()
})

test('a client that stalls is refused, with what is durable', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head(PATH, [TOKEN, 'Content-Length: 1000000']) + lines(0, EVENTS_MAX + 1))
  await raw.until(({ received }) => received.includes('refusedOmitted'))
  expect(raw.received).toMatch(/^HTTP\/1.1 408 /)
  expect(raw.received).toContain(`"durableRows":${EVENTS_MAX}`)
  expect(logged()).toEqual(ids(0, EVENTS_MAX))
  await raw.untilClosed()
})

test('a client that goes away leaves what is durable, and frees its place', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head(PATH, [TOKEN, 'Content-Length: 1000000']) + lines(0, EVENTS_MAX + 1))
  await until(() => fake.logged.length > 0)
  raw.socket.destroy()
  await until(() => api.stats().imports === 0 && api.stats().open === 0)
  expect(logged()).toEqual(ids(0, EVENTS_MAX))
})

test('a bounded number of imports runs; the next one is 503', async () => {
  const raws: Raw[] = []
  for (let count = 0; count < IMPORTS_MAX; count += 1) {
    const raw = await Raw.open(api.port)
    raws.push(raw)
    raw.write(`${head(PATH, [TOKEN, 'Content-Length: 1000000'])}{`)
  }
  await until(() => api.stats().imports === IMPORTS_MAX)
  const answer = await send(lines(0, 1))
  expect([answer.status, answer.json.code, answer.headers['retry-after']]).toEqual([503, 'busy', '5'])
  // POSTs have their own places.
  expect((await ask(api.port, '/v1/open', { body: '{"id":"post"}' })).status).toBe(200)
  for (const raw of raws) raw.socket.destroy()
  await until(() => api.stats().imports === 0)
})

test('an application has its share of imports, and one place is kept for the scope admin', async () => {
  const raws: Raw[] = []
  const idle = async (applicationId: string, scope: Scope): Promise<void> => {
    fake.importer = { applicationId, scopes: new Set([scope]) }
    const count = api.stats().imports
    const raw = await Raw.open(api.port)
    raws.push(raw)
    raw.write(`${head(PATH, [TOKEN, 'Content-Length: 1000000'])}{`)
    await until(() => api.stats().imports === count + 1)
  }
  const refused = async (applicationId: string, scope: Scope): Promise<string> => {
    fake.importer = { applicationId, scopes: new Set([scope]) }
    const { status, json } = await send(lines(0, 1))
    expect([status, json.code, json.retryable]).toEqual([503, 'busy', true])
    return json.detail
  }
  const writers = IMPORTS_MAX - IMPORTS_ADMIN_MIN
  for (let n = 0; n < writers - 1; n += 1) await idle('a', 'data_pool:write')
  expect(await refused('a', 'data_pool:write')).toContain('this application')
  await idle('b', 'data_pool:write')
  expect(await refused('c', 'data_pool:write')).toContain('too many')
  for (let n = 0; n < IMPORTS_ADMIN_MIN; n += 1) await idle('a', 'admin')
  expect(await refused('d', 'admin')).toContain('too many')
  // A waiting one gets the next place, and the application that has more does not.
  fake.importer = { applicationId: 'a', scopes: new Set(['data_pool:write']) }
  const again = send(lines(0, 1))
  await until(() => api.stats().open === IMPORTS_MAX + 1)
  fake.importer = { applicationId: 'c', scopes: new Set(['data_pool:write']) }
  const waiting = send(lines(0, 1))
  await until(() => api.stats().open === IMPORTS_MAX + 2)
  raws[0]!.socket.destroy()
  expect((await waiting).status).toBe(200)
  expect((await again).json.code).toBe('busy')
  for (const raw of raws) raw.socket.destroy()
  await until(() => api.stats().imports === 0)
  fake.importer = { applicationId: 'a', scopes: new Set(['data_pool:write']) }
  expect((await send(lines(0, 1))).status).toBe(200)
})

/** Begins an import of an application, and leaves it open. */
async function openImport(applicationId: string, label = ''): Promise<Raw> {
  fake.importer = { applicationId, scopes: new Set(['data_pool:write']) }
  const open = api.stats().open
  const raw = await Raw.open(api.port)
  raw.write(`${head(`${PATH}&label=${label}`, [TOKEN, 'Content-Length: 1000000'])}{`)
  await until(() => api.stats().open === open + 1)
  return raw
}

test('the place of the scope admin is there while others take all places to wait', async () => {
  const raws: Raw[] = []
  // Each application has a smaller share of the places to wait: one behind three running imports.
  for (let n = 0; n < IMPORTS_MAX - IMPORTS_ADMIN_MIN; n += 1) raws.push(await openImport(`r${n}`))
  for (const [application, count] of Object.entries({ a: 16, b: 8, c: 4, d: 2, e: 1, f: 1 }))
    for (let n = 0; n < count; n += 1) raws.push(await openImport(application))
  fake.importer = { applicationId: 'a', scopes: new Set(['admin']) }
  expect((await send(lines(0, 1))).status).toBe(200)
  for (const raw of raws) raw.socket.destroy()
  await until(() => api.stats().open === 0)
})

test('an import whose client went while it waited never begins', async () => {
  const running: Raw[] = []
  for (const application of ['a', 'b', 'c']) running.push(await openImport(application))
  const gone = await openImport('d', 'gone')
  gone.socket.destroy()
  await until(() => api.stats().open === running.length)
  for (const raw of running) raw.socket.destroy()
  await until(() => api.stats().open === 0 && api.stats().imports === 0)
  const { json } = await ask(api.port, '/v1/pools/open/import', {
    method: 'GET',
    headers: { authorization: 'Bearer t' },
  })
  const labels = (json.imports as { label: string; error: string }[]).map(({ label }) => label)
  expect(labels).toEqual(['', '', ''])
})

/** Ends an import after its first batch, by `end`, and returns its answer. */
async function endedBy(end: () => void, stopsFirst = true): Promise<Answer> {
  const answering = new Promise<Answer>((resolve, reject) => {
    const body = lines(0, 40 * EVENTS_MAX)
    const held = gate()
    fake.commitGate = held.promise
    void until(() => fake.tasks.length >= 1).then(() => {
      if (stopsFirst) end()
      held.open()
      if (!stopsFirst) end()
    })
    send(body).then(resolve, reject)
  })
  const answer = await answering
  expectProblem(answer, answer.status, answer.json.code)
  expect(answer.json.durableRows % EVENTS_MAX).toBe(0)
  const durable = logged()
  expect(durable.slice(0, answer.json.durableRows)).toEqual(ids(0, answer.json.durableRows))
  await until(() => api.stats().imports === 0)
  return answer
}

test('a pool that is deleted meanwhile ends the import', async () => {
  const answer = await endedBy(() => {
    fake.targets.delete('open')
    fake.dead.add(1)
  })
  expect([answer.status, answer.json.code]).toEqual([404, 'pool_deleted'])
  expect(answer.json.accepted).toBe(0) // no 2xx after the deletion's answer, and so no accepted row
})

test('a log that refuses ends the import', async () => {
  const answer = await endedBy(() => {
    fake.health = { ready: false, refuse: { code: 'disk_full', message: 'the disk is full' } }
  })
  expect([answer.status, answer.json.code, answer.json.retryable]).toEqual([503, 'disk_full', true])
  expect(logged().length).toBe(answer.json.durableRows)
})

test('an application that lost its access ends the import', async () => {
  const { AccessEnded } = await import('../../src/util/errors.ts')
  const { refuse } = await import('../../src/api/problem.ts')
  const answer = await endedBy(() => {
    fake.verifyAgain = () => {
      throw new AccessEnded(refuse(401, 'unauthorized', 'the application was deleted'))
    }
  })
  expect([answer.status, answer.json.code]).toEqual([401, 'unauthorized'])
  expect(logged().length).toBe(answer.json.durableRows)
})

test('a stop of the server ends the import, which says where to resume', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head(PATH, [TOKEN, 'Content-Length: 1000000']) + lines(0, EVENTS_MAX + 1))
  await until(() => fake.logged.length > 0)
  const stopping = api.stop(5000)
  await raw.until(({ received }) => received.includes('refusedOmitted'))
  expect(raw.received).toMatch(/^HTTP\/1.1 503 /)
  expect(raw.received).toContain(`"durableRows":${EVENTS_MAX}`)
  raw.socket.destroy()
  await stopping
})

test('a full memtable makes the import wait, not fail', async () => {
  fake.hasRoom = false
  let isAnswered = false
  const answering = send(lines(0, 1200)).then(answer => {
    isAnswered = true
    return answer
  })
  await until(() => api.stats().waitingRequests === 1)
  expect(isAnswered).toBe(false)
  fake.openRoom()
  const answer = await answering
  expect([answer.status, logged()]).toEqual([200, ids(0, 1200)])
})

/** Gives the pool of PATH its next schema version while a batch waits for room. */
async function changedColumns(format: string): Promise<Answer> {
  const { pool } = fake.targets.get('open')!
  fake.hasRoom = false
  const body = format === 'csv' ? `id\n${ids(0, 10).join('\n')}\n` : lines(0, 10)
  const answering = send(body, {}, `/v1/pools/open/import?format=${format}`)
  await until(() => api.stats().waitingRequests === 1)
  await pool.pause()
  fake.resume(pool, ingestSchemaOf(1, 2))
  fake.openRoom()
  return answering
}

test('csv: a batch that was converted for the columns of before is not counted', async () => {
  const { status, json } = await changedColumns('csv')
  expect([status, json.code, json.retryable]).toEqual([503, 'columns_changed', true])
  expect(json).toMatchObject({ rows: 0, accepted: 0, durableRows: 0 })
  expect(json.detail).toContain('skipRows=0')
})

test('ndjson goes on when the columns change', async () => {
  const { status, json } = await changedColumns('ndjson')
  expect([status, json.accepted]).toEqual([200, 10])
})

test('csv: no batch is given to a paused pool, or to one whose columns have changed', async () => {
  const { pool } = fake.targets.get('open')!
  await pool.pause()
  let isAnswered = false
  const answering = send('id\nr0\n', {}, '/v1/pools/open/import?format=csv').finally(() => {
    isAnswered = true
  })
  await until(() => api.stats().imports === 1)
  await new Promise(resolve => setTimeout(resolve, 300))
  expect([isAnswered, api.stats().slabsInUse]).toEqual([false, 0])
  fake.resume(pool, ingestSchemaOf(1, 2))
  expect((await answering).json).toMatchObject({ code: 'columns_changed', durableRows: 0 })
  expect(logged()).toEqual([])
})

test('the journal says how far each import came, and a client finds its own by label', async () => {
  await send(lines(0, 1200), {}, `${PATH}&label=first`)
  await send(`${lines(0, 2)}x\n`, {}, `${PATH}&label=second&skipRows=1`)
  const broken = { headers: { 'content-encoding': 'gzip' } }
  await send('no gzip', broken, `${PATH}&label=third`)
  const all = await ask(api.port, '/v1/pools/open/import', { method: 'GET' })
  expect(all.status).toBe(200)
  expect(all.json.imports).toMatchObject([
    {
      label: 'third',
      status: 'FAILED',
      rows: 0,
      durableRows: 0,
      encoding: 'gzip',
      error: expect.stringContaining('skipRows=0'),
    },
    {
      label: 'second',
      status: 'SUCCEEDED',
      rows: 3,
      accepted: 1,
      rejected: 1,
      durableRows: 3,
      skipRows: 1,
      error: null,
    },
    {
      label: 'first',
      status: 'SUCCEEDED',
      rows: 1200,
      accepted: 1200,
      durableBytes: lines(0, 1200).length,
      progress: 1,
    },
  ])
  const one = await ask(api.port, '/v1/pools/open/import?label=second', { method: 'GET' })
  expect(one.json.imports.map(({ label }: { label: string }) => label)).toEqual(['second'])
  expect((await ask(api.port, '/v1/pools/second/import', { method: 'GET' })).json.imports).toEqual([])
  expect((await ask(api.port, '/v1/pools/none/import', { method: 'GET' })).status).toBe(404)
  const long = await send('', {}, `${PATH}&label=${'x'.repeat(257)}`)
  expect([long.status, long.json.code]).toEqual([400, 'bad_parameter'])
})

test('the journal is written now and then while an import runs, and says what is durable by then', async () => {
  const raw = await Raw.open(api.port)
  const total = 10_000_000
  raw.write(head(PATH, [TOKEN, `Content-Length: ${total}`]) + lines(0, EVENTS_MAX))
  await until(() => api.stats().imports === 1)
  let sent = EVENTS_MAX
  while ((fake.catalog.imports[0]?.done.durableRows ?? 0) === 0) {
    raw.write(lines(sent, sent + EVENTS_MAX))
    sent += EVENTS_MAX
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  expect(fake.catalog.writes).toBe(1)
  const { progress, status, done } = fake.catalog.imports[0]!
  const { durableRows } = done
  expect([durableRows % EVENTS_MAX, status]).toEqual([0, 'IN_PROGRESS'])
  expect(durableRows).toBeLessThanOrEqual(sent)
  expect(progress).toBeGreaterThan(0)
  raw.socket.destroy()
  await until(() => api.stats().imports === 0)
  expect(fake.catalog.imports[0]).toMatchObject({
    status: 'FAILED',
    error: expect.stringContaining('disconnected'),
  })
  expect(fake.catalog.imports[0]!.done.durableRows).toBe(logged().length)
})

test('an import that writes its end to the journal writes no progress meanwhile', async () => {
  const writing = gate()
  fake.catalog.gate = writing.promise
  const answering = send(lines(0, 2))
  await until(() => fake.catalog.writes === 1)
  const raw = await Raw.open(api.port)
  raw.write(head(PATH, [TOKEN, 'Content-Length: 2000000']))
  // The first import began earlier, so its progress would be due earlier.
  await until(() => fake.catalog.told.length > 0)
  expect(fake.catalog.told).toEqual([fake.catalog.imports[0]!.id])
  writing.open()
  expect((await answering).status).toBe(200)
  raw.socket.destroy()
  await until(() => api.stats().imports === 0)
})

test('ends that the journal did not take are written later, each as it was', async () => {
  fake.catalog.refuses = new Unavailable('catalog', 'no room')
  const good = await send(lines(0, 3))
  expect([good.status, good.json.durableRows]).toEqual([200, 3])
  expect((await send('no gzip', { headers: { 'content-encoding': 'gzip' } })).status).toBe(400)
  const tried = fake.catalog.writes
  await until(() => fake.catalog.writes >= tried + 2) // they are tried while the journal refuses
  expect(fake.catalog.imports.map(({ status }) => status)).toEqual(['IN_PROGRESS', 'IN_PROGRESS'])
  fake.catalog.refuses = undefined
  await until(() => fake.catalog.imports.every(({ status }) => status !== 'IN_PROGRESS'))
  expect(fake.catalog.imports).toMatchObject([
    { status: 'FAILED', done: { durableRows: 0 }, error: expect.stringContaining('skipRows=0') },
    { status: 'SUCCEEDED', done: { durableRows: 3, accepted: 3 }, error: null },
  ])
  const written = fake.catalog.writes
  // One without rows writes no progress, however long it takes.
  const next = await send('no gzip', { headers: { 'content-encoding': 'gzip' } }, `${PATH}&label=next`)
  expect([next.status, fake.catalog.writes]).toEqual([400, written + 1]) // nothing is written twice
})

test.each([
  ['cancelled', () => fake.catalog.cancel()],
  // By another node of a cluster, which took this one for dead.
  ['ended elsewhere', () => fake.catalog.change(endLeftImports())],
])('an import that was %s ends with what is durable', async (_, end) => {
  const raw = await Raw.open(api.port)
  raw.write(head(PATH, [TOKEN, 'Content-Length: 900000000']))
  await until(() => fake.catalog.imports.length === 1)
  await end()
  let sent = 0
  while (!raw.received.includes('refusedOmitted')) {
    raw.write(lines(sent, sent + EVENTS_MAX))
    sent += EVENTS_MAX
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  expect(raw.received).toMatch(/^HTTP\/1.1 409 /)
  expect(raw.received).toContain('"code":"cancelled"')
  await until(() => api.stats().imports === 0)
  expect(raw.received).toContain(`"durableRows":${logged().length}`)
  raw.socket.destroy()
})
