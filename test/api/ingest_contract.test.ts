/** Section 3's rows over HTTP: statuses, headers, bodies, and the order of the checks. */
import { gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from 'vitest'
import { type Ask, ask } from './client.ts'
import { api, fake, good, startForFile } from './fake.ts'

startForFile()
beforeEach(() => {
  fake.health = { ready: true }
  fake.logged.length = 0
})

const OK = { statusCode: 200, statusMessage: 'OK' }
const send = (path: string, body: string | Uint8Array, more: Ask = {}) =>
  ask(api.port, path, { body, ...more })

function expectProblem(answer: Awaited<ReturnType<typeof ask>>, status: number, code: string) {
  expect([answer.status, answer.json.code]).toEqual([status, code])
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(typeof answer.json.errors).toBe('string')
  expect(answer.json.status).toBe(status)
  expect(answer.json.detail).toBe(answer.json.errors)
  expect(typeof answer.json.title).toBe('string')
  expect(typeof answer.json.type).toBe('string')
  expect(typeof answer.json.retryable).toBe('boolean')
  expect(Array.isArray(answer.json.events)).toBe(true)
}

describe('accepted requests', () => {
  test('one object answers with one element', async () => {
    const answer = await send('/v1/open', good)
    expect([answer.status, answer.json]).toEqual([200, [OK]])
    expect(answer.headers['content-type']).toBe('application/json')
    expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['1', '0'])
    expect(fake.logged.map(record => [record.pool, record.kind, record.body])).toEqual([[1, 1, good]])
  })

  test('500 events and an empty array are accepted, 501 events are 413', async () => {
    const many = await send('/v1/open', `[${new Array(500).fill(good)}]`)
    expect([many.status, many.json.length, many.headers['x-events-accepted']]).toEqual([200, 500, '500'])
    const none = await send('/v1/open', '[]')
    expect([none.status, none.text, none.headers['x-events-accepted']]).toEqual([200, '[]', '0'])
    const over = await send('/v1/open', `[${new Array(501).fill(good)}]`)
    expectProblem(over, 413, 'too_many_events')
    expect([over.headers['x-events-accepted'], over.headers['x-events-rejected']]).toEqual(['0', '0'])
    expect(fake.logged.length).toBe(1)
  })

  test('some invalid events: 200 with an element for each', async () => {
    const answer = await send('/v1/open', '[{"id":"a"},{},7,{"id":"b"}]')
    expect(answer.status).toBe(200)
    expect(answer.json.map((element: { statusCode: number }) => element.statusCode)).toEqual([
      200, 400, 400, 200,
    ])
    expect(answer.json[0]).toEqual(OK)
    expect(answer.json[1].statusMessage).toContain('column "id"')
    expect(answer.json[2].statusMessage).toContain('JSON object')
    expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['2', '2'])
    expect(fake.logged[0]).toMatchObject({ events: 4, accepted: 2, bits: true })
  })

  test('no valid event, or any invalid one with the parameter: 400 and nothing stored', async () => {
    const none = await send('/v1/open', '[{},{}]')
    expectProblem(none, 400, 'no_valid_event')
    expect(none.json.detail).toMatch(/^no event is valid, nothing was stored: event 0: /)
    expect(none.json.events.map((e: { index: number; column: string }) => [e.index, e.column])).toEqual([
      [0, 'id'],
      [1, 'id'],
    ])
    expect(none.headers['x-events-rejected']).toBe('2')
    const strict = await send('/v1/open?disable_partial_success=true', '[{"id":"a"},{},{"id":"c"}]')
    expectProblem(strict, 400, 'invalid_events')
    expect(strict.json.events).toMatchObject([{ index: 1, code: 'missing_value', column: 'id' }])
    expect([strict.headers['x-events-accepted'], strict.headers['x-events-rejected']]).toEqual(['0', '3'])
    expect(fake.logged).toEqual([])
  })

  test('a body that is not JSON, is a scalar or is empty: 400 with the counts', async () => {
    for (const [body, code] of [
      ['{', 'not_json'],
      ['7', 'not_object_or_array'],
      ['', 'not_json'],
    ] as const) {
      const answer = await send('/v1/open', body)
      expectProblem(answer, 400, code)
      expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['0', '0'])
    }
  })

  test('DELETE answers as POST does, and its errors name the columns of the key', async () => {
    const answer = await send('/v1/open', '[{"id":"a"},{}]', { method: 'DELETE' })
    expect([answer.status, answer.json[0]]).toEqual([200, OK])
    expect(answer.json[1].statusMessage).toContain('column "id"')
    expect(fake.logged.map(record => record.kind)).toEqual([2])
    const none = await send('/v1/open', '[{}]', { method: 'DELETE' })
    expectProblem(none, 400, 'no_valid_event')
    expect(none.json.detail).toMatch(/^no event is valid, nothing was deleted: event 0: /)
    const strict = await send('/v1/open?disable_partial_success=1', '[{"id":"a"},{}]', { method: 'DELETE' })
    expectProblem(strict, 400, 'invalid_events')
    expect(strict.json.detail).toMatch(/^1 of 2 events are invalid, nothing was deleted: event 1: /)
    expectProblem(await send('/v1/keyless', '[{}]', { method: 'DELETE' }), 400, 'no_unique_id')
    expect((await send('/v1/keyless', good)).status).toBe(200)
  })

  test('Prefer: return=minimal empties a 200 without rejections only', async () => {
    const headers = { prefer: 'respond-async, return=minimal' }
    const all = await send('/v1/open', `[${good},${good}]`, { headers })
    expect([all.status, all.text, all.headers['x-events-accepted']]).toEqual([200, '[]', '2'])
    const some = await send('/v1/open', `[${good},{}]`, { headers })
    expect(some.json.length).toBe(2)
    expect((await send('/v1/open', good, { headers: { prefer: 'return=representation' } })).json).toEqual([
      OK,
    ])
  })

  test('a percent-encoded webhook id is decoded', async () => {
    expect((await send('/v1/a%20b%2Fc', good)).status).toBe(200)
    expectProblem(await send('/v1/a%zz', good), 404, 'unknown_webhook')
  })
})

