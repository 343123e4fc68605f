/**
 * Bodies that wrap their events: columns read the body around the events, payloads keep it where
 * the source asks for it, and a kill, rejected events and deletes lose nothing of it (W-12).
 * Sources whose key is in the head take one event a request.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSource, type Source } from '../util/senders.ts'
import { fetchToken, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const nullable = (name: string, jsonProperty: string, type = 'STRING') => ({
  name,
  jsonProperty,
  type,
  nullable: true,
})
const ID = { ...nullable('id', 'id'), nullable: false }
/** The envelope has an `id` and an `order.total` too: they are not those of the events. */
const COLUMNS = [
  ID,
  nullable('total', 'order.total', 'INT64'),
  nullable('sent_at', '$.sentAt', 'TIMESTAMP'),
  nullable('batch', '$.id'),
  nullable('team', '$.data.team[1].name'),
  nullable('flags', '$.flags', 'JSON'),
  nullable('shop', '$header.x-shop'),
]
const NAMES = COLUMNS.map(({ name }) => name)
const ENVELOPE = {
  id: 'batch-1',
  sentAt: '2026-01-02T03:04:05Z',
  order: { total: 7 },
  flags: [1, { a: null }],
}
const bodyOf = (...items: unknown[]) =>
  JSON.stringify({ ...ENVELOPE, data: { team: [0, { name: 'blue' }], items }, last: '"}]' })
const event = (id: string, total = 1) => ({ id, order: { total } })
const ROW = ['2026-01-02T03:04:05.000Z', 'batch-1', 'blue', '[1,{"a":null}]', 'eu']

interface Got {
  readonly status: number
  readonly text: string
}

