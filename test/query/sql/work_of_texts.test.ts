/**
 * Work on texts is bounded before a statement starts: DuckDB hears no interrupt within a chunk, and
 * keeps the texts that it makes of a chunk outside of its memory limit.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SqlPools } from './pools.ts'

const pools = new SqlPools()
const MiB = 1024

/** `customers` has texts of `text`, where `i` is the row. */
async function fill(rows: number, text: string): Promise<void> {
  const segment = await pools.pool.write(`SELECT make_timestamp(i) AS _service_received_at,
    '{"a":"' || ${text} || '"}' AS _service_payload, i::INTEGER AS id, ${text} AS name, 'DE' AS country,
    ${text} AS secret, 1::FLOAT AS score, 0::BIGINT AS _service_sequence FROM range(${rows}) t(i)`)
  pools.replaceSegments('customers', [segment])
}

beforeAll(async () => {
  await pools.open()
  await pools.replaceOrders(5_000)
})
afterAll(() => pools.pool.close())

const times = (count: number, write: (index: number) => string, between = ', ') =>
  Array.from({ length: count }, (_, index) => write(index + 1)).join(between)
/** `from` in the form `SELECT … FROM …` of counted operations. */
const searches = (count: number, write: (index: number) => string) =>
  `SELECT COUNT(*) FROM customers WHERE ${times(count, write, ' OR ')}`

const HEAVY: Readonly<Record<string, string>> = {
  'searches for texts': searches(330, i => `contains(name, 'aaaaaaa${i}b')`),
  'patterns of LIKE': searches(300, i => `name LIKE '%aaaaaaa${i}b%'`),
  'long texts to search for': searches(10, i => `contains(name, '${'a'.repeat(990)}${i}b')`),
  'a regular expression with many choices': searches(1, () => `regexp_matches(name, '(a|b)*a(a|b){9}c')`),
  'simple regular expressions': searches(7, i => `regexp_matches(name, 'b[ab]${i}')`),
  'replaced texts': "SELECT MAX(length(replace(name, 'a', 'bbbb'))) FROM customers",
  'replaced matches': "SELECT MAX(length(regexp_replace(name, '[a-c]', '<\\0>', 'g'))) FROM customers",
  'matches and parts': `SELECT ${times(4, i => `MAX(length(regexp_extract(name, 'a+b?${i}') || split_part(name, 'b', ${i})))`)} FROM customers`,
  'texts of texts': `SELECT ${times(100, i => `MAX(length(upper(substr(name, ${i}))))`)} FROM customers`,
  'values of each row': `SELECT ${times(100, i => `length(upper(substr(name, ${i})))`)} FROM customers`,
  'nested CASE': `SELECT ${times(60, i => `CASE WHEN length(upper(substr(name, ${i}))) > 3 THEN CASE WHEN length(lower(name)) > 3 THEN 1 ELSE 2 END ELSE 0 END`)} FROM customers`,
  'keys of groups': `SELECT COUNT(*) FROM customers GROUP BY ${times(60, i => `upper(substr(name, ${i}))`)}`,
  'keys of an order': `SELECT id FROM customers ORDER BY ${times(60, i => `upper(substr(name, ${i}))`)} LIMIT 1`,
  'filters of aggregates': `SELECT ${times(60, i => `COUNT(*) FILTER (WHERE upper(substr(name, ${i})) = 'A')`)} FROM customers`,
  'texts joined in subqueries': `SELECT ${times(8, i => `length(upper(substr(d, ${i})))`)} FROM (SELECT c || c AS d FROM (SELECT name || name AS c FROM customers) y) z`,
  'the greatest of texts': `SELECT ${times(60, i => `length(greatest(substr(name, ${i}), secret))`)} FROM customers`,
  'parts of documents': `SELECT ${times(300, i => `length(_service_payload ->> 'a${i}')`)} FROM customers`,
  'different texts': `SELECT ${times(60, i => `COUNT(DISTINCT substr(name, ${i}))`)} FROM customers`,
  'times in texts': `SELECT ${times(60, i => `MAX(CAST(substr(name, ${i}) AS TIMESTAMP))`)} FROM customers`,
  'a subquery that sorts': `SELECT id FROM (SELECT id, name AS n FROM customers ORDER BY name LIMIT 1000) t WHERE ${times(150, i => `contains(n, 'aaaaaaa${i}b')`, ' OR ')}`,
  'one text in each joined row': 'SELECT a.name FROM orders b CROSS JOIN customers a LIMIT 2048',
  'texts made of joined rows':
    'SELECT MAX(length(upper(a.name))) FROM orders b JOIN customers a ON b.id >= a.id',
  'a join by texts': 'SELECT COUNT(*) FROM orders b JOIN customers a ON b.plan || a.name = a.name || b.plan',
  'a scalar in each row': 'SELECT MAX(length((SELECT MAX(name) FROM customers) || plan)) FROM orders',
}