describe('headers and parameters', () => {
  test('a content type other than JSON is 415', async () => {
    const accepted = ['application/json', 'Application/JSON; charset=utf-8', 'application/json;x=y', '']
    for (const type of accepted) {
      const headers = { 'content-type': type }
      expect([type, (await send('/v1/open', good, { headers })).status]).toEqual([type, 200])
    }
    expect((await send('/v1/open', good)).status).toBe(200)
    for (const type of ['text/plain', 'application/jsonx', 'application/x-www-form-urlencoded', 'json']) {
      const headers = { 'content-type': type }
      expectProblem(await send('/v1/open', good, { headers }), 415, 'unsupported_media_type')
    }
  })

  test('gzip and identity are decoded, any other encoding is 415', async () => {
    const zipped = gzipSync(good)
    for (const encoding of ['gzip', 'GZIP']) {
      const headers = { 'content-encoding': encoding }
      expect((await send('/v1/open', zipped, { headers })).json).toEqual([OK])
    }
    expect(fake.logged.map(record => record.body)).toEqual([good, good])
    expect((await send('/v1/open', good, { headers: { 'content-encoding': 'identity' } })).status).toBe(200)
    for (const encoding of ['br', 'gzip, gzip', 'deflate', 'gzip, identity', ['gzip', 'gzip']]) {
      const answer = await send('/v1/open', zipped, { headers: { 'content-encoding': encoding } })
      expectProblem(answer, 415, 'unsupported_encoding')
      expect(answer.headers['accept-encoding']).toBe('gzip, zstd')
    }
    const headers = { 'content-encoding': 'gzip' }
    expectProblem(await send('/v1/open', zipped.subarray(0, 15), { headers }), 400, 'broken_gzip')
    expectProblem(await send('/v1/open', gzipSync(' '.repeat(1_048_321)), { headers }), 413, 'body_too_large')
    const exact = `${good}${' '.repeat(1_048_320 - good.length)}`
    expect((await send('/v1/open', gzipSync(exact), { headers })).json).toEqual([OK])
  })

  test('disable_partial_success takes true, 1, false or 0, given once', async () => {
    const name = 'disable_partial_success'
    const mixed = `[${good},{}]`
    const want: [string, number][] = [
      [`${name}=true`, 400],
      [`${name}=1`, 400],
      [`x=1&${name}=%74rue`, 400],
      [`disable%5Fpartial_success=true`, 400],
      [`${name}=false`, 200],
      [`${name}=0`, 200],
      ['other=7&DISABLE_PARTIAL_SUCCESS=true', 400],
      ['other=7&partial_success=true', 200],
      ['&&=&%zz=1', 200],
    ]
    for (const [query, status] of want)
      expect([query, (await send(`/v1/open?${query}`, mixed)).status]).toEqual([query, status])
    for (const query of [
      name,
      `${name}=`,
      `${name}=True`,
      `${name}=yes`,
      `${name}=%zz`,
      `${name}=1&${name}=1`,
    ])
      expectProblem(await send(`/v1/open?${query}`, good), 400, 'bad_parameter')
  })

  test('missing or wrong credentials are 401, and an open pool ignores credentials', async () => {
    const basic = (text: string) => ({
      headers: { authorization: `Basic ${Buffer.from(text).toString('base64')}` },
    })
    for (const more of [
      {},
      basic('user:x'),
      basic('user'),
      { headers: { authorization: 'Bearer x' } },
      basic(':'),
    ]) {
      const answer = await send('/v1/closed', good, more)
      expectProblem(answer, 401, 'unauthorized')
      expect(answer.headers['www-authenticate']).toBe('Basic realm="weir"')
    }
    expect((await send('/v1/closed', good, basic('user:pässword'))).status).toBe(200)
    const lower = {
      headers: { authorization: basic('user:pässword').headers.authorization.replace('Basic', 'basic') },
    }
    expect((await send('/v1/closed', good, lower)).status).toBe(200)
    expect((await send('/v1/nameless', good, basic(':p'))).status).toBe(200)
    expect((await send('/v1/open', good, basic('any:thing'))).status).toBe(200)
    expect((await send('/v1/open', good, { headers: { authorization: 'nonsense' } })).status).toBe(200)
  })
})