async function send(
  url: string,
  body: string,
  { method = 'POST', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Got> {
  const answer = await fetch(url, { method, body, headers: { ...JSON_TYPE, 'x-shop': 'eu', ...headers } })
  return { status: answer.status, text: await answer.text() }
}
const codeOf = ({ text }: Got) => (JSON.parse(text) as { code: string }).code

describe('one server', () => {
  let server: TestServer
  const dataDir = temporaryFolder('weir-envelopes-')
  const args = ['--http', 'node']
  const source = (settings: Record<string, unknown>) =>
    createSource(server.graphql, { eventsPath: 'data.items', columns: COLUMNS, ...settings })
  const orderBy = { tableSettings: { orderBy: ['id'] } }

  beforeAll(async () => {
    server = await startServer({ dataDir, args })
  })
  afterAll(async () => {
    await server.stop()
  })

  const payloads = async ({ rows }: Source) =>
    (await rows(['id', '_service_payload'], server)).map(([, payload]) => payload)

  test('columns read the envelope, also after a kill; payloads are the events or the bodies of one', async () => {
    const plain = await source(orderBy)
    const kept = await source({ ...orderBy, keepEnvelope: true })
    const one = JSON.stringify({ ...ENVELOPE, data: { items: event('z') } }) // an object, not an array
    for (const { url } of [plain, kept]) {
      expect((await send(url, bodyOf(event('a'), event('b', 2)))).status).toBe(200)
      expect((await send(url, one)).status).toBe(200)
      expect((await send(url, '{"data":{"items":[]}}')).text).toBe('[]')
      expect((await send(url, '{"data":{"items":[{"id":"y"}]}}', { headers: { 'x-shop': '' } })).status).toBe(
        200,
      )
    }
    const want = [
      ['a', '1', ...ROW],
      ['b', '2', ...ROW],
      ['y', null, null, null, null, null, ''],
      ['z', '1', ROW[0], ROW[1], null, ROW[3], ROW[4]],
    ]
    const check = async () => {
      for (const { rows } of [plain, kept]) expect(await rows(NAMES, server)).toEqual(want)
      expect(await payloads(plain)).toEqual([
        JSON.stringify(event('a')),
        JSON.stringify(event('b', 2)),
        '{"id":"y"}',
        JSON.stringify(event('z')),
      ])
      const [a, b, y, z] = (await payloads(kept)) as [string, string, string, string]
      expect(JSON.parse(a)).toEqual({
        ...JSON.parse(bodyOf()),
        data: { team: [0, { name: 'blue' }], items: event('a') },
      })
      expect(JSON.parse(b).data.items).toEqual(event('b', 2))
      expect([y, z]).toEqual(['{"data":{"items":{"id":"y"}}}', one])
    }
    await check()
    await server.kill()
    server = await startServer({ dataDir, args })
    await check()
    // Killed before a flush: the log alone has what follows.
    for (const { url } of [plain, kept]) {
      const moved = url.replace(/^http:\/\/[^/]+/, server.base)
      expect((await send(moved, bodyOf(event('c', 3)))).status).toBe(200)
    }
    await server.kill()
    server = await startServer({ dataDir, args })
    for (const { rows } of [plain, kept]) expect((await rows(NAMES, server))[2]).toEqual(['c', '3', ...ROW])
    for (const { url, rows } of [plain, kept]) {
      const moved = url.replace(/^http:\/\/[^/]+/, server.base)
      expect((await send(moved, '[{"id":"a"},{"id":"c"}]', { method: 'DELETE' })).status).toBe(200)
      expect((await rows(['id'], server)).map(([id]) => id)).toEqual(['b', 'y', 'z'])
    }
  })

  test('rejected events and their replay carry it', async () => {
    for (const keepEnvelope of [false, true]) {
      const made = await source({ ...orderBy, keepEnvelope })
      const bad = await send(
        made.url,
        bodyOf(event('a'), { order: { total: 5 } }, 7, { ...event('b'), order: { total: 'x' } }),
      )
      expect([bad.status, bad.text.match(/"statusCode":400/g)?.length]).toEqual([200, 3])
      const text = { ...event('d'), order: { total: '5' } }
      const whole = await send(`${made.url}?disable_partial_success=true`, bodyOf(event('c'), text))
      expect(whole.status).toBe(400)
      expect(await made.rows(NAMES, server)).toEqual([['a', '1', ...ROW]])
      const columns = COLUMNS.map(column => (column.name === 'total' ? { ...column, coerce: true } : column))
      const into = await source({ ...orderBy, keepEnvelope, columns })
      const { data, errors } = await server.graphql<{
        createReplayRejectedEventsJob: { job: { id: string } }
      }>(
        `mutation ($input: CreateReplayRejectedEventsJobInput!) {
          createReplayRejectedEventsJob(input: $input) { job { id } } }`,
        { input: { dataPool: into.poolId, rejectedBy: made.poolId } },
      )
      expect(errors).toBeUndefined()
      expect(data.createReplayRejectedEventsJob.job.id).toBeTruthy()
      let rows: unknown[][] = []
      for (let tries = 0; tries < 200 && rows.length < 2; tries += 1) rows = await into.rows(NAMES, server)
      expect(rows).toEqual([
        ['c', '1', ...ROW],
        ['d', '5', ...ROW],
      ])
    }
  })

  test('no event is replayed by a source that would not find its values', async () => {
    const mutation = `mutation ($input: CreateReplayRejectedEventsJobInput!) {
      createReplayRejectedEventsJob(input: $input) { job { id } } }`
    const [plain, kept, other] = [
      await source({}),
      await source({ keepEnvelope: true }),
      await source({ keepEnvelope: true, eventsPath: 'data.others' }),
    ]
    const replay = async (from: Source, into: Source) => {
      const input = { dataPool: into.poolId, rejectedBy: from.poolId }
      return (await server.graphql(mutation, { input })).errors?.[0]?.message ?? ''
    }
    for (const [from, into] of [
      [plain, kept],
      [kept, plain],
      [kept, other],
    ] as const)
      expect(await replay(from, into)).toContain('its columns would be null')
    expect(await replay(plain, await source({ eventsPath: 'data.others' }))).toBe('')
  })

  test('columns that are proposed from a pool read the event, not the body around it', async () => {
    const kept = await source({ keepEnvelope: true })
    expect((await send(kept.url, bodyOf(event('a'), event('b', 2)))).status).toBe(200)
    const { data, errors } = await server.graphql<{
      inferColumns: { columns: { jsonProperty: string }[] }
    }>(
      `query ($dataPool: DataPoolInput) { inferColumns(dataPool: $dataPool) { columns { jsonProperty } } }`,
      {
        dataPool: { id: kept.poolId },
      },
    )
    expect(errors).toBeUndefined()
    expect(data.inferColumns.columns.map(({ jsonProperty }) => jsonProperty)).toEqual(['id', 'order.total'])
  })

  test('imports take events by property, and payloads that have their envelope', async () => {
    const token = await fetchToken(server.base, dataDir)
    const headers = { authorization: `Bearer ${token}` }
    const columns = COLUMNS.filter(({ name }) => name !== 'shop')
    const names = columns.map(({ name }) => name)
    const want = [['a', '2', ...ROW.slice(0, -1)]]
    const kept = await source({ columns, keepEnvelope: true })
    await send(kept.url, bodyOf(event('a', 2)))
    for (const format of ['csv', 'ndjson'])
      for (const keepEnvelope of [true, false]) {
        const made = await source({ columns, keepEnvelope })
        const row = { id: 'a', order: { total: 2 }, '$.sentAt': ENVELOPE.sentAt, '$.id': 'batch-1' }
        const more = { '$.data.team[1].name': 'blue', '$.flags': [1, { a: null }] }
        const csv = `id,total,sent_at,batch,team,flags\na,2,${ENVELOPE.sentAt},batch-1,blue,"[1,{""a"":null}]"\n`
        const body = format === 'csv' ? csv : JSON.stringify({ ...row, ...more })
        const path = `${server.base}/v1/pools/${made.poolId}/import?format=${format}`
        const answer = await fetch(path, { method: 'POST', headers, body })
        const report = (await answer.json()) as Record<string, unknown>
        expect([answer.status, await made.rows(names, server)], JSON.stringify(report)).toEqual([200, want])
        expect([report['unknownFields'], report['unfilledColumns']]).toEqual([[], []])
      }
    const exported = await fetch(`${server.base}/v1/pools/${kept.poolId}/export?format=ndjson`, { headers })
    const again = await source({ columns, keepEnvelope: true })
    const path = `${server.base}/v1/pools/${again.poolId}/import?format=ndjson`
    const answer = await fetch(path, { method: 'POST', headers, body: await exported.text() })
    expect([answer.status, await again.rows(names, server)], await answer.text()).toEqual([200, want])
  })

  test('what each event repeats is bounded, and nothing of a refused body is stored', async () => {
    const plain = await source({})
    const kept = await source({ keepEnvelope: true })
    const big = (bytes: number, events: number) =>
      JSON.stringify({
        flags: 'x'.repeat(bytes),
        data: { items: Array.from({ length: events }, (_, n) => ({ id: String(n) })) },
      })
    for (const [body, status] of [
      [big(1_000_000, 500), 413],
      [big(4_000, 500), 413],
      [big(1_900, 500), 200],
      [big(50_000, 10), 200],
    ] as const)
      for (const { url } of [plain, kept]) {
        const got = await send(url, body)
        expect([got.status, status === 413 ? codeOf(got) : ''], String(body.length)).toEqual([
          status,
          status === 413 ? 'envelope_too_large' : '',
        ])
      }
    // An envelope of a megabyte around one event is no multiple of anything in its payload.
    expect((await send(kept.url, big(1_000_000, 1))).status).toBe(200)
    expect((await send(plain.url, big(1_000_000, 1))).status).toBe(413)
    const many = JSON.stringify({ data: { items: Array(501).fill({ id: 'x' }) } })
    for (const { url } of [plain, kept]) expect(codeOf(await send(url, many))).toBe('too_many_events')
    expect(await server.count(plain.poolId)).toBe('510')
    expect(await server.count(kept.poolId)).toBe('511')
  })

  test('creation refuses what has no meaning', async () => {
    const refused = async (settings: Record<string, unknown>) =>
      source(settings).then(
        () => 'made',
        (error: Error) => error.message,
      )
    const reads = (jsonProperty: string) => ({ columns: [ID, nullable('x', jsonProperty)] })
    expect(await refused({ ...reads('$.a'), eventsPath: null })).toMatch(
      /no eventsPath: of the event itself write "a"/,
    )
    for (const property of ['$.data', '$.data.items', '$.data.items[0].id', '$.data.items.id'])
      expect(await refused(reads(property)), property).toMatch(/leads to the events/)
    for (const property of ['$.', '$.a..b', '$.a[]', '$.a[x]', '$.a | b', '$.[0]'])
      expect(await refused(reads(property)), property).toMatch(/no path follows/)
    expect(await refused({ columns: [ID, nullable('x', '$.a'), nullable('y', '$.a')] })).toMatch(/same part/)
    expect(await refused({ columns: [ID], eventsPath: null, keepEnvelope: true })).toMatch(/eventsPath/)
    expect(await refused(reads('$.data.total'))).toBe('made')
  })

  test('a key in the head takes one event a request', async () => {
    const columns = [nullable('id', '$header.x-id'), nullable('n', 'n', 'INT64')]
    const made = await source({ columns, eventsPath: null, tableSettings: { orderBy: ['id'] } })
    const headers = { 'x-id': 'a' }
    const two = await send(made.url, '[{"n":1},{"n":2}]', { headers })
    expect([two.status, codeOf(two)]).toEqual([400, 'one_event_a_request'])
    for (const body of ['[{"n":1}]', '{"n":1}', '[]'])
      expect((await send(made.url, body, { headers })).status, body).toBe(200)
    expect(codeOf(await send(made.url, '[{"n":1}', { headers }))).toBe('not_json')
    expect(await made.rows(['id', 'n'], server)).toEqual([['a', '1']])
    const wrapped = await source({ columns, tableSettings: { orderBy: ['id'] } })
    const several = await send(wrapped.url, bodyOf({ n: 1 }, { n: 2 }), { headers })
    expect([several.status, codeOf(several)]).toEqual([400, 'one_event_a_request'])
    expect((await send(wrapped.url, bodyOf({ n: 3 }), { headers })).status).toBe(200)
  })

  test('CloudEvents in binary mode: the data are one value, or none', async () => {
    const made = await createSource(server.graphql, { preset: 'CLOUDEVENTS_BINARY' })
    const cases: readonly (readonly [string, string])[] = [
      ['{"a":1}', '{"a":1}'],
      ['[{"a":1},{"a":2}]', '{"data":[{"a":1},{"a":2}]}'],
      ['[]', '{"data":[]}'],
      [' "text" ', '{"data": "text" }'],
      ['7', '{"data":7}'],
      ['null', '{"data":null}'],
      ['', '{}'],
    ]
    for (const [index, [body, payload]] of cases.entries()) {
      const headers = { 'ce-id': `e${index}`, 'ce-source': '/s', 'ce-type': 't', 'ce-specversion': '1.0' }
      const got = await send(made.url, body, { headers })
      expect([got.status, got.text], body).toEqual([200, '[{"statusCode":200,"statusMessage":"OK"}]'])
      expect((await payloads(made))[index], body).toBe(payload)
    }
    const headers = { 'ce-id': 'bad', 'ce-source': '/s', 'ce-type': 't' }
    for (const body of ['1,"b":2', '[1', '{"a":1}{}', '7}'])
      expect(codeOf(await send(made.url, body, { headers })), body).toBe('not_json')
    expect((await made.rows(['id'], server)).length).toBe(cases.length)
  })
})
