/** The unique id and the timestamp that samples give, and why. */
import { describe, expect, test } from 'vitest'
import type { Sample } from '../../../src/parse/infer/samples.ts'
import { propose } from './propose.ts'

/** `uniqueId timestamp orderBy` of the proposal; `–` where there is none. */
function keysOf(...samples: readonly (Sample | string)[]): string {
  const { uniqueId, timestamp, orderBy } = propose(...samples)
  return [uniqueId.column, timestamp.column, orderBy?.join('+')].map(name => name ?? '–').join(' ')
}

const CASES: readonly [samples: readonly string[], want: string][] = [
  [['{"id":"a","created":1700000000}', '{"id":"b","created":1700000001}'], 'id created –'],
  [['{"id":"a"}'], 'id – id'],
  [['{"id":1}', '{"id":2}'], 'id – id'],
  [['{"id":"a"}', '{}'], '– – –'],
  [['{"id":"a"}', '{"id":null}'], '– – –'],
  [['{"id":"a"}', '{"id":""}'], '– – –'],
  [['{"id":1}', '{"id":"2"}'], '– – –'],
  [['{"id":1.5}', '{"id":2.5}'], '– – –'],
  [['{"id":18446744073709551617}', '{"id":18446744073709551618}'], '– – –'],
  [['{"id":{"x":1}}'], '– – –'],
  // The same event sent again is one event. Another event with the same id shows what the id names.
  [['{"id":"a","n":1}', '{"id":"a","n":1}'], 'id – id'],
  [['{"id":"a","n":1}', '{"id":"a","n":2}'], '– – –'],
  // An event's id goes before an object's.
  [['{"id":"a","event_id":"b"}'], 'event_id – event_id'],
  [['{"messageId":"a","userId":"b","timestamp":"2015-12-10T04:08:31.905Z"}'], 'messageId timestamp –'],
  [['{"order_id":"a"}', '{"order_id":"b"}'], '– – –'],
  [['{"data":{"id":"a"}}', '{"data":{"id":"b"}}'], '– – –'],
  [['{"event":{"id":"a","occurred_at":"2020-10-02T18:45:22.169Z"}}'], 'event_id event_occurred_at –'],
  [['{"MessageSid":"SM1","AccountSid":"AC1"}'], 'MessageSid – MessageSid'],
  // The time of the event goes before times at which something else happens.
  [['{"id":"a","updated_at":"2024-01-01","created_at":"2024-01-01"}'], 'id created_at –'],
  [['{"id":"a","sent_at":"2024-01-01T00:00:00Z"}'], 'id – id'],
  [['{"id":"a","expires":1700000000}'], 'id – id'],
  [['{"id":"a","start":"2024-01-01"}'], 'id – id'],
  [['{"id":"a","timestamp":"2024-01-01T00:00:00Z","occurred_at":"2024-01-01"}'], 'id occurred_at –'],
  [['{"id":"a","created":1700000000}', '{"id":"b"}'], 'id – id'],
  [['{"id":"a","created":"2024-01-01"}', '{"id":"b","created":""}'], 'id – id'],
  [['{"created":1700000000}'], '– created –'],
  [['{"items":[{"event_id":"a","created":1700000000}]}'], '– – –'],
]

describe('from bodies', () => {
  test.each(CASES)('%j', (samples, want) => {
    expect(keysOf(...samples)).toBe(want)
  })

  test('the columns of the key are required, and no others of few samples', () => {
    const { columns } = propose('{"id":"a","created":1700000000,"n":1}')
    expect(columns.map(({ name, nullable }) => [name, nullable])).toEqual([
      ['id', false],
      ['created', false],
      ['n', true],
    ])
  })

  test('an id that events share is named in the reason', () => {
    const { uniqueId } = propose('{"id":"A\\u00e9","n":1}', '{"id":"Aé","n":2}')
    expect(uniqueId.reason).toBe(
      '"id" has the value "Aé" in events that differ. As unique id it would keep the last one of them.',
    )
  })

  test('one sample cannot show that an id is unique', () => {
    expect(propose('{"id":"a"}').uniqueId.reason).toMatch(/One event cannot show/)
    expect(propose('{"id":"a"}', '{"id":"b"}').uniqueId.reason).toMatch(
      /another value in each of 2 different events/,
    )
  })
})