test('the order of the checks: each refusal hides those after it', async () => {
  const bad: Record<string, string> = {
    'content-type': 'text/plain',
    'content-length': '1048321',
  }
  const query = '?disable_partial_success=x'
  const auth = `Basic ${Buffer.from('user:pässword').toString('base64')}`
  fake.health = { ready: true, refuse: { code: 'disk_full', message: 'the disk is full' } }
  const first = await ask(api.port, `/v1/unknown${query}`, { method: 'PUT', headers: bad })
  expectProblem(first, 503, 'disk_full')
  expect(first.json.retryable).toBe(true)
  fake.health = { ready: true }
  expectProblem(
    await ask(api.port, `/v1/unknown${query}`, { method: 'PUT', headers: bad }),
    404,
    'unknown_webhook',
  )
  const method = await ask(api.port, `/v1/closed${query}`, { method: 'PUT', headers: bad })
  expectProblem(method, 405, 'method_not_allowed')
  expect(method.headers.allow).toBe('POST, DELETE')
  expectProblem(await ask(api.port, `/v1/closed${query}`, { headers: bad }), 401, 'unauthorized')
  bad.authorization = auth
  expectProblem(await ask(api.port, `/v1/closed${query}`, { headers: bad }), 415, 'unsupported_media_type')
  bad['content-type'] = 'application/json'
  expectProblem(await ask(api.port, `/v1/closed${query}`, { headers: bad }), 400, 'bad_parameter')
  expectProblem(await ask(api.port, '/v1/closed', { headers: bad }), 413, 'body_too_large')
})

test('a pool that is deleted between admission and commit answers 404 and is not logged', async () => {
  fake.dead.add(2)
  expectProblem(await send('/v1/second', good), 404, 'unknown_webhook')
  expect(fake.logged).toEqual([])
  fake.dead.delete(2)
  expect((await send('/v1/second', good)).status).toBe(200)
})

test('every method but POST and DELETE is 405, HEAD and GET too', async () => {
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'OPTIONS']) {
    const answer = await ask(api.port, '/v1/open', { method })
    expect([method, answer.status, answer.headers.allow]).toEqual([method, 405, 'POST, DELETE'])
  }
})
