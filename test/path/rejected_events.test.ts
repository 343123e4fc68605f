/**
 * What ingest refuses is kept in the pool of rejected events, over both HTTP libraries: each code
 * with its columns, what is never kept, and that no answer waits for it.
 */
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BODY_BYTES_MAX, EVENTS_MAX, KiB } from '../../src/util/limits.ts'
import { type Ask, ask, head, Raw } from '../api/client.ts'
import { type RejectedRow, rejectedNow, rejectedOf } from '../util/rejected.ts'
import { createSource, type Source } from '../util/senders.ts'
import { fetchToken, removeLeftovers, startServer, type TestServer } from '../util/server.ts'
import { column } from './client.ts'

afterAll(removeLeftovers)

const N = column('n', 'INT64')
const FORM = 'application/x-www-form-urlencoded'
const brief = (rows: readonly RejectedRow[]) =>
  rows.map(({ code, element_index: at, text }) => [code, at, text])

type Posted = Pick<Source, 'url' | 'poolId'>

describe.each(['uws', 'node'])('over %s', http => {
  let server: TestServer
  beforeAll(async () => {
    server = await startServer({ args: ['--http', http] })
  })
  afterAll(async () => {
    expect((await server.stop()).code).toBe(0)
  })

  const source = (settings: Record<string, unknown> = {}) =>
    createSource(server.graphql, { columns: [N], ...settings })

  function post(
    { url }: Pick<Source, 'url'>,
    body: string | Uint8Array,
    more: Ask & { readonly query?: string } = {},
  ) {
    const { pathname, port } = new URL(url)
    const { query = '', headers, ...rest } = more
    return ask(Number(port), pathname + query, {
      // Node writes the head in the encoding of a text.
      ...(rest.chunks === undefined ? { body: Buffer.from(body as string) } : {}),
      ...rest,
      headers: { 'content-type': 'application/json', ...headers },
    })
  }

  /** The rows of a source, after one more rejection that comes last. */
  async function kept(one: Posted, count: number): Promise<RejectedRow[]> {
    expect((await post(one, '{"last":1}')).status).toBe(400)
    const rows = await rejectedOf(server, one.poolId, count + 1)
    expect(rows.at(-1)?.text).toBe('{"last":1}')
    return rows.slice(0, -1)
  }

  test('each refused event and request has a row with its reason and text', async () => {
    const one = await source()
    const many = `[${'{"n":1},'.repeat(EVENTS_MAX)}{"n":1}]`
    const long = `{"n":"${'é'.repeat(40_000)}"}`
    const sent: readonly (readonly [number, string | Uint8Array, Ask & { readonly query?: string }])[] = [
      [200, '[{"n":1},{"n":"x"},{"n":2.5},{},7]', {}],
      [400, '[{"n":1},{"n":null}]', { query: '?disable_partial_success=1' }],
      [400, '{"n":', {}],
      [413, many, {}],
      [400, long, {}],
      [400, gzipSync('{"n":"gzip"}'), { headers: { 'content-encoding': 'gzip' } }],
      [400, 'no gzip', { headers: { 'content-encoding': 'gzip' } }],
      [200, '{"n":1}\n{"n":"line"}', { headers: { 'content-type': 'application/x-ndjson' } }],
      [415, 'n=form', { headers: { 'content-type': FORM } }],
      [415, 'packed', { headers: { 'content-encoding': 'br' } }],
      [400, '{"n":3}', { query: '?disable_partial_success=perhaps' }],
    ]
    for (const [status, body, more] of sent) expect((await post(one, body, more)).status).toBe(status)
    const rows = await kept(one, 15)
    expect(brief(rows).map(([code, at, text]) => [code, at, text?.slice(0, 30) ?? null])).toEqual([
      ['wrong_type', '1', '{"n":"x"}'],
      ['not_integral', '2', '{"n":2.5}'],
      ['missing_value', '3', '{}'],
      ['not_object', '4', '7'],
      ['refused_with_others', '0', '{"n":1}'],
      ['missing_value', '1', '{"n":null}'],
      ['not_json', null, '{"n":'],
      ['too_many_events', null, many.slice(0, 30)],
      ['wrong_type', '0', long.slice(0, 30)],
      ['wrong_type', '0', '{"n":"gzip"}'],
      ['broken_gzip', null, null],
      ['wrong_type', '1', '{"n":"line"}'],
      ['unsupported_media_type', null, 'n=form'],
      ['unsupported_encoding', null, null],
      ['bad_parameter', null, '{"n":3}'],
    ])
    expect(rows[0]).toEqual({
      id: expect.stringMatching(/^\d{16}-\d+-\d{3}-001$/) as string,
      source_id: one.sourceId,
      data_pool_id: one.poolId,
      code: 'wrong_type',
      column_name: 'n',
      message: 'column "n" (property "n") takes INT64, found a string',
      content_type: 'application/json',
      element_index: '1',
      text: '{"n":"x"}',
      is_truncated: 'false',
      context: null,
    })
    const truncated = rows.filter(row => row.is_truncated === 'true').map(({ code }) => code)
    expect(truncated).toEqual(['wrong_type', 'broken_gzip', 'unsupported_encoding'])
    expect(Buffer.byteLength(rows[8]!.text!)).toBe(64 * KiB)
    expect(rows[12]).toMatchObject({ content_type: FORM, column_name: null, is_truncated: 'false' })
    expect(rows[12]!.message).toMatch(/Content-Type.*FORM/)
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
  })

  test('a body that is too long has no text: declared, in chunks, and inflated', async () => {
    const one = await source()
    const long = 'x'.repeat(BODY_BYTES_MAX + 1)
    expect((await post(one, long)).status).toBe(413)
    const chunked = await post(one, '', { chunks: [long.slice(0, 600_000), long.slice(600_000)] })
    expect(chunked.status).toBe(413)
    expect((await post(one, gzipSync(long), { headers: { 'content-encoding': 'gzip' } })).status).toBe(413)
    const rows = await kept(one, 3)
    expect(rows.map(({ code, text, is_truncated: is }) => [code, text, is])).toEqual(
      Array(3).fill(['body_too_large', null, 'true']),
    )
  })

  test('a 415 with a body that is long, packed or in chunks is answered at once, without its text', async () => {
    const one = await source()
    const { pathname, port } = new URL(one.url)
    for (const lines of [
      ['Content-Type: text/plain', `Content-Length: ${64 * KiB + 1}`],
      ['Content-Type: text/plain', 'Content-Length: 1000', 'Content-Encoding: gzip'],
      ['Content-Type: text/plain', 'Transfer-Encoding: chunked'],
      ['Content-Type: text/plain', 'Content-Length: 0'],
    ]) {
      const raw = await Raw.open(Number(port))
      raw.write(head(pathname, lines))
      await raw.until(({ received }) => received.includes('unsupported_media_type'))
      expect(raw.received).toMatch(/^HTTP\/1.1 415 /)
      raw.socket.destroy()
    }
    const rows = await kept(one, 4)
    expect(rows.map(({ code, text, content_type: type }) => [code, text, type])).toEqual(
      Array(4).fill(['unsupported_media_type', null, 'text/plain']),
    )
  })

  test('a 415 whose short body never comes keeps nobody, and is told', async () => {
    const one = await source()
    const { pathname, port } = new URL(one.url)
    const raw = await Raw.open(Number(port))
    raw.write(`${head(pathname, ['Content-Type: text/plain', 'Content-Length: 100'])}only a part`)
    await delay(200)
    expect(raw.received).toBe('')
    raw.socket.destroy()
    expect(brief(await kept(one, 0))).toEqual([])
    expect((await post(one, '{"n":1}')).status).toBe(200)
  })

  test('curl sends a body after `Expect: 100-continue`, and its text is there', async () => {
    const one = await source()
    for (const type of ['text/plain', 'application/json']) {
      const headers = ['-H', 'Expect: 100-continue', '-H', `Content-Type: ${type}`]
      const run = promisify(execFile)('curl', [
        '-sS',
        '-w',
        ' %{http_code}',
        ...headers,
        '-d',
        '{"n":"curl"}',
        one.url,
      ])
      expect((await run).stdout).toMatch(type === 'text/plain' ? / 415$/ : / 400$/)
    }
    expect(brief(await kept(one, 2))).toEqual([
      ['unsupported_media_type', null, '{"n":"curl"}'],
      ['wrong_type', '0', '{"n":"curl"}'],
    ])
  })

  test('a connection goes on behind a refused body that was read', async () => {
    const one = await source()
    const { pathname, port } = new URL(one.url)
    const raw = await Raw.open(Number(port))
    for (let round = 1; round <= 3; round += 1) {
      raw.write(`${head(pathname, ['Content-Type: text/plain', 'Content-Length: 6'])}refuse`)
      await raw.until(({ received }) => received.match(/HTTP\/1.1 415 /g)?.length === round)
      raw.write(`${head(pathname, ['Content-Length: 7'])}{"n":${round}}`)
      await raw.until(({ received }) => received.match(/HTTP\/1.1 200 /g)?.length === round)
    }
    raw.socket.destroy()
    expect((await kept(one, 3)).map(({ text }) => text)).toEqual(Array(3).fill('refuse'))
  })

  test('what nobody signed or authorized is never kept; what is signed and wrong is', async () => {
    const one = await source({ signature: { scheme: 'GITHUB', secrets: ['secret'] } })
    const signed = (body: string) => ({
      'x-hub-signature-256': `sha256=${createHmac('sha256', 'secret').update(body).digest('hex')}`,
    })
    expect((await post(one, '{"n":')).status).toBe(401)
    expect((await post(one, '{"n":', { headers: signed('other') })).status).toBe(401)
    expect((await post(one, 'n=1', { headers: { 'content-type': FORM } })).status).toBe(415)
    expect((await post(one, 'x'.repeat(BODY_BYTES_MAX + 1))).status).toBe(413)
    expect((await post(one, '{"n":2}', { query: '?disable_partial_success=maybe' })).status).toBe(400)
    const long = 'x'.repeat(BODY_BYTES_MAX + 1)
    expect((await post(one, '', { chunks: [long] })).status).toBe(413)
    expect((await post(one, '{"n":', { headers: signed('{"n":') })).status).toBe(400)
    expect((await post(one, '[{"n":1},{}]', { headers: signed('[{"n":1},{}]') })).status).toBe(200)
    expect(brief(await rejectedOf(server, one.poolId, 2))).toEqual([
      ['not_json', null, '{"n":'],
      ['missing_value', '1', '{}'],
    ])
    const basic = await source({ basicAuth: { username: 'user', password: 'password' } })
    const right = { authorization: `Basic ${btoa('user:password')}` }
    expect((await post(basic, '{"n":')).status).toBe(401)
    expect((await post(basic, 'x', { headers: { 'content-type': FORM } })).status).toBe(401)
    expect((await post(basic, '{"m":1}', { headers: { authorization: 'Basic x' } })).status).toBe(401)
    expect((await post(basic, '{"m":2}', { headers: right })).status).toBe(400)
    expect(brief(await rejectedOf(server, basic.poolId, 1))).toEqual([['missing_value', '0', '{"m":2}']])
  })

  test('DELETEs, handshakes, other methods and unknown paths are not kept', async () => {
    const one = await source({ uniqueId: 'n', verifyToken: 'token', accept: ['PUT'] })
    expect((await post(one, '{"m":1}', { method: 'DELETE' })).status).toBe(400)
    expect((await post(one, '{"n":', { method: 'DELETE' })).status).toBe(400)
    const url = `?hub.mode=subscribe&hub.verify_token=token&hub.challenge=42`
    expect((await post(one, '', { method: 'GET', query: url })).status).toBe(200)
    expect((await post(one, '', { method: 'GET' })).status).toBe(405)
    expect((await post(one, '{"n":9}', { query: '/path' })).status).toBe(404)
    const slack = await source({ signature: { scheme: 'SLACK', secrets: ['s'] } })
    const body = '{"type":"url_verification","challenge":"abc"}'
    const at = String(Math.floor(Date.now() / 1000))
    const signature = `v0=${createHmac('sha256', 's').update(`v0:${at}:${body}`).digest('hex')}`
    const headers = { 'x-slack-request-timestamp': at, 'x-slack-signature': signature }
    expect((await post(slack, body, { headers })).text).toBe('abc')
    expect((await post(one, '{"n":"put"}', { method: 'PUT' })).status).toBe(400)
    expect(brief(await kept(one, 1))).toEqual([['wrong_type', '0', '{"n":"put"}']])
    expect(await rejectedNow(server, slack.poolId)).toEqual([])
  })

  test('rejectedEvents: COUNT keeps nothing, and can be changed both ways', async () => {
    const settings = async (id: string) => {
      const { data } = await server.graphql<{ dataSource: { connectionSettings: unknown } }>(
        'query ($id: ID!) { dataSource(id: $id) { connectionSettings { ... on WebhookConnectionSettings { rejectedEvents } } } }',
        { id },
      )
      return data.dataSource.connectionSettings
    }
    const change = async (id: string, connectionSettings: object) => {
      const { errors } = await server.graphql(
        'mutation ($input: ModifyWebhookDataSourceInput!) { modifyWebhookDataSource(input: $input) { dataSource { id } } }',
        { input: { idOrUniqueName: { id }, connectionSettings } },
      )
      expect(errors).toBeUndefined()
    }
    const one = await source({ rejectedEvents: 'COUNT' })
    expect(await settings(one.sourceId)).toEqual({ rejectedEvents: 'COUNT' })
    const refuse = async (text: string) => {
      expect((await post(one, `{"n":"${text}"}`)).status).toBe(400)
      expect((await post(one, text, { headers: { 'content-type': FORM } })).status).toBe(415)
    }
    await refuse('a')
    await change(one.sourceId, { accept: ['TEXT'] })
    await refuse('b')
    await change(one.sourceId, { rejectedEvents: 'KEEP' })
    expect(await settings(one.sourceId)).toEqual({ rejectedEvents: 'KEEP' })
    await refuse('c')
    await rejectedOf(server, one.poolId, 2)
    await change(one.sourceId, { rejectedEvents: 'COUNT' })
    await refuse('d')
    await change(one.sourceId, { rejectedEvents: 'KEEP' })
    expect((await kept(one, 2)).map(({ text }) => text)).toEqual(['{"n":"c"}', 'c'])
  })

  test('the context has what columns read of the request, also where its head is refused', async () => {
    const columns = [
      N,
      column('who', 'STRING', true, '$header.X-Who'),
      column('shop', 'STRING', true, '$query.shop'),
      column('path', 'STRING', true, '$path'),
    ]
    const one = await source({ columns, accept: ['PATH', 'FORM'] })
    const who = 'me é x'
    const more = {
      query: '/orders/1?shop=a%20b&other=1',
      headers: { 'x-who': Buffer.from(who).toString('latin1'), 'x-other': 'no' },
    }
    expect((await post(one, '[{"n":1},{}]', more)).status).toBe(200)
    expect((await post(one, '{', { query: '?shop=2' })).status).toBe(400)
    expect(
      (await post(one, 'n=x', { ...more, headers: { ...more.headers, 'content-type': FORM } })).status,
    ).toBe(400)
    const media = { 'content-type': 'image/png' }
    expect((await post(one, 'png', { ...more, headers: { ...more.headers, ...media } })).status).toBe(415)
    expect((await post(one, '{"n":7}', { headers: { 'x-who': 'w'.repeat(5_000) } })).status).toBe(400)
    const rows = await kept(one, 5)
    const whole = { '$header.X-Who': who, '$query.shop': 'a b', $path: '/orders/1' }
    expect(rows.map(({ code, context }) => [code, context === null ? null : JSON.parse(context)])).toEqual([
      ['missing_value', whole],
      ['not_json', { '$query.shop': '2' }],
      ['wrong_type', whole],
      ['unsupported_media_type', whole],
      ['context_too_large', null],
    ])
  })

  test('refused rows of an import are not kept, and nobody imports into the pool', async () => {
    const one = await server.createPool({ uniqueName: 'imported', columns: [N] })
    const headers = { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` }
    const rowsInto = async (pool: string, body: string) => {
      const url = `${server.base}/v1/pools/${pool}/import?format=ndjson`
      const answer = await fetch(url, { method: 'POST', headers, body })
      return (await answer.json()) as { readonly rejected?: number; readonly code?: string }
    }
    expect(await rowsInto('imported', '{"n":1}\n{"n":"x"}\n{}\n')).toMatchObject({ rejected: 2 })
    expect(await rowsInto('weir_rejected_events', '{"id":7}\n')).toMatchObject({ code: 'built_in_pool' })
    expect(brief(await kept(one, 0))).toEqual([])
  })

  test('duplicates of an event, and hostile texts, are kept as they were sent', async () => {
    const one = await source()
    const texts = [
      String.raw`{"n":"\u0000\u001b[2J\ud83d\ude00"}`,
      String.raw`{"n":"</script>\u2028"}`,
      `{"n":"${String.raw`\\\"`.repeat(10_000)}"}`,
      '{"__proto__":{"n":1}}',
      `{"n":${'['.repeat(1_000)}${']'.repeat(1_000)}}`,
      '{"n":"x"}',
      '{"n":"x"}',
      '{"id":"forged","code":"forged","text":"forged"}',
    ]
    expect((await post(one, `[${texts.join()}]`)).status).toBe(400)
    const rows = await kept(one, texts.length)
    expect(rows.map(({ text }) => text)).toEqual(texts)
    expect(rows.map(({ element_index: at }) => at)).toEqual(texts.map((_, index) => String(index)))
  })

  test('many small rejections of one task all have their rows', async () => {
    const one = await source()
    const body = `[${Array<string>(EVENTS_MAX).fill('{}').join()}]`
    const answers = await Promise.all(Array.from({ length: 6 }, () => post(one, body)))
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(400))
    for (let tries = 0; ; tries += 1) {
      const filters = [{ column: 'data_pool_id', operator: 'EQUALS', value: one.poolId }]
      const metric = { count: { dataPool: { name: 'weir_rejected_events' } } }
      const { data } = await server.graphql<{ counter: { value: string } }>(
        'query ($input: CounterInput!) { counter(input: $input) { value } }',
        { input: { metric, filters } },
      )
      if (data.counter.value === String(6 * EVENTS_MAX)) break
      expect([tries < 100, data.counter.value]).toEqual([true, expect.anything()])
      await delay(50)
    }
  })
})