/** Peak of the query processes of this test, in KiB. */
function peakKib(): number {
  const statuses = readdirSync('/proc').flatMap(pid => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/status`, 'utf8')] : []
    } catch {
      return []
    }
  })
  const own = statuses.filter(
    status => status.startsWith('Name:\tweir-query\n') && status.includes(`\nPPid:\t${process.pid}\n`),
  )
  return Math.max(...own.map(status => Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1])))
}

describe('over 20 records of a megabyte', () => {
  beforeAll(() => fill(20, "repeat('a', 1000000)"))

  test.each(Object.entries(HEAVY))('%s: refused before it starts', async (_, text) => {
    expect(await pools.ask(text)).toMatchObject({
      badRequest: expect.stringMatching(
        /^the query (makes too many long texts|compares or reads long texts too often): /,
      ),
    })
  })

  test('all of that takes no memory', () => {
    expect(peakKib()).toBeLessThan(300 * MiB)
  })

  test.each([
    searches(5, i => `name LIKE '%zz${i}%'`),
    "SELECT COUNT(*) FROM customers WHERE lower(name) = 'b'",
    'SELECT MAX(length(name)), COUNT(DISTINCT name) - 1 FROM customers WHERE id < 0 OR name IS NULL',
    "SELECT COUNT(*) FROM orders b JOIN customers a ON b.id = a.id AND a.country = 'FR'",
  ])('%s: answered', async text => {
    const [[value] = []] = JSON.parse(await pools.rows(text)) as (string | null)[][]
    expect([null, '0']).toContain(value)
  })
})

test('a few long records among many short ones are no reason to refuse', async () => {
  await fill(100_000, "CASE WHEN i % 50000 = 7 THEN repeat('a', 1000000) ELSE 'short ' || i END")
  expect(await pools.rows(searches(60, i => `name LIKE '%aaa${i}%'`))).toBe('[["0"]]')
})

test('short values and nulls that are compared with joined texts are no reason to refuse', async () => {
  await fill(20_000, "CASE WHEN i = 7 THEN repeat('a', 1000000) ELSE 'short ' || i END")
  const conditions = times(
    50,
    i => `a.name = 'b${i}' OR starts_with(a.name, 'c${i}') OR a.name LIKE 'd${i}%' OR a.name IS NULL`,
    ' OR ',
  )
  const joined = 'SELECT COUNT(*) FROM orders b JOIN customers a ON b.id = a.id WHERE'
  expect(await pools.rows(`${joined} ${conditions}`)).toBe('[["0"]]')
  // A long value may be equal to the long texts to its end.
  const long = times(10, i => `a.name = '${'a'.repeat(1_100 + i)}'`, ' OR ')
  expect(await pools.ask(`${joined} ${long}`)).toMatchObject({ badRequest: expect.stringContaining('texts') })
})

test('a condition of a policy is counted on rows as they are scanned, also where tables are joined', async () => {
  await fill(20_000, "CASE WHEN i = 7 THEN repeat('a', 1000000) ELSE 'short ' || i END")
  const policy = {
    columns: ['*'],
    rows: [],
    filterSql: `${times(20, i => `contains(name, '${i}5 aa')`, ' OR ')} OR name = 'short 9'`,
    values: {},
  }
  const joined = 'SELECT COUNT(*) FROM orders b JOIN customers a ON b.id = a.id'
  expect(await pools.rows(joined, { policies: { customers: policy } })).toBe('[["1"]]')
})

test('long records that a filter brings together are counted as one chunk', async () => {
  await fill(100_000, "CASE WHEN i % 2000 = 7 THEN repeat('a', 500000) ELSE 'short ' || i END")
  const together = times(40, i => `MAX(length(upper(substr(name, ${i}))))`)
  expect(await pools.ask(`SELECT ${together} FROM customers WHERE length(name) > 1000`)).toMatchObject({
    badRequest: expect.stringContaining('texts'),
  })
})

test('330 patterns over events of 450 bytes are answered', async () => {
  await fill(30_000, 'repeat(md5(i::VARCHAR), 14)')
  expect(await pools.rows(searches(330, i => `name LIKE '%z${i}z%'`))).toBe('[["0"]]')
})

test('one pattern over events of 100 kB is answered', async () => {
  await fill(300, 'repeat(md5(i::VARCHAR), 3000)')
  expect(await pools.rows("SELECT COUNT(*) FROM customers WHERE name LIKE '%zzz%'")).toBe('[["0"]]')
})
