/** What a parse task refuses becomes rows with the reason and the text, by both kernels. */
import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { ERROR_WORDS, FLAG, OUTCOME, OUTCOME_WORDS } from '../../src/parse/kernel.ts'
import { requestOfId } from '../../src/parse/rejected-rows.ts'
import type { Received } from '../../src/parse/sender/received.ts'
import { EVENTS_MAX } from '../../src/util/limits.ts'
import { JsonMaker, makePoolSchema } from '../fuzz/json.ts'
import { Random } from '../fuzz/random.ts'
import { newSeed } from '../util/random.ts'
import { schemaOf } from './reading.ts'
import { FIRST_US, GRANT, type Row, rejectedRows, rowsOf, run, SCHEMA } from './rejected.ts'

const as = (
  format: Received['format'],
  encoding: Received['encoding'] = 'identity',
  more = {},
): Received => ({
  format,
  encoding,
  ...more,
})

/** Column `n` of a row's code, index and text. */
const short = (rows: readonly Row[]) =>
  rows.map(({ code, element_index: index, text }) => [code, index, text])

const WRONG = 'column "n" (property "n") takes INT64, found a string'

describe.each(['native', 'js'] as const)('kernel %s', kernel => {
  const rows = (requests: Parameters<typeof rejectedRows>[0], options = {}) =>
    rejectedRows(requests, { kernel, ...options })

  test('each refused event has its place, reason and text, and accepted ones have no row', () => {
    const elements = ['{"n":1}', '{ "n" : "x" }', '{}', '7', '{"n":1.5}', '{"n":2}', '{"n":"x"}', '{"n":"x"}']
    const all = rows([{ body: ` [\n${elements.join(' ,\t')}\r\n] ` }])
    expect(short(all)).toEqual([
      ['wrong_type', 1, elements[1]],
      ['missing_value', 2, '{}'],
      ['not_object', 3, '7'],
      ['not_integral', 4, elements[4]],
      ['wrong_type', 6, elements[6]],
      ['wrong_type', 7, elements[7]],
    ])
    expect(all[0]).toMatchObject({
      id: `${FIRST_US}-7-000-001`,
      column_name: 'n',
      message: WRONG,
      content_type: 'application/json',
      is_truncated: false,
    })
    expect(all[2]).toMatchObject({
      column_name: null,
      message: 'an event is a JSON object, this is a number',
    })
    expect(short(rows([{ body: '{"n":null}' }]))).toEqual([['missing_value', 0, '{"n":null}']])
    expect(rows([{ body: '[{"n":1}]' }, { body: '[]' }, { body: '{"n":1}' }])).toEqual([])
    expect(run([{ body: '{"n":1}' }], { kernel }).rejected.size).toBe(0)
  })

  test('one bad event of a full request, and a request of bad ones alone', () => {
    const good = Array.from({ length: EVENTS_MAX }, (_, n) => `{"n":${n}}`)
    good[317] = '{"n":"bad"}'
    expect(short(rows([{ body: `[${good}]` }]))).toEqual([['wrong_type', 317, '{"n":"bad"}']])
    const bad = `[${Array<string>(EVENTS_MAX).fill('{}').join()}]`
    const result = run([{ body: bad }, { body: bad }], { kernel })
    expect(rowsOf(result).rows.length).toBe(2 * EVENTS_MAX)
    for (const { rows: count } of result.rejected.get(0)!.pieces)
      expect(count).toBeLessThanOrEqual(EVENTS_MAX)
  })

  test('of an all-or-nothing request every event has a row: its own reason, or the others', () => {
    const body = '[{"n":1},{"n":"x"},{"n":2}]'
    const flags = FLAG.keeps | FLAG.all_or_nothing
    const all = rows([{ body, flags }])
    expect(short(all)).toEqual([
      ['refused_with_others', 0, '{"n":1}'],
      ['wrong_type', 1, '{"n":"x"}'],
      ['refused_with_others', 2, '{"n":2}'],
    ])
    expect(all[0]).toMatchObject({
      column_name: null,
      message: 'another event of the request is invalid, and the request asked for all or none',
    })
    expect(rows([{ body: '[{"n":1},{"n":2}]', flags }])).toEqual([])
    const none = rows([{ body: '[{},{}]', flags }])
    expect(none.map(({ id, code }) => [requestOfId(id), code])).toEqual(
      Array(2).fill([{ request: `${FIRST_US}-7-000`, allOf: 2 }, 'missing_value']),
    )
    expect(requestOfId(rows([{ body: '{}' }])[0]!.id)).toEqual({
      request: `${FIRST_US}-7-000`,
      allOf: undefined,
    })
  })

  test('several requests of a task: only those with a refusal, each with its place and context', () => {
    const all = rows([
      { body: '{"n":1}' },
      { body: '[{"n":2},{"n":"a"}]', context: '{"$query.q":"1"}' },
      { body: '{"n":' },
      { body: '{"n":3}' },
      { body: '{"n":"b"}', flags: 0 },
      { body: '["c"]', context: '{}' },
    ])
    expect(all.map(({ id, text, context }) => [id, text, context])).toEqual([
      [`${FIRST_US}-7-001-001`, '{"n":"a"}', { '$query.q': '1' }],
      [`${FIRST_US}-7-002-request`, '{"n":', undefined],
      [`${FIRST_US}-7-005-000`, '"c"', {}],
    ])
  })

  test('an event with several errors has the first, and other groups of the task have their own', () => {
    const schema = schemaOf(
      ['n', 'm'].map(name => ({ name, jsonProperty: name, type: 'INT64' as const, required: true })),
    )
    const bad = { body: '[{"n":1,"m":2},{"m":"x","n":"y"},{"n":1}]' }
    const all = rows([bad, { body: '{' }, bad], { schema, others: 2 })
    expect(all.map(({ id, column_name: name }) => [id, name])).toEqual([
      [`${FIRST_US}-7-002-001`, 'n'],
      [`${FIRST_US}-7-002-002`, 'm'],
    ])
  })

  test('a document that is refused is one row, with its text as it came', () => {
    const invalid = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])
    const many = `[${'{"n":1},'.repeat(EVENTS_MAX)}{"n":1}]`
    const bodies = ['{"n":1', '7', '\ufeff\ufeff{}', '{"n":"\\ud800"}', '{"n":1e999}', '[{"n":1},{]', '']
    const all = rows([...bodies, invalid, many].map(body => ({ body })))
    expect(short(all)).toEqual([
      ['not_json', null, bodies[0]],
      ['not_object_or_array', null, '7'],
      ['byte_order_mark', null, '\ufeff{}'],
      ['unpaired_surrogate', null, bodies[3]],
      ['number_out_of_range', null, bodies[4]],
      ['not_json', null, bodies[5]],
      ['not_json', null, ''],
      ['invalid_utf8', null, '{"\ufffd"}'],
      ['too_many_events', null, many],
    ])
    expect(all.map(row => row.is_truncated)).toEqual([...bodies.map(() => false), true, false])
    expect(all[5]!.message).toMatch(/at byte \d+ \(event 1\)/)
  })

  test('texts of packed bodies and other formats are the JSON that was made of them', () => {
    const path = schemaOf([{ name: 'n', jsonProperty: 'n', type: 'INT64', required: true }])
    const bad = '[{"n":1},{"n":"x"}]'
    const zstd = Buffer.concat([
      Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x20, 19, 0x99, 0, 0]),
      Buffer.from(bad),
    ])
    const one = ['wrong_type', 1, '{"n":"x"}']
    expect(short(rows([{ body: gzipSync(bad), received: as('JSON', 'gzip') }]))).toEqual([one])
    expect(short(rows([{ body: zstd, received: as('JSON', 'zstd') }]))).toEqual([one])
    expect(short(rows([{ body: '{"n":1}\n\n {"n":"x"} \n', received: as('NDJSON') }]))).toEqual([one])
    expect(short(rows([{ body: bad, received: as('TEXT') }]))).toEqual([one])
    // A form's document is longer than its body, so it stands in memory of its own.
    const form = { body: 'n=x&m=%01', received: as('FORM'), context: '{"$query.a":"b"}' }
    const [row] = rows([{ body: '{"n":5}' }, form])
    expect([row!.text, row!.content_type, row!.context]).toEqual([
      '{"n":"x","m":"\\u0001"}',
      'application/json',
      { '$query.a': 'b' },
    ])
    const body = '{"data":{"items":[{"n":1},{"n":"x"}]},"more":7}'
    expect(
      short(rows([{ body, received: as('JSON') }], { schema: { ...path, eventsPath: 'data.items' } })),
    ).toEqual([one])
  })

  test('a body of which no document was made is one row with its text before it was packed', () => {
    const lines = '{"n":1}\nno json\n'
    const all = rows([
      { body: lines, received: as('NDJSON') },
      { body: gzipSync(lines), received: as('NDJSON', 'gzip') },
      { body: gzipSync(lines).subarray(0, 20), received: as('NDJSON', 'gzip') },
      { body: Buffer.from('no zstd'), received: as('JSON', 'zstd') },
      { body: 'a=1&%zz=2&b=%ff', received: as('FORM') },
    ])
    expect(all.slice(0, 4).map(({ code, text, content_type: type }) => [code, text, type])).toEqual([
      ['not_ndjson', lines, 'application/x-ndjson'],
      ['not_ndjson', lines, 'application/x-ndjson'],
      ['broken_gzip', null, 'application/x-ndjson'],
      ['broken_zstd', null, 'application/json'],
    ])
    for (const { is_truncated: isTruncated, text } of all) expect(isTruncated).toBe(text === null)
    const schema = { ...SCHEMA, eventsPath: 'items' }
    const [noEvents] = rows([{ body: '{"other":[]}', received: as('JSON') }], { schema })
    expect([noEvents!.code, noEvents!.text]).toEqual(['no_events_at_path', '{"other":[]}'])
  })

  test('a wrong signature is never kept; what is signed and wrong is', () => {
    const settings = JSON.stringify({
      scheme: 'GITHUB',
      secrets: ['secret'],
      generic: null,
      toleranceSeconds: null,
    })
    const signed = (signature: string) =>
      as('JSON', 'identity', {
        signature: {
          settings,
          head: {
            method: 'POST',
            url: 'http://x/',
            headers: { 'x-hub-signature-256': `sha256=${signature}` },
            receivedAtMs: Date.now(),
          },
        },
      })
    const body = '{"n":'
    const right = createHmac('sha256', 'secret').update(body).digest('hex')
    const all = rows([
      { body, received: signed('00') },
      { body, received: signed(right) },
      { body: `${body} `, received: signed(right) },
    ])
    expect(short(all)).toEqual([['not_json', null, body]])
  })

  test('a request that its head refused is one row with its text, whatever that is', () => {
    const refusal = { status: 415, code: 'unsupported_media_type', message: 'no' }
    const refused = { refusal, contentType: 'image/png' }
    const sent = { received: as('TEXT', 'identity', { refused }), context: '{"$path":"/x"}' }
    const schema = { ...SCHEMA, eventsPath: 'items' }
    const all = rows(
      [
        { ...sent, body: '{"n":1}' },
        { ...sent, body: Buffer.of(0xff, 0) },
      ],
      { schema },
    )
    const own = { code: refusal.code, message: 'no', content_type: 'image/png', context: { $path: '/x' } }
    expect(all).toMatchObject([
      { ...own, text: '{"n":1}', is_truncated: false },
      { ...own, text: '\ufffd\u0000', is_truncated: true },
    ])
  })

  test('a group without a grant, a replay and a DELETE have no rows', () => {
    expect(rowsOf(run([{ body: '{}' }], { kernel, grant: undefined }))).toEqual({ rows: [], leftOut: 0 })
    expect(run([{ body: '{}', flags: 0 }], { kernel }).rejected.size).toBe(0)
  })

  test('W-9: a grant of few bytes: what has no room is counted, to the event', () => {
    const requests = [
      { body: '[{"n":1},{},{},{"n":"x"}]' },
      { body: '{"n":' },
      { body: '[{},{}]' },
      { body: '[{"n":1},{}]', flags: FLAG.keeps | FLAG.all_or_nothing },
      { body: 'no gzip', received: as('JSON', 'gzip') },
    ]
    const whole = rowsOf(run(requests, { kernel })).rows
    expect(whole.length).toBe(9)
    const bytes = whole.map(row => Buffer.byteLength(JSON.stringify(row)) + 1)
    for (let kept = 0; kept <= whole.length; kept += 1) {
      const sum = bytes.slice(0, kept).reduce((all, one) => all + one, 0)
      for (const bytesMax of [sum, sum + 50]) {
        const grant = { ...GRANT, bytesMax }
        const { rows: some, leftOut } = rowsOf(run(requests, { kernel, grant }))
        expect([some, leftOut]).toEqual([whole.slice(0, kept), whole.length - kept])
      }
    }
  })
})

