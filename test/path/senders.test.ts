/**
 * Sources that take other senders, over both HTTP libraries: formats, encodings, signatures,
 * headers as columns, paths, pages in a browser and handshakes. The log with contexts is replayed
 * after a kill.
 */

import { createHmac } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GRAPHQL_SAMPLES_BYTES_MAX } from '../../src/api/graphql/context.ts'
import { head, Raw } from '../api/client.ts'
import { createSource, type Source } from '../util/senders.ts'
import { startServer, type TestServer } from '../util/server.ts'

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: string | Uint8Array
}

interface Got {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** One request with exactly these headers; fetch adds some and joins repeated ones. */
function send(url: string, { method = 'POST', headers = {}, body = '' }: Sent): Promise<Got> {
  return new Promise((resolve, reject) => {
    // Node sends the body of a DELETE without its length.
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) }
    const request = httpRequest(url, { method, headers: { ...headers, ...length } }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      )
    })
    request.on('error', reject)
    // Node writes the head in the encoding of a text, and that of bytes as it is.
    request.end(Buffer.from(body))
  })
}

const JSON_TYPE = { 'content-type': 'application/json' }
const codeOf = ({ text }: Got) => (JSON.parse(text) as { code: string }).code
const sha256 = (secret: string, text: string | Uint8Array, encoding: 'hex' | 'base64' = 'hex') =>
  createHmac('sha256', secret).update(text).digest(encoding)

const ID = { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: true }

