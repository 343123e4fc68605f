/**
 * The page /metrics: a strict reader of the Prometheus text format accepts it, and its values are
 * right after known requests.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { startServer, type TestServer } from '../util/server.ts'
import { column, portOf, post } from './client.ts'

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

interface Family {
  readonly type: string
  /** The values by sample name with labels, as written. */
  readonly samples: Map<string, number>
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const SAMPLE =
  /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/
const NUMBER = /^([+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN)$/
const ENDINGS: Readonly<Record<string, RegExp>> = { histogram: /_(bucket|sum|count)$/ }

/** Reads the text format 0.0.4 strictly: HELP, TYPE, then all samples of one family. */
function parseMetrics(text: string): Map<string, Family> {
  expect(text.endsWith('\n')).toBe(true)
  const families = new Map<string, Family>()
  let last = ''
  for (const line of text.split('\n')) {
    if (line === '') continue
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line)
    if (comment !== null) {
      const [, what, name, rest] = comment as unknown as [string, string, string, string]
      expect([line, NAME.test(name)]).toEqual([line, true])
      if (what === 'HELP') {
        expect([line, families.has(name)]).toEqual([line, false]) // a family comes once
        families.set(name, { type: '', samples: new Map() })
      } else {
        expect([line, families.get(name)?.type]).toEqual([line, ''])
        expect(['counter', 'gauge', 'histogram']).toContain(rest)
        families.set(name, { type: rest, samples: new Map() })
      }
      last = name
      continue
    }
    const sample = SAMPLE.exec(line)
    expect([line, sample !== null]).toEqual([line, true])
    const [, name, labels = '', value] = sample as unknown as [string, string, string, string]
    const family = families.get(last)
    const ending = ENDINGS[family?.type ?? '']
    expect([line, ending === undefined ? name : name.replace(ending, '')]).toEqual([line, last])
    expect([line, NUMBER.test(value)]).toEqual([line, true])
    const key = labels === '' ? name : `${name}{${labels}}`
    expect([line, family?.samples.has(key)]).toEqual([line, false]) // no line twice
    family?.samples.set(key, Number(value.replace('Inf', 'Infinity')))
  }
  for (const [name, { type, samples }] of families) checkValues(name, type, samples)
  return families
}

/** Counters are not negative. Buckets rise, and the last one equals the count. */
function checkValues(name: string, type: string, samples: ReadonlyMap<string, number>): void {
  if (type === 'counter') {
    expect(name).toMatch(/_total$/)
    for (const [key, value] of samples) expect([key, value >= 0]).toEqual([key, true])
  }
  if (type !== 'histogram') return
  const buckets = [...samples].filter(([key]) => key.startsWith(`${name}_bucket{le="`))
  const limits = buckets.map(([key]) => Number(/le="(.*)"/.exec(key)?.[1]?.replace('+Inf', 'Infinity')))
  expect([name, limits]).toEqual([name, [...new Set(limits)].sort((a, b) => a - b)])
  expect([name, limits.at(-1)]).toEqual([name, Number.POSITIVE_INFINITY])
  const values = buckets.map(([, value]) => value)
  expect([name, values]).toEqual([name, [...values].sort((a, b) => a - b)])
  expect([name, samples.get(`${name}_count`)]).toEqual([name, values.at(-1)])
  expect(samples.has(`${name}_sum`)).toBe(true)
}