test('random requests: as many rows as refusals, each with the bytes of its event', () => {
  const seed = newSeed()
  for (let round = 0; round < 300; round += 1) {
    const random = new Random(seed + round)
    const maker = new JsonMaker(random, 60)
    const schema = { ...makePoolSchema(random), ...(random.once(2) ? { key: null } : {}) }
    const requests = Array.from({ length: 1 + random.below(6) }, () => ({
      body: maker.body(),
      flags: FLAG.keeps | (random.once(4) ? FLAG.all_or_nothing : 0),
    }))
    const grant = { ...GRANT, bytesMax: 64 * 1024 * 1024 }
    const results = (['native', 'js'] as const).map(kernel => run(requests, { kernel, schema, grant }))
    const [native, js] = results.map(result => rowsOf(result))
    const where = `seed ${seed + round}`
    expect(native, where).toEqual(js)
    const { outcomes, errors } = results[0]!
    let refused = 0
    for (let at = 0; at < outcomes.length; at += OUTCOME_WORDS)
      refused +=
        outcomes[at + OUTCOME.document] === 0
          ? outcomes[at + OUTCOME.events]! - outcomes[at + OUTCOME.accepted]!
          : 1
    expect(native!.rows.length, where).toBe(refused)
    expect(new Set(native!.rows.map(({ id }) => id)).size, where).toBe(refused)
    expect(errors.length % ERROR_WORDS).toBe(0)
    for (const row of native!.rows) {
      const body = Buffer.from(requests[Number(row.id.split('-')[2])]!.body)
        .toString()
        .replace(/^\ufeff/, '')
      if (row.is_truncated) continue
      if (row.element_index === null) expect(row.text, where).toBe(body)
      else {
        const value = JSON.parse(body) as unknown
        const event = Array.isArray(value) ? (value as unknown[])[row.element_index] : value
        expect(body.includes(row.text!), where).toBe(true)
        expect(JSON.parse(row.text!), where).toEqual(event)
      }
    }
  }
})