describe.each(['uws', 'node'])('over %s', http => {
  let server: TestServer
  const source = (settings: Record<string, unknown>): Promise<Source> =>
    createSource(server.graphql, { columns: [ID], ...settings })

  beforeAll(async () => {
    server = await startServer({ args: ['--http', http] })
  })
  afterAll(async () => {
    await server.stop()
  })

  test('a source without settings takes NDJSON, CloudEvents and gzip; forms, text and PUT name the setting', async () => {
    const { url, ids } = await source({})
    const lines = '{"id":"a"}\r\n\n{"id":"b"}'
    expect(
      (await send(url, { headers: { 'content-type': 'application/x-ndjson' }, body: lines })).status,
    ).toBe(200)
    const cloud = { 'content-type': 'application/cloudevents-batch+json; charset=utf-8' }
    expect((await send(url, { headers: cloud, body: '[{"id":"c","specversion":"1.0"}]' })).status).toBe(200)
    const gzip = { ...JSON_TYPE, 'content-encoding': 'gzip' }
    expect((await send(url, { headers: gzip, body: gzipSync('{"id":"d"}') })).status).toBe(200)
    const bad = await send(url, {
      headers: { 'content-type': 'application/x-ndjson' },
      body: '{"id":"x"}\n{"id":',
    })
    expect([bad.status, bad.text]).toEqual([400, expect.stringContaining('line 2')])
    for (const [type, word] of [
      ['application/x-www-form-urlencoded', 'FORM'],
      ['text/plain', 'TEXT'],
      ['multipart/form-data; boundary=x', 'multipart is never taken'],
    ] as const) {
      const got = await send(url, { headers: { 'content-type': type }, body: 'id=x' })
      expect([got.status, got.text], type).toEqual([415, expect.stringContaining(word)])
    }
    expect((await send(url, { method: 'PUT', headers: JSON_TYPE, body: '{"id":"x"}' })).status).toBe(405)
    expect((await send(`${url}/x`, { headers: JSON_TYPE, body: '{"id":"x"}' })).status).toBe(404)
    expect(await ids()).toEqual(['a', 'b', 'c', 'd'])
  })

  test('forms, text, PUT, a path and pages in a browser where the source asks for them', async () => {
    const { url, ids } = await source({ accept: ['FORM', 'TEXT', 'PUT', 'PATH', 'BROWSER'] })
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await send(url, { headers: form, body: 'id=form&x=1' })).status).toBe(200)
    const payload = `payload=${encodeURIComponent('{"id":"payload"}')}`
    expect((await send(url, { headers: form, body: payload })).status).toBe(200)
    const text = { 'content-type': 'text/plain; charset=UTF-8', origin: 'https://example.com' }
    const beacon = await send(url, { headers: text, body: '{"id":"beacon"}' })
    expect([beacon.status, beacon.headers['access-control-allow-origin']]).toEqual([200, '*'])
    expect((await send(url, { method: 'PUT', headers: JSON_TYPE, body: '{"id":"put"}' })).status).toBe(200)
    expect((await send(`${url}/orders/1`, { headers: JSON_TYPE, body: '{"id":"path"}' })).status).toBe(200)
    expect((await send(`${url}/`, { headers: JSON_TYPE, body: '{"id":"slash"}' })).status).toBe(200)
    const preflight = await send(url, {
      method: 'OPTIONS',
      headers: { origin: 'https://example.com', 'access-control-request-method': 'POST' },
    })
    expect([preflight.status, preflight.headers['access-control-allow-methods']]).toEqual([
      204,
      'POST, PUT, PATCH, DELETE, OPTIONS',
    ])
    const refused = await send(url, { headers: text, body: 'no json' })
    expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([400, '*'])
    expect(await ids()).toEqual(['beacon', 'form', 'path', 'payload', 'put', 'slash'])
  })

  test('events under a path, and its absence', async () => {
    const { url, ids } = await source({ eventsPath: 'data.items' })
    const body = '{"team":7,"data":{"items":[{"id":"a"},{"id":"b"}]}}'
    expect((await send(url, { headers: JSON_TYPE, body })).headers['x-events-accepted']).toBe('2')
    const missing = await send(url, { headers: JSON_TYPE, body: '[{"id":"c"}]' })
    expect([missing.status, codeOf(missing)]).toEqual([400, 'no_events_at_path'])
    expect(await ids()).toEqual(['a', 'b'])
  })

  test('a signed source stores nothing that no secret signed, whatever its encoding and chunks', async () => {
    const secrets = ['new-secret', 'old-secret']
    const { url, ids } = await source({ signature: { scheme: 'GITHUB', secrets } })
    const signed = (body: string | Uint8Array, secret: string) => ({
      ...JSON_TYPE,
      'x-hub-signature-256': `sha256=${sha256(secret, body)}`,
    })
    for (const [index, secret] of secrets.entries()) {
      const body = `{"id":"signed-${index}"}`
      expect((await send(url, { headers: signed(body, secret), body })).status).toBe(200)
    }
    const zipped = gzipSync('{"id":"zipped"}')
    const gzip = { ...signed(zipped, 'new-secret'), 'content-encoding': 'gzip' }
    expect((await send(url, { headers: gzip, body: zipped })).status).toBe(200)
    const inner = { ...signed('{"id":"zipped"}', 'new-secret'), 'content-encoding': 'gzip' }
    const bad = '{"id":"bad"}'
    const right = signed(bad, 'new-secret')['x-hub-signature-256']!
    const cases: readonly (readonly [string, string, Sent])[] = [
      ['unsigned', 'signature_missing', { headers: JSON_TYPE, body: bad }],
      ['wrong secret', 'signature_mismatch', { headers: signed(bad, 'wrong'), body: bad }],
      ['empty secret', 'signature_mismatch', { headers: signed(bad, ''), body: bad }],
      [
        'truncated',
        'signature_malformed',
        { headers: { ...JSON_TYPE, 'x-hub-signature-256': right.slice(0, -2) }, body: bad },
      ],
      [
        'twice',
        'signature_malformed',
        { headers: { ...JSON_TYPE, 'x-hub-signature-256': [right, right] }, body: bad },
      ],
      ['another body', 'signature_mismatch', { headers: signed(bad, 'new-secret'), body: '{"id": "bad"}' }],
      ['over the inflated bytes', 'signature_mismatch', { headers: inner, body: zipped }],
      ['no JSON and no signature', 'signature_missing', { headers: JSON_TYPE, body: '{' }],
    ]
    for (const [name, code, sent] of cases) {
      const got = await send(url, sent)
      expect([got.status, codeOf(got)], name).toEqual([401, code])
      expect(got.text, name).not.toContain(right.slice(7, 20))
    }
    // Somebody who captured a request cannot delete by it.
    const captured = { ...signed('{"id":"signed-0"}', 'new-secret') }
    const deleted = await send(url, { method: 'DELETE', headers: captured, body: '{"id":"signed-0"}' })
    expect([deleted.status, deleted.headers['allow']]).toEqual([405, 'POST'])
    expect(await ids()).toEqual(['signed-0', 'signed-1', 'zipped'])
    const metrics = await (await fetch(`${server.base}/metrics`)).text()
    expect(metrics).toMatch(/weir_refused_signatures_total\{pool="[^"]+",code="signature_mismatch"\} 4/)
  })

  test('signatures of pipelined and chunked requests count for their own bytes alone', async () => {
    const { url, ids } = await source({ signature: { scheme: 'GITHUB', secrets: ['secret'] } })
    const { port, pathname } = new URL(url)
    const line = (body: string) => `X-Hub-Signature-256: sha256=${sha256('secret', body)}`
    const [first, second] = ['{"id":"first"}', '{"id":"other"}']
    const whole = (body: string, ...lines: string[]) =>
      head(pathname, [...lines, `Content-Length: ${body.length}`]) + body
    const chunked = (body: string, ...lines: string[]) =>
      head(pathname, [...lines, 'Transfer-Encoding: chunked']) +
      [...body].map(one => `1\r\n${one}\r\n`).join('')
    const END = '0\r\n\r\n'
    const cases: readonly (readonly [string, string, readonly number[]])[] = [
      ['the second borrows', whole(first, line(first)) + whole(second, line(first)), [200, 401]],
      ['the first borrows', whole(second, line(first)) + whole(first, line(first)), [401, 200]],
      ['the second has none', whole(first, line(first)) + whole(second), [200, 401]],
      ['right, then wrong', whole(second, line(second), line(first)), [401]],
      ['wrong, then right', whole(second, line(first), line(second)), [401]],
      ['in chunks', chunked(first, line(first)) + END, [200]],
      ['in chunks, of another body', chunked(second, line(first)) + END, [401]],
      // uWebSockets.js knows no trailers.
      ['behind the chunks', `${chunked(second)}0\r\n${line(second)}\r\n\r\n`, [http === 'uws' ? 505 : 401]],
      ['of the chunks with their sizes', chunked(second, line(`e\r\n${second}\r\n${END}`)) + END, [401]],
    ]
    for (const [name, bytes, statuses] of cases) {
      const raw = await Raw.open(Number(port))
      raw.write(bytes)
      const found = () => [...raw.received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))
      // uWebSockets.js closes a connection whose next request comes before the answer.
      const isClosed = http === 'uws' && statuses.length > 1
      if (isClosed) await raw.untilClosed()
      else await raw.until(() => found().length >= statuses.length)
      raw.socket.destroy()
      expect(found(), name).toEqual(isClosed ? [] : statuses)
    }
    expect(new Set(await ids())).toEqual(new Set(['first']))
  })

  test('headers, parameters and the path are columns, and a key; a retry updates', async () => {
    const columns = [
      ID,
      { name: 'delivery', jsonProperty: '$header.X-Delivery', type: 'STRING', nullable: false },
      { name: 'shop', jsonProperty: '$query.shop', type: 'STRING', nullable: true },
      { name: 'path', jsonProperty: '$path', type: 'STRING', nullable: true },
      { name: 'price', jsonProperty: 'items[0].price', type: 'DOUBLE', nullable: true, coerce: true },
    ]
    const { url, rows } = await source({
      columns,
      accept: ['PATH'],
      tableSettings: { orderBy: ['delivery'] },
    })
    const event = (id: string, price: string) =>
      JSON.stringify({ id, items: [{ price }], '$header.X-Delivery': 'forged' })
    const headers = (delivery: string) => ({ ...JSON_TYPE, 'x-delivery': delivery })
    expect(
      (await send(`${url}?shop=a%20b`, { headers: headers('d1'), body: event('1', '19.99') })).status,
    ).toBe(200)
    expect((await send(`${url}?shop=a%20b`, { headers: headers('d1'), body: event('1', '20') })).status).toBe(
      200,
    )
    expect(
      (await send(`${url}/orders%2Fpaid`, { headers: headers('d2'), body: event('2', '5') })).status,
    ).toBe(200)
    const without = await send(url, { headers: JSON_TYPE, body: event('3', '1') })
    expect([without.status, without.text]).toEqual([400, expect.stringContaining('delivery')])
    const expected = [
      ['1', 'd1', 'a b', null, '20'],
      ['2', 'd2', null, '/orders/paid', '5'],
    ]
    expect(await rows(['id', 'delivery', 'shop', 'path', 'price'])).toEqual(expected)
    const gone = await send(url, {
      method: 'DELETE',
      headers: JSON_TYPE,
      body: '{"$header.X-Delivery":"d2"}',
    })
    expect(gone.status).toBe(200)
    expect(await rows(['id', 'delivery', 'shop', 'path', 'price'])).toEqual(expected.slice(0, 1))
  })

  test('what columns read of a request counts as a part of its body', async () => {
    const columns = [{ name: 'text', jsonProperty: '$header.x-text', type: 'STRING', nullable: true }]
    const { url, rows } = await source({ columns })
    const headers = { ...JSON_TYPE, 'x-text': 'x'.repeat(1000) }
    const body = (bytes: number) => `{"a":"${'y'.repeat(bytes - 8)}"}`
    expect((await send(url, { headers, body: body(1_048_320) })).status).toBe(413)
    expect((await send(url, { headers, body: body(1_048_320 - 1100) })).status).toBe(200)
    expect(await rows(['text'])).toEqual([['x'.repeat(1000)]])
  })

  test('the first header of a name counts, in UTF-8, whatever its name', async () => {
    // uWebSockets.js takes no name with an underscore.
    const names = ['x-twice', 'x-text', ...(http === 'node' ? ['__proto__'] : []), 'x-none']
    const columns = names.map((name, n) => ({
      name: `c${n}`,
      jsonProperty: `$header.${name}`,
      type: 'STRING',
      nullable: true,
    }))
    const { url, rows } = await source({ columns })
    const text = Buffer.from('a é 🌊 x').toString('latin1')
    const headers = {
      ...JSON_TYPE,
      'x-twice': ['a', 'b'],
      'x-text': text,
      ...(http === 'node' ? { ['__proto__']: 'p' } : {}),
    }
    expect((await send(url, { headers, body: '{}' })).status).toBe(200)
    expect(await rows(columns.map(({ name }) => name))).toEqual([
      ['a', 'a é 🌊 x', ...(http === 'node' ? ['p'] : []), null],
    ])
  })

  test('handshakes are answered by their sources, store nothing, and are no pages', async () => {
    const slack = await source({ signature: { scheme: 'SLACK', secrets: ['s'] } })
    const body = '{"type":"url_verification","challenge":"<script>abc"}'
    const at = String(Math.floor(Date.now() / 1000))
    const headers = {
      ...JSON_TYPE,
      'x-slack-request-timestamp': at,
      'x-slack-signature': `v0=${sha256('s', `v0:${at}:${body}`)}`,
    }
    const got = await send(slack.url, { headers, body })
    expect([
      got.status,
      got.text,
      got.headers['content-type'],
      got.headers['x-content-type-options'],
    ]).toEqual([200, '<script>abc', 'text/plain', 'nosniff'])
    expect((await send(slack.url, { headers: JSON_TYPE, body })).status).toBe(401)
    expect(await slack.ids()).toEqual([])
    const meta = await source({ verifyToken: 'token' })
    const ask = (token: string) => `${meta.url}?hub.mode=subscribe&hub.verify_token=${token}&hub.challenge=42`
    expect(await send(ask('token'), { method: 'GET' })).toMatchObject({ status: 200, text: '42' })
    expect((await send(ask('other'), { method: 'GET' })).status).toBe(403)
    expect((await send(ask('token').replace(meta.url, slack.url), { method: 'GET' })).status).toBe(405)
  })

  test('columns are proposed from the last events of a pool', async () => {
    const { poolId, url } = await source({ columns: [] })
    const ask = async (input: { readonly dataPool?: object; readonly samples?: string }) => {
      const { data, errors } = await server.graphql(
        `query ($dataPool: DataPoolInput, $samples: String) {
           inferColumns(dataPool: $dataPool, samples: $samples) { events columns { name type } } }`,
        input,
      )
      return errors?.[0]?.message ?? (data as { inferColumns: unknown }).inferColumns
    }
    const dataPool = { id: poolId }
    expect(await ask({ dataPool })).toBe('The Data Pool has no events.')
    for (let n = 1; n <= 3; n++)
      await send(url, { headers: JSON_TYPE, body: `{"id":"e${n}",\n"at":"2026-11-0${n}T00:00:00Z"}` })
    expect(await ask({ dataPool })).toEqual({
      events: 3,
      columns: [
        { name: 'id', type: 'STRING' },
        { name: 'at', type: 'TIMESTAMP' },
      ],
    })
    expect(await ask({})).toMatch(/either/)
    expect(await ask({ dataPool, samples: '{}' })).toMatch(/either/)
    // Of the newest ones as many as fit.
    const long = (bytes: number) => JSON.stringify({ id: 'long', text: 'x'.repeat(bytes) })
    await send(url, { headers: JSON_TYPE, body: long(GRAPHQL_SAMPLES_BYTES_MAX - 30) })
    expect(await ask({ dataPool })).toMatchObject({ events: 1 })
    await send(url, { headers: JSON_TYPE, body: long(GRAPHQL_SAMPLES_BYTES_MAX) })
    expect(await ask({ dataPool })).toMatch(/newest event of the Data Pool has more than/)
  })

  test('a kill replays contexts, forms and wrapped events as they were', async () => {
    const columns = [ID, { name: 'event', jsonProperty: '$header.x-event', type: 'STRING', nullable: true }]
    const own = await startServer({ args: ['--http', http] })
    const { url, rows: before } = await createSource(own.graphql, { columns, accept: ['FORM'] })
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    await send(url, { headers: { ...form, 'x-event': 'push' }, body: 'id=form' })
    const event = Buffer.from('p é q').toString('latin1')
    await send(url, { headers: { ...JSON_TYPE, 'x-event': event }, body: '[{"id":"a"},7,{"id":"b"}]' })
    await send(url, { headers: JSON_TYPE, body: '{"id":"none"}' })
    await own.kill()
    const again = await startServer({ dataDir: own.dataDir, args: ['--http', http] })
    const rows = await before(['id', 'event'], again)
    await again.stop()
    expect(rows).toEqual([
      ['a', 'p é q'],
      ['b', 'p é q'],
      ['form', 'push'],
      ['none', null],
    ])
  })
})