async function read(): Promise<(key: string) => number | undefined> {
  const answer = await ask(portOf(server), '/metrics', { method: 'GET' })
  expect([answer.status, answer.headers['content-type']]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ])
  expect(answer.text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  const families = parseMetrics(answer.text)
  return key => families.get(key.replace(/\{.*/, '').replace(/_(bucket|sum|count)$/, ''))?.samples.get(key)
}

/** Names, and how their labels show them where that is another text. */
const pools = ['plain', 'quote"d', 'back\\slash', 'line\nbreak', 'a\nrejected\nx', 'größe 𝄞']
const controls = new Map([
  ['\u001b[31mred\u001b]0;title\u0007', '\\u001b[31mred\\u001b]0;title\\u0007'],
  ['\u0001\u007f\u009b2J\r', '\\u0001\\u007f\\u009b2J\\u000d'],
  ['\u2028\u2029 \u202eeman\u2066', '\\u2028\\u2029 \\u202eeman\\u2066'],
])
pools.push(...controls.keys())
const escaped = (name: string) =>
  (controls.get(name) ?? name).replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')

test('counters, by a sequence of requests that is known', async () => {
  const before = await read()
  const columns = [column('id', 'STRING'), column('n', 'INT64', true)]
  for (const uniqueName of pools) {
    const pool = await server.createPool({ uniqueName, columns, uniqueId: 'id' })
    const bodies = ['[{"id":"a"},{"id":"b"},{"id":"c","n":"x"},3]', '{"n":1}', '{', '{"id":"d"}'] as const
    const statuses = []
    for (const body of bodies) statuses.push((await post(server, pool, body)).status)
    expect(statuses).toEqual([200, 400, 400, 200])
  }
  await ask(portOf(server), '/v1/nobody', { body: '{}' })
  const after = await read()
  for (const name of pools)
    for (const [rest, count] of [
      ['result="accepted",code="ok"', 3],
      ['result="rejected",code="wrong_type"', 1],
      ['result="rejected",code="not_object"', 1],
      ['result="rejected",code="missing_value"', 1],
    ] as const)
      expect([name, rest, after(`weir_events_total{pool="${escaped(name)}",${rest}}`)]).toEqual([
        name,
        rest,
        count,
      ])
  const grew = (key: string) => (after(key) ?? 0) - (before(key) ?? 0)
  expect(grew('weir_requests_total{status="400"}')).toBe(2 * pools.length)
  expect(grew('weir_requests_total{status="404"}')).toBe(1)
  // Two posts and a creation for each pool, a token, and the first request of this page.
  expect(grew('weir_requests_total{status="200"}')).toBe(3 * pools.length + 2)
  expect(grew('weir_refused_requests_total{code="not_json"}')).toBe(pools.length)
  expect(grew('weir_received_bytes_total')).toBe(pools.length * (44 + 7 + 1 + 10))
  expect(after('weir_log_sync_seconds_count')).toBeGreaterThan(0)
})

test('the memtable grows with what is accepted, and a reader flushes it: gauges, histograms, queues beside their limits', async () => {
  const columns = [column('id', 'STRING')]
  const pool = await server.createPool({ columns, uniqueId: 'id' })
  const before = await read()
  const sent = Array.from({ length: 50 }, (_, i) => ({ id: `e${i}` }))
  expect((await post(server, pool, sent)).status).toBe(200)
  const filled = await read()
  expect(filled('weir_memtable_rows')! - before('weir_memtable_rows')!).toBe(50)
  expect(filled('weir_pools_unflushed')! - before('weir_pools_unflushed')!).toBe(1)
  expect(filled('weir_queue_depth{queue="memtable_bytes"}')).toBeGreaterThan(0)
  expect(await server.count(pool.poolId)).toBe('50')
  const flushed = await read()
  expect(flushed('weir_memtable_rows')).toBe(before('weir_memtable_rows'))
  expect(flushed('weir_flushed_rows_total')! - filled('weir_flushed_rows_total')!).toBe(50)
  for (const name of [
    'weir_flush_seconds_count',
    'weir_ack_to_visible_seconds_count',
    'weir_query_seconds_count',
  ])
    expect([name, flushed(name)! - filled(name)!]).toEqual([name, 1])
  // A memtable that nobody reads is flushed by age, and the histogram counts that.
  expect(flushed('weir_ack_to_visible_seconds_bucket{le="90"}')).toBe(
    flushed('weir_ack_to_visible_seconds_count'),
  )
  const queues =
    'parse_tasks batches slabs waiting_requests waiting_bytes log_bytes memtable_bytes recent_flush_bytes flushes'
  for (const queue of [...queues.split(' '), 'queries_running', 'queries_waiting']) {
    const depth = flushed(`weir_queue_depth{queue="${queue}"}`)
    const limit = flushed(`weir_queue_limit{queue="${queue}"}`)
    expect([queue, depth! >= 0, limit! > 0, depth! <= limit!]).toEqual([queue, true, true, true])
  }
  for (const quantile of ['0.5', '0.99', '1'])
    expect(flushed(`weir_event_loop_delay_seconds{quantile="${quantile}"}`)).toBeGreaterThanOrEqual(0)
  expect(flushed('weir_log_open')).toBe(1)
})
