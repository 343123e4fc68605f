/**
 * Work on texts is counted on rows that the reader sees: whatever a policy hides, each question is
 * answered or refused as it is without the hidden texts. Else a reader whose questions differ in
 * their cost reads the length of a hidden text from what is refused.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import { SqlPools } from './pools.ts'

const pools = new SqlPools()
const HIDDEN_BYTES = 8_611
const times = (count: number, write: (index: number) => string, between = ', ') =>
  Array.from({ length: count }, (_, index) => write(index + 1)).join(between)

/** Writes customers. `columns` names the payload, the country and texts of row `i`. */
async function write(rows: number, columns: string): Promise<void> {
  const segment = await pools.pool.write(`SELECT make_timestamp(i) AS _service_received_at, ${columns},
    i::INTEGER AS id, 1::FLOAT AS score, 0::BIGINT AS _service_sequence FROM range(${rows}) t(i)`)
  pools.replaceSegments('customers', [segment])
}

/** Customers, of which those of FR have texts of `hidden` and the others of `visible` bytes. */
async function fill(hidden: number, visible = 10): Promise<void> {
  const long = (text: string) => `repeat('${text}', CASE WHEN i % 2 = 1 THEN ${hidden} ELSE ${visible} END)`
  await write(
    20,
    `'{"a":"' || ${long('p')} || '"}' AS _service_payload, ${long('n')} AS name,
    CASE WHEN i % 2 = 1 THEN 'FR' ELSE 'DE' END AS country, repeat('s', ${hidden}) AS secret`,
  )
}

/** Customers with one long text in 500. */
async function fillThinly(isVisible: string): Promise<void> {
  await write(
    20_000,
    `'{}' AS _service_payload, CASE WHEN i % 500 = 7 THEN repeat('z', 50000) ELSE 'short ' || i END AS name,
    CASE WHEN ${isVisible} THEN 'DE' ELSE 'FR' END AS country, '' AS secret`,
  )
}

const german = (filterSql: string | null, columns: readonly string[] = ['*']): RowPolicy => ({
  columns,
  rows: [],
  filterSql,
  values: {},
})
const GERMAN = german("country = 'DE'")
/** Its condition is work on texts itself. */
const SEARCHING = german("contains(lower(country), 'd')")
/** It hides columns alone. */
const COLUMNS = german(null, ['id', 'country', 'name'])

beforeAll(async () => {
  await pools.open()
  await pools.replaceOrders(100)
})
afterAll(() => pools.pool.close())

async function isRefused(text: string, policy: RowPolicy): Promise<boolean> {
  const answer = await pools.ask(text, { policies: { customers: policy } })
  if (!('badRequest' in answer)) return false
  expect(answer.badRequest).toMatch(/long texts/)
  return true
}

/** A question that is refused where a text of `bytes` is counted, and mostly not of one less. */
function costly(bytes: number): string {
  const nanoseconds = 2e9 / 2048 / bytes
  const searches = Math.ceil(nanoseconds / 14)
  const needles = Math.ceil((nanoseconds - 5 * searches) * 100)
  const search = (index: number) =>
    `contains(a.name, '${'x'.repeat(Math.floor((needles + index - 1) / searches))}')`
  return `SELECT COUNT(*) FROM orders b JOIN customers a ON b.id = a.id WHERE ${times(searches, search, ' OR ')}`
}

test('14 questions do not read the length of a hidden text', async () => {
  await fill(HIDDEN_BYTES)
  let [low, high, refused] = [4_096, 16_384, 0]
  for (let question = 0; question < 14; question++) {
    const middle = Math.round((low + high) / 2)
    if (await isRefused(costly(middle), GERMAN)) {
      low = middle
      refused += 1
    } else high = middle
  }
  expect({ refused, low }).toEqual({ refused: 0, low: 4_096 })
})

/** Each is refused where texts of a megabyte count. */
const QUESTIONS: Readonly<Record<string, string>> = {
  'searches for texts': `SELECT COUNT(*) FROM customers WHERE ${times(330, i => `contains(name, 'aa${i}b')`, ' OR ')}`,
  'values of each row': `SELECT ${times(100, i => `length(upper(substr(name, ${i})))`)} FROM customers`,
  'keys of groups': `SELECT COUNT(*) FROM customers GROUP BY ${times(60, i => `upper(substr(name, ${i}))`)}`,
  'joined rows': 'SELECT MAX(length(upper(a.name))) FROM orders b JOIN customers a ON b.id >= a.id',
  'a scalar in each row': 'SELECT MAX(length((SELECT MAX(name) FROM customers) || plan)) FROM orders',
  'a name of a column': `SELECT ${times(100, i => `length(upper(substr(secret, ${i})))`)} FROM (SELECT country AS secret FROM customers) t`,
  'the same of joined rows':
    'SELECT MAX(length(upper(t.secret))) FROM orders b JOIN (SELECT country AS secret, id FROM customers) t ON b.id >= t.id',
  'a name of the policy': `SELECT ${times(100, i => `length(upper(substr(c.country, ${i})))`)} FROM (SELECT name AS country FROM customers) c`,
}

describe.each(Object.entries({ GERMAN, SEARCHING }))('a policy on rows: %s', (_, policy) => {
  test.each(Object.entries(QUESTIONS))('%s: answered as without the hidden texts', async (_name, text) => {
    await fill(1_000_000)
    expect(await isRefused(text, { ...policy, columns: ['id', 'country', 'name'] })).toBe(false)
  })

  test('long texts that it shows are counted', async () => {
    await fill(10, 1_000_000)
    for (const name of ['searches for texts', 'values of each row', 'keys of groups', 'joined rows'])
      expect(await isRefused(QUESTIONS[name]!, policy)).toBe(true)
  })
})

test('long texts that a policy leaves of many chunks are counted as one chunk, and only these', async () => {
  // DuckDB puts chunks together of which a filter leaves a few rows.
  await fillThinly('i % 50 = 7')
  expect(await isRefused(QUESTIONS['searches for texts']!, GERMAN)).toBe(true)
  await fillThinly('i % 50 <> 8')
  expect(await isRefused(QUESTIONS['searches for texts']!, GERMAN)).toBe(false)
})

test('a policy on columns: a name of the question counts no hidden column', async () => {
  await fill(1_000_000, 1_000_000)
  const ofOrders =
    "SELECT MAX(length(b._service_payload ->> 'a')) FROM orders b JOIN customers a ON b.id = a.id"
  for (const text of [ofOrders, QUESTIONS['a name of a column']!, QUESTIONS['the same of joined rows']!])
    expect(await isRefused(text, COLUMNS)).toBe(false)
  expect(await isRefused(QUESTIONS['joined rows']!, COLUMNS)).toBe(true)
})