describe('from headers', () => {
  const sample = (headers: Record<string, string>, body = '{"action":"opened"}') => ({ body, headers })

  test.each([
    [{ 'X-GitHub-Delivery': 'a', 'X-GitHub-Event': 'push' }, 'github-delivery'],
    [{ 'webhook-id': 'msg_1', 'webhook-timestamp': '1674087231' }, 'webhook-id'],
    [{ 'x-acme-delivery-id': '7' }, 'acme-delivery-id'],
    [{ 'x-request-id': 'a' }, null],
    [{ 'x-acme-topic': 'a' }, null],
  ])('%j', (headers, want) => {
    const name = want?.replaceAll('-', '_') ?? null
    expect(propose(sample(headers)).uniqueId.column).toBe(name)
  })

  test('a delivery header goes before an id of the body, a guess at one does not', () => {
    expect(keysOf(sample({ 'webhook-id': 'm' }, '{"id":"a"}'))).toBe('webhook_id – webhook_id')
    expect(keysOf(sample({ 'x-acme-delivery': 'm' }, '{"event_id":"a"}'))).toBe('event_id – event_id')
  })

  test('only some requests have the header', () => {
    expect(keysOf(sample({ 'webhook-id': 'm' }), '{"action":"closed"}')).toBe('– – –')
  })

  test('the events of an array share their headers, so a header names none of them', () => {
    expect(keysOf(sample({ 'webhook-id': 'm' }, '[{"a":1},{"a":2}]'))).toBe('– – –')
    expect(keysOf(sample({ 'webhook-id': 'm' }, '[{"a":1}]'))).toBe('– – –')
    expect(keysOf(sample({ 'webhook-id': 'm' }, '[{"id":1},{"id":2}]'))).toBe('id – id')
  })

  test('the same event by two deliveries is two records, and one delivery of two events is none', () => {
    expect(keysOf(sample({ 'webhook-id': 'a' }), sample({ 'webhook-id': 'b' }))).toBe(
      'webhook_id – webhook_id',
    )
    expect(keysOf(sample({ 'webhook-id': 'a' }), sample({ 'webhook-id': 'a' }, '{"action":"closed"}'))).toBe(
      '– – –',
    )
  })

  test('secrets, signatures and headers of connections become no columns', () => {
    const { columns } = propose(
      sample({
        authorization: 'Bearer x',
        cookie: 'a=b',
        'content-type': 'application/json',
        'user-agent': 'acme',
        'x-hub-signature-256': 'sha256=00',
        'x-gitlab-token': 'secret',
        'stripe-signature': 't=1,v1=0',
        'x-forwarded-for': '10.0.0.1',
        'x-amzn-trace-id': 'Root=1',
        'cf-ray': 'x',
        'x-request-id': 'x',
        'x-gitlab-event': 'Push Hook',
        'bad header': 'x',
        __proto__: 'x',
      }),
    )
    expect(columns.map(({ jsonProperty }) => jsonProperty)).toEqual(['$header.x-gitlab-event', 'action'])
  })

  test('a header is text, and its time is a time', () => {
    const { columns } = propose(
      sample({ 'X-Shopify-Triggered-At': '2023-03-29T18:00:27.877041743Z', 'X-GitHub-Hook-Id': '292430182' }),
    )
    expect(columns.map(({ name, type, coerce }) => [name, type, coerce])).toEqual([
      ['shopify_triggered_at', 'TIMESTAMP', false],
      ['github_hook_id', 'STRING', false],
      ['action', 'STRING', false],
    ])
  })
})
