/**
 * The ingest contract (docs/contract.md) over HTTP against the real server, once with each kernel.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ask, ask, head, Raw } from '../api/client.ts'
import { startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { column, counts, expectProblem, OK, pathOf, portOf, post } from './client.ts'

const BODY_BYTES_MAX = 1_048_320
const columns = [column('ts', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64', true)]
const event = (id: string, n = 1) => ({ ts: '2026-01-01', id, n })
const events = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, i) => event(`${prefix}${i}`))

/** An event whose text has exactly this many bytes. */
function eventOfBytes(bytes: number): string {
  const short = JSON.stringify({ ...event('large'), pad: '' })
  return JSON.stringify({ ...event('large'), pad: 'x'.repeat(bytes - short.length) })
}

describe.each(['native', 'js'])('kernel %s', kernel => {
  let server: TestServer
  let keyed: TestPool
  let locked: TestPool
  let plain: TestPool
  beforeAll(async () => {
    server = await startServer({ args: ['--kernel', kernel] })
    keyed = await server.createPool({ uniqueName: 'contract', columns, timestamp: 'ts', uniqueId: 'id' })
    locked = await server.createPool({ columns, basicAuth: { username: 'u', password: 'p:ä' } })
    plain = await server.createPool({})
  })
  afterAll(async () => {
    expect((await server.stop()).code).toBe(0)
  })

  const send = (body: unknown, more: Ask & { query?: string } = {}) => post(server, keyed, body, more)
  const count = async (pool = keyed) => Number(await server.count(pool.poolId))

  /** Expects that the pool gets so many more rows while `work` runs. */
  async function grows(by: number, work: () => Promise<void>): Promise<void> {
    const before = await count()
    await work()
    expect((await count()) - before).toBe(by)
  }

  test('one object, an array, an empty array', () =>
    grows(3, async () => {
      const one = await send(event('one'))
      expect([one.status, one.json, counts(one)]).toEqual([200, [OK], ['1', '0']])
      expect(one.headers['content-type']).toBe('application/json')
      const two = await send([event('two'), event('three')])
      expect([two.status, two.json, counts(two)]).toEqual([200, [OK, OK], ['2', '0']])
      const none = await send('[]')
      expect([none.status, none.text, counts(none)]).toEqual([200, '[]', ['0', '0']])
    }))

  test('[valid, 3, valid]: two stored; with disable_partial_success nothing', () =>
    grows(2, async () => {
      const body = [event('v1'), 3, event('v2')]
      const strict = await send(body, { query: '?disable_partial_success=true' })
      expectProblem(strict, 400, 'invalid_events')
      expect(strict.json.events).toMatchObject([{ index: 1, code: 'not_object', column: null }])
      expect(counts(strict)).toEqual(['0', '3'])
      const partial = await send(body)
      expect(partial.status).toBe(200)
      expect(partial.json.map((one: typeof OK) => one.statusCode)).toEqual([200, 400, 200])
      expect(counts(partial)).toEqual(['2', '1'])
    }))

  test('an invalid event names its column and what was wrong; none valid is 400', () =>
    grows(1, async () => {
      const some = await send([event('named'), { ...event('x'), n: 'seven' }, { id: 'y' }])
      expect(some.json[1].statusMessage).toMatch(/column "n".*INT64.*string/)
      expect(some.json[2].statusMessage).toMatch(/column "ts".*required/)
      const none = await send([{}, { ...event('x'), n: 1.5 }])
      expectProblem(none, 400, 'no_valid_event')
      expect(none.json.events).toMatchObject([
        { index: 0, code: 'missing_value', column: 'ts' },
        { index: 1, code: 'not_integral', column: 'n' },
      ])
      expect(counts(none)).toEqual(['0', '2'])
    }))

  test('of equal keys in one request the later valid one wins, and all valid ones count', async () => {
    const answer = await send([event('twice', 1), event('twice', 20), { ...event('twice'), n: 'no' }])
    expect([answer.status, counts(answer)]).toEqual([200, ['2', '1']])
    const filters = [{ column: 'id', operator: 'EQUALS', value: 'twice' }]
    expect(await server.sum(keyed.poolId, 'n', { filters })).toBe('20')
    expect(await server.count(keyed.poolId, { filters })).toBe('1')
  })

  test('500 events are taken, 501 are 413 and leave nothing', () =>
    grows(500, async () => {
      const many = await send(events(500, 'many'))
      expect([many.status, many.json.length, counts(many)]).toEqual([200, 500, ['500', '0']])
      expectProblem(await send(events(501, 'over')), 413, 'too_many_events')
    }))

  test('1,048,320 bytes are taken, one more is 413: declared, chunked and inflated', async () => {
    const full = eventOfBytes(BODY_BYTES_MAX)
    const over = eventOfBytes(BODY_BYTES_MAX + 1)
    expect(Buffer.byteLength(full)).toBe(BODY_BYTES_MAX)
    const headers = { 'content-encoding': 'gzip' }
    for (const [body, status] of [
      [full, 200],
      [over, 413],
    ] as const) {
      expect((await send(body)).status).toBe(status)
      const chunks = body.match(/.{1,99999}/gs) ?? []
      expect((await send('', { chunks })).status).toBe(status)
      const inflated = await send(gzipSync(body), { headers })
      expect(inflated.status).toBe(status)
      if (status === 413) expectProblem(inflated, 413, 'body_too_large')
    }
  })

  test('a gzip bomb is 413, broken gzip 400, another coding 415', () =>
    grows(1, async () => {
      const headers = { 'content-encoding': 'gzip' }
      expectProblem(await send(gzipSync(Buffer.alloc(200_000_000, 32)), { headers }), 413, 'body_too_large')
      const packed = gzipSync(JSON.stringify(event('packed')))
      expectProblem(await send(packed.subarray(0, -9), { headers }), 400, 'broken_gzip')
      expectProblem(await send(Buffer.from('no gzip'), { headers }), 400, 'broken_gzip')
      const wrong = Uint8Array.from(packed)
      wrong[wrong.length - 6]! ^= 1
      expectProblem(await send(wrong, { headers }), 400, 'broken_gzip')
      for (const coding of ['br', 'deflate', 'gzip, gzip']) {
        const answer = await send(packed, { headers: { 'content-encoding': coding } })
        expect([coding, answer.status, answer.headers['accept-encoding']]).toEqual([
          coding,
          415,
          'gzip, zstd',
        ])
      }
      expect((await send(packed, { headers })).status).toBe(200)
    }))

  test('gzip: several members are one body; what stands behind them must be padding', () =>
    grows(3, async () => {
      const headers = { 'content-encoding': 'gzip' }
      const text = JSON.stringify(event('g1'))
      const packed = gzipSync(text)
      const members = Buffer.concat([
        gzipSync('['),
        gzipSync(''),
        gzipSync(`${text},`),
        gzipSync(JSON.stringify(event('g2'))),
        gzipSync(']'),
      ])
      const both = await send(members, { headers })
      expect([both.status, counts(both)]).toEqual([200, ['2', '0']])
      const padded = Buffer.concat([gzipSync(JSON.stringify(event('g3'))), Buffer.alloc(512)])
      expect((await send(padded, { headers })).status).toBe(200)
      const behind = [
        Buffer.from('x'),
        Buffer.from([0, 120]),
        Buffer.from([31, 139]),
        Buffer.from([0, ...packed]),
      ]
      for (const bytes of behind) {
        const answer = await send(Buffer.concat([packed, bytes]), { headers })
        expectProblem(answer, 400, 'broken_gzip')
        expect(counts(answer)).toEqual(['0', '0'])
      }
      expectProblem(await send(Buffer.alloc(0), { headers }), 400, 'broken_gzip')
      expectProblem(await send(gzipSync(''), { headers }), 400, 'not_json')
      expectProblem(await send(gzipSync(packed), { headers }), 400, 'invalid_utf8')
    }))

  test('documents that are refused as a whole', () =>
    grows(0, async () => {
      const good = JSON.stringify(event('doc'))
      const deep = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
      const refused: [string | Uint8Array, string][] = [
        ['', 'not_json'],
        ['{', 'not_json'],
        [`[${good},]`, 'not_json'],
        [`[${good}] x`, 'not_json'],
        [`${good}${good}`, 'not_json'],
        ['7', 'not_object_or_array'],
        ['"text"', 'not_object_or_array'],
        ['null', 'not_object_or_array'],
        [`\ufeff\ufeff${good}`, 'byte_order_mark'],
        [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid_utf8'],
        [`[${good},${deep(1025)}]`, 'too_deep'],
        [`[${good},{"a":"\\ud800"}]`, 'unpaired_surrogate'],
        [`[${good},{"a":1e999}]`, 'number_out_of_range'],
      ]
      for (const [body, code] of refused) {
        const answer = await send(body)
        expectProblem(answer, 400, code)
        expect(counts(answer)).toEqual(['0', '0'])
      }
      expect((await post(server, plain, deep(1024))).status).toBe(200)
    }))

  test('content types, methods, webhooks, parameters', () =>
    grows(0, async () => {
      for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded'])
        expect([type, (await send(event('t'), { headers: { 'content-type': type } })).status]).toEqual([
          type,
          415,
        ])
      for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON'])
        expect([type, (await send('[]', { headers: { 'content-type': type } })).status]).toEqual([type, 200])
      expectProblem(await ask(portOf(server), '/v1/nobody', { body: '{}' }), 404, 'unknown_webhook')
      for (const method of ['GET', 'PUT', 'PATCH']) {
        const answer = await ask(portOf(server), pathOf(keyed), { method })
        expect([method, answer.status]).toEqual([method, 405])
        expect(answer.headers.allow).toMatch(/POST.*DELETE|DELETE.*POST/)
      }
      for (const value of ['', 'yes', 'TRUE', '2'])
        expectProblem(await send('[]', { query: `?disable_partial_success=${value}` }), 400, 'bad_parameter')
      for (const value of ['true', '1', 'false', '0'])
        expect((await send('[]', { query: `?disable_partial_success=${value}` })).status).toBe(200)
    }))

  test('a document that is not JSON: where it broke, what was due and what was found', async () => {
    const found: [string, string, number[]][] = [
      ['', 'the body is empty: send a JSON object or an array of objects', []],
      [' \n', 'the body is not JSON: expected a value at byte 2, found the end', []],
      ['hello=1', 'the body is not JSON: expected a value at byte 0, found "h"', []],
      ['{"a":1}\n{"a":2}', 'found "{"; several objects go into one array', []],
      [
        "[{},{'a':1}]",
        `a key in double quotes at byte 5 (event 1), found "'"; JSON takes double quotes`,
        [1],
      ],
      ['[{},{"a":1,}]', 'expected a key in double quotes at byte 11 (event 1), found "}"', [1]],
      ['{"a" 1}', 'expected a colon after the key at byte 5 (event 0), found "1"', [0]],
      ['{"a":1 "b":2}', 'expected "," or "}" at byte 7 (event 0), found "\\""', [0]],
      ['[{"a":[1}]', 'expected "," or "]" at byte 8 (event 0), found "}"', [0]],
      ['[{} {}]', 'expected "," or "]" at byte 4, found "{"', []],
      ['{"a":tru}', 'expected true, false or null at byte 5 (event 0), found "t"', [0]],
      ['{"a":-x}', 'expected a digit at byte 6 (event 0), found "x"', [0]],
      ['{"a":1.}', 'expected a digit at byte 7 (event 0), found "}"', [0]],
      [
        '{"a":"b\nc"}',
        'expected a string without control characters (write \\n, \\t or \\u0001) at byte 7',
        [0],
      ],
      ['{"a":"b', 'expected the double quote that ends the string at byte 7 (event 0), found the end', [0]],
      [
        '{"a":"\\x"}',
        'an escape such as \\n or \\u00e9 after the backslash at byte 7 (event 0), found "x"',
        [0],
      ],
      ['{"a":"\\u00g0"}', 'four hexadecimal digits after \\u at byte 10 (event 0), found "g"', [0]],
      ['{"a":é}', 'expected a value at byte 5 (event 0), found a character beyond ASCII', [0]],
      ['[{},{"a":1e999}]', 'a number is beyond the range of a 64-bit float at byte 9 (event 1)', [1]],
      ['{"a":"\\ud800"}', 'a string holds one half of a surrogate pair at byte 6 (event 0)', [0]],
    ]
    for (const [body, message, indexes] of found) {
      for (const [packed, headers] of [
        [body, {}],
        [gzipSync(body), { 'content-encoding': 'gzip' }],
      ] as const) {
        const answer = await send(packed, { headers })
        expect([body, answer.status, answer.json.detail]).toEqual([
          body,
          400,
          expect.stringContaining(message),
        ])
        expect(answer.json.events.map((one: { index: number }) => one.index)).toEqual(indexes)
      }
    }
  })

  test('a refused content type or encoding is named, shortened and escaped', async () => {
    const detailOf = async (headers: Record<string, string>) => (await send('{}', { headers })).json.detail
    expect(await detailOf({ 'content-type': 'text/plain' })).toBe(
      'the Content-Type is "text/plain": send JSON as application/json, or NDJSON as application/x-ndjson; a data source takes it where its accept has TEXT',
    )
    expect((await detailOf({ 'content-type': `text/${'x'.repeat(500)}` })).length).toBeLessThan(200)
    expect(await detailOf({ 'content-type': 'text/\u009b' })).not.toMatch(/\p{Cc}/u)
    expect(await detailOf({ 'content-encoding': 'br' })).toContain('found "br"')
  })

  test('a misspelt disable_partial_success is refused, parameters of senders are not', async () => {
    for (const name of [
      'disablePartialSuccess',
      'disable-partial-success',
      'DISABLE_PARTIAL_SUCCESS',
      'disable_partial_sucess',
      'disable_partial_successs',
      'disable_partial_succes',
      'disable_patrial_success',
      'disable_partiel_success',
      'disable%5Fpartial%5Fsuccess%5F',
    ])
      for (const method of ['POST', 'DELETE']) {
        const answer = await send('[]', { query: `?x=1&${name}=true`, method })
        expectProblem(answer, 400, 'bad_parameter')
        expect(answer.json.detail).toContain('disable_partial_success is meant')
      }
    for (const name of ['utm_source', 'partial_success', 'disable', 'disable_full_success', 'x'.repeat(2000)])
      expect([name, (await send('[]', { query: `?${name}=true` })).status]).toEqual([name, 200])
  })

  test('the order of the checks: 404, 405, 401, 415, parameter, declared size', async () => {
    const large = 'x'.repeat(BODY_BYTES_MAX + 1)
    const bad = { 'content-type': 'text/plain' }
    const query = '?disable_partial_success=maybe'
    const basic = { authorization: `Basic ${Buffer.from('u:p:ä').toString('base64')}` }
    const nobody = await ask(portOf(server), `/v1/nobody${query}`, { method: 'PUT', headers: bad })
    expect(nobody.status).toBe(404)
    const statusOf = async (more: Ask & { query?: string }) =>
      (await post(server, locked, large, more)).status
    expect(await statusOf({ method: 'PUT', headers: bad, query })).toBe(405)
    expect(await statusOf({ headers: bad, query })).toBe(401)
    expect(await statusOf({ headers: { ...basic, ...bad }, query })).toBe(415)
    expect(await statusOf({ headers: basic, query })).toBe(400)
    expect(await statusOf({ headers: basic })).toBe(413)
  })

  test('Basic credentials where the pool has them, any Authorization where it has none', async () => {
    const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` })
    for (const headers of [{}, basic('u:p'), basic('u:'), basic(':p:ä'), { authorization: 'Bearer x' }]) {
      const answer = await post(server, locked, event('a'), { headers: headers as Record<string, string> })
      expectProblem(answer, 401, 'unauthorized')
      expect(answer.headers['www-authenticate']).toMatch(/^Basic/)
    }
    expect((await post(server, locked, event('a'), { headers: basic('u:p:ä') })).status).toBe(200)
    expect(await count(locked)).toBe(1)
    expect((await send('[]', { headers: { authorization: 'nonsense' } })).status).toBe(200)
  })

  test('Prefer: return=minimal', () =>
    grows(3, async () => {
      const headers = { prefer: 'return=minimal' }
      const all = await send([event('p1'), event('p2')], { headers })
      expect([all.status, all.text, counts(all)]).toEqual([200, '[]', ['2', '0']])
      const some = await send([event('p3'), {}], { headers })
      expect([some.status, some.json.length]).toEqual([200, 2])
    }))

  test('DELETE: key properties, many, missing ones, errors', async () => {
    await send([event('d1'), event('d2'), event('d3')])
    await grows(-2, async () => {
      const answer = await send([event('d1'), { ts: '2026-01-01T00:00:00Z', id: 'd2' }], { method: 'DELETE' })
      expect([answer.status, answer.json, counts(answer)]).toEqual([200, [OK, OK], ['2', '0']])
    })
    await grows(0, async () => {
      expect((await send(event('never'), { method: 'DELETE' })).status).toBe(200)
      const body = [event('d3'), { id: 'd3' }]
      const strict = await send(body, { method: 'DELETE', query: '?disable_partial_success=1' })
      expectProblem(strict, 400, 'invalid_events')
    })
    await grows(-1, async () => {
      const partial = await send([event('d3'), { id: 'd3' }], { method: 'DELETE' })
      expect(partial.json.map((one: typeof OK) => one.statusCode)).toEqual([200, 400])
    })
    expectProblem(await post(server, plain, {}, { method: 'DELETE' }), 400, 'no_unique_id')
  })

  test('without a timestamp a retry stores again, and DELETE names _service_received_at', async () => {
    const pool = await server.createPool({ columns: [column('id', 'STRING')], uniqueId: 'id' })
    const from = Date.now()
    expect((await post(server, pool, { id: 'a' })).status).toBe(200)
    const to = Date.now()
    let at = ''
    for (let ms = from; ms <= to; ms++) {
      const value = new Date(ms).toISOString()
      const filters = [{ column: '_service_received_at', operator: 'EQUALS', value }]
      if ((await server.count(pool.poolId, { filters })) === '1') at = value
    }
    expect(at).not.toBe('')
    await new Promise(resolve => setTimeout(resolve, 5)) // received-at in milliseconds is the key
    expect((await post(server, pool, { id: 'a' })).status).toBe(200)
    expect(await count(pool)).toBe(2)
    expect((await post(server, pool, { id: 'a' }, { method: 'DELETE' })).status).toBe(400)
    const answer = await post(server, pool, { id: 'a', _service_received_at: at }, { method: 'DELETE' })
    expect([answer.status, answer.text]).toEqual([200, JSON.stringify([OK])])
    expect(await count(pool)).toBe(1)
  })

  test('chunked bodies: one byte a chunk is fine, wrong sizes and aborts leave nothing', () =>
    grows(1, async () => {
      const text = JSON.stringify(event('chunks'))
      expect((await send('', { chunks: [...text] })).status).toBe(200)
      const liar = await Raw.open(portOf(server))
      liar.write(`${head(pathOf(keyed), ['Transfer-Encoding: chunked'])}zz\r\n${text}\r\n0\r\n\r\n`)
      await liar.untilClosed()
      expect(liar.received).not.toContain('HTTP/1.1 200')
      const short = await Raw.open(portOf(server))
      short.write(`${head(pathOf(keyed), ['Transfer-Encoding: chunked'])}4\r\n${text}\r\n0\r\n\r\n`)
      await short.untilClosed()
      expect(short.received).not.toContain('HTTP/1.1 200')
      for (const header of ['Transfer-Encoding: chunked', `Content-Length: ${text.length + 1}`]) {
        const gone = await Raw.open(portOf(server))
        gone.write(head(pathOf(keyed), [header]))
        gone.write(header.startsWith('T') ? `${text.length.toString(16)}\r\n${text}\r\n` : text)
        gone.socket.destroy()
        await gone.untilClosed()
      }
      expect((await ask(portOf(server), '/readyz', { method: 'GET' })).status).toBe(200)
    }))

  test('curl sees the 413 of a large upload', context => {
    if (spawnSync('curl', ['--version']).status !== 0) context.skip('curl is not installed')
    const file = join(temporaryFolder(), 'large')
    writeFileSync(file, Buffer.alloc(6_000_000, 32))
    for (const more of [[], ['-H', 'Transfer-Encoding: chunked'], ['-H', 'Expect:']]) {
      const args = ['-s', '-o', '/dev/null', '-w', '%{http_code}', '--data-binary', `@${file}`]
      const type = ['-H', 'Content-Type: application/json']
      const done = spawnSync('curl', [...args, ...type, ...more, `${server.base}${pathOf(keyed)}`])
      expect([more, done.status, done.stdout.toString()]).toEqual([more, 0, '413'])
    }
  })
})
