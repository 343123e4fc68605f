/**
 * A byte order mark before the first byte of a body is dropped, whatever the body is written in: it
 * is in no key, payload, rejected event or log record. Signatures cover it.
 */
import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSource } from '../util/senders.ts'
import { startServer, type TestServer } from '../util/server.ts'

const MARK = '\ufeff'
const FORM = 'application/x-www-form-urlencoded'
const COLUMNS = [
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
  { name: 'n', jsonProperty: 'n', type: 'INT64', nullable: true },
]

/** A frame of zstd with the bytes as they are. */
const zstd = (text: string) => {
  const bytes = Buffer.from(text)
  const block = (bytes.length << 3) | 1 // a raw block, the last one
  const head = [0x28, 0xb5, 0x2f, 0xfd, 0x20, bytes.length, block & 0xff, block >> 8, block >> 16]
  return Buffer.concat([Buffer.from(head), bytes])
}

describe.each([
  ['uws', 'native'],
  ['node', 'js'],
])('over %s, kernel %s', (http, kernel) => {
  let server: TestServer
  beforeAll(async () => {
    server = await startServer({ args: ['--http', http, '--kernel', kernel] })
  })
  afterAll(async () => {
    await server.stop()
  })

  async function send(url: string, body: string | Buffer, headers: Record<string, string> = {}) {
    const type = { 'content-type': 'application/json' }
    const answer = await fetch(url, { method: 'POST', headers: { ...type, ...headers }, body })
    return [answer.status, (await answer.text()).replace(/"statusMessage":"OK"/g, '')] as const
  }

  test('JSON, NDJSON, forms, texts, packed bodies and deletes; it is no part of a payload', async () => {
    const made = { columns: COLUMNS, tableSettings: { orderBy: ['id'] }, accept: ['FORM', 'TEXT'] }
    const { url, ids, poolId } = await createSource(server.graphql, made)
    const bodies: readonly (readonly [string, string | Buffer, Record<string, string>?])[] = [
      ['a', `${MARK}{"id":"a"}`],
      ['b', `${MARK}[{"id":"b"},{"id":"b2"}]`],
      ['c', `${MARK}{"id":"c"}\n{"id":"c2"}`, { 'content-type': 'application/x-ndjson' }],
      ['d', `${MARK}id=d&n=1`, { 'content-type': FORM }],
      ['e', `${MARK}payload=%7B%22id%22:%22e%22%7D`, { 'content-type': FORM }],
      ['f', `${MARK}{"id":"f"}`, { 'content-type': 'text/plain' }],
      ['g', gzipSync(`${MARK}{"id":"g"}`), { 'content-encoding': 'gzip' }],
      ['h', zstd(`${MARK}[{"id":"h"}]`), { 'content-encoding': 'zstd' }],
      ['i', `{"id":"i","text":"${MARK}"}`],
    ]
    for (const [name, body, headers] of bodies) {
      // The form's `n` is a text: its event is refused below.
      if (name === 'd') expect((await send(url, body, headers))[0]).toBe(400)
      else expect((await send(url, body, headers))[0], name).toBe(200)
    }
    expect(await ids()).toEqual(['a', 'b', 'b2', 'c', 'c2', 'e', 'f', 'g', 'h', 'i'])
    const { data } = await server.graphql<{ dataGrid: { rows: string[][] } }>(
      `query($input: DataGridInput!) { dataGrid(input: $input) { rows } }`,
      {
        input: {
          dataPool: { id: poolId },
          columns: ['_service_payload'],
          orderByColumn: 1,
          sort: 'ASC',
          first: 20,
        },
      },
    )
    const payloads = data.dataGrid.rows.map(([payload]) => payload)
    expect(payloads).toContain('{"id":"a"}')
    expect(payloads.filter(payload => payload!.startsWith(MARK))).toEqual([])
    const deleted = await fetch(url, {
      method: 'DELETE',
      headers: { 'content-type': 'application/json' },
      body: `${MARK}{"id":"a"}`,
    })
    expect(deleted.status).toBe(200)
    expect((await ids())[0]).toBe('b')
    // One mark, not two, and nowhere else.
    for (const body of [`${MARK}${MARK}{"id":"x"}`, ` ${MARK}{"id":"x"}`, `{"id":"x"}${MARK}`, MARK])
      expect((await send(url, body))[0]).toBe(400)
  })

  test('a signature covers the mark, and a handshake and eventsPath are found behind it', async () => {
    const signature = { scheme: 'GITHUB', secrets: ['secret'] }
    const { url, ids } = await createSource(server.graphql, {
      columns: COLUMNS,
      eventsPath: 'items',
      signature,
    })
    const signed = (text: string) => ({
      'x-hub-signature-256': `sha256=${createHmac('sha256', 'secret').update(text).digest('hex')}`,
    })
    const body = '{"items":[{"id":"a"}]}'
    expect((await send(url, `${MARK}${body}`, signed(body)))[0]).toBe(401)
    expect((await send(url, `${MARK}${body}`, signed(`${MARK}${body}`)))[0]).toBe(200)
    expect(await ids()).toEqual(['a'])
    const slack = await createSource(server.graphql, { preset: 'SLACK', signatureEnabled: false })
    const challenge = await send(slack.url, `${MARK}{"type":"url_verification","challenge":"abc"}`)
    expect(challenge).toEqual([200, 'abc'])
  })

  test('samples from which columns are inferred', async () => {
    const answer = await server.graphql<{ inferColumns: { events: number } }>(
      'query($samples: String!) { inferColumns(samples: $samples) { events } }',
      { samples: `${MARK}{"id":"a"}\n{"id":"b"}` },
    )
    expect(answer.data.inferColumns.events).toBe(2)
  })
})
