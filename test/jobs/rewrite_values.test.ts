/**
 * What the columns hold after an update: the borders of each type, and values that no column holds.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { at, column, NEVER, post } from '../path/compaction.ts'
import {
  type PoolSpec,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { createJob, EVERY_TYPE, ended, eventOf, postOne, rowsOf, runJob, valueAfter } from './rewrite-jobs.ts'

let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer({ env: NEVER })
  pool = await server.createPool(EVERY_TYPE)
  await postOne(pool, 'e1', {
    string: 'inf',
    double: 1.7e308,
    float: 3e38,
    time: '9999-12-31T23:59:59.999999Z',
    date: '9999-12-31',
    int64: 5,
    json: { a: [1, null, 'x'], n: null, big: 1 },
  })
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const set = (name: string, expression: string) => valueAfter(server, pool, name, expression)

describe('the borders of a type', () => {
  test.each([
    ['int8', '127', '127'],
    ['int8', '-128', '-128'],
    ['int8', "'1e2'", '100'],
    ['int8', '127 + int8 * 0', null],
    ['int16', '32767', '32767'],
    ['int16', '-32768', '-32768'],
    ['int32', '2147483647', '2147483647'],
    ['int32', '-2147483648', '-2147483648'],
    ['int64', '9223372036854775807', '9223372036854775807'],
    ['int64', '-9223372036854775808', '-9223372036854775808'],
    ['int64', "'-9223372036854775808'", '-9223372036854775808'],
    ['int64', '-(int64)', null],
    ['float', '1e38', '1e+38'],
    ['float', '0.1', '0.1'],
    ['double', '1.7976931348623157e308', '1.7976931348623157e+308'],
    ['double', '5e-324', '5e-324'],
    ['boolean', '1', 'true'],
    ['boolean', "'false'", 'false'],
    ['date', "'0001-01-01'", '0001-01-01'],
    ['date', "'9999-12-31'", '9999-12-31'],
    ['time', "'2024-01-01 12:00:00.5+05:45'", '2024-01-01T06:15:00.500Z'],
    ['time', "'0001-01-01'", '0001-01-01T00:00:00.000Z'],
    ['time', "'9999-12-31T23:59:59.999999Z'", '9999-12-31T23:59:59.999999Z'],
    ['time', '1700000000', '2023-11-14T22:13:20.000Z'],
    ['json', '\' {"b" : [1, 1.0] } \'', '{"b" : [1, 1.0] }'],
    ['json', 'NULL', null],
    ['string', "''", ''],
    ['string', '5', '5'],
    ['string', "'€ 𝄞'", '€ 𝄞'],
  ])('%s = %s', async (name, expression, value) => {
    if (expression.startsWith('127 +')) await set('int8', 'NULL')
    expect(await set(name, expression)).toBe(value)
  })
})

describe('a value that the column cannot hold is null', () => {
  const isNull = async (name: string, expression: string, before: string) => {
    await set(name, before)
    expect(await set(name, expression)).toBeNull()
    const filter = `SELECT COUNT(*) FROM pool WHERE "${name}" IS NULL`
    expect(await rowsOf(server, pool, filter), expression).toEqual([['1']])
  }
  test.each([
    ['int8', 'int8 + 1', '127'],
    ['int8', 'int8 - 1', '-128'],
    ['int16', 'int16 + 1', '32767'],
    ['int32', 'int32 * int32', '2147483647'],
    ['int64', 'int64 + 1', '9223372036854775807'],
    ['int64', 'int64 - 1', '-9223372036854775808'],
    ['int64', '-int64', '-9223372036854775808'],
    ['int64', 'abs(int64)', '-9223372036854775808'],
    ['int8', 'int8 % 0', '1'],
    ['int8', 'CAST(string AS TINYINT)', '1'],
    ['float', 'float * 10', '3e38'],
    ['float', 'float / 0', '1'],
    ['double', 'double * 10', '1.7e308'],
    ['double', 'double * 10 - double * 10', '1.7e308'],
    ['double', "CAST('inf' || '' AS DOUBLE)", '1'],
    ['double', "CAST('-infinity' || '' AS DOUBLE)", '1'],
    ['double', "CAST('nan' || '' AS DOUBLE)", '1'],
    ['float', "CAST('nan' || '' AS FLOAT)", '1'],
    ['time', 'time + INTERVAL 1 DAY', "'9999-12-31'"],
    ['time', 'time - INTERVAL 1 DAY', "'0001-01-01'"],
    ['time', "CAST('200000-01-01' || '' AS TIMESTAMP)", "'2024-01-01'"],
    ['time', "CAST('infinity' || '' AS TIMESTAMP)", "'2024-01-01'"],
    ['date', "CAST('10000-01-01' || '' AS DATE)", "'2024-01-01'"],
    ['date', 'CAST(CAST(date AS TIMESTAMP) - INTERVAL 1 DAY AS DATE)', "'0001-01-01'"],
    ['json', "json->'n'", '\'{"n":null}\''],
    ['json', "json->'absent'", '\'{"n":null}\''],
  ])('%s = %s', async (name, expression, before) => {
    await isNull(name, expression, before)
  })
})

test('minus zero becomes zero, as ingest stores it', async () => {
  for (const name of ['float', 'double'])
    for (const expression of [`-${name}`, `${name} * -1`]) {
      await set(name, '0')
      expect(await set(name, expression)).toBe('0')
      const text = await rowsOf(server, pool, `SELECT CAST("${name}" AS VARCHAR) FROM pool`)
      expect(text, expression).toEqual([['0.0']])
    }
})

test('a part of the payload becomes a column, with its bytes where it is JSON', async () => {
  const payload = { a: { b: [1, { c: 'é' }], n: 12345678901234568 }, 'x.y': 'dotted' }
  await postOne(pool, 'p', payload)
  const filled = (name: string, expression: string) => valueAfter(server, pool, name, expression, 'p')
  expect(await filled('string', "_service_payload->>'$.a.b[1].c'")).toBe('é')
  expect(await filled('json', "_service_payload->'a'")).toBe('{"b":[1,{"c":"é"}],"n":12345678901234568}')
  expect(await filled('json', "_service_payload->'absent'")).toBeNull()
  expect(await filled('int64', "CAST(_service_payload->'a'->>'n' AS BIGINT)")).toBe('12345678901234568')
  expect(await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: "id = 'p'" })).toBeNull()
})

test('the UTC offset of a text counts in a job as at ingest', async () => {
  const at = '2024-03-31T01:00:00.000001+05:30'
  await postOne(pool, 'offset', { at, time: at })
  const time = '2024-03-30T19:30:00.000001Z'
  const ingested = await rowsOf(server, pool, "SELECT time FROM pool WHERE id = 'offset'")
  expect(ingested).toEqual([[time]])
  for (const expression of [
    "CAST(_service_payload->>'at' AS TIMESTAMP)",
    "toDateTime(_service_payload->>'at')",
  ])
    expect(await valueAfter(server, pool, 'time', expression, 'offset'), expression).toBe(time)
  expect(await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: "id = 'offset'" })).toBeNull()
})

test('now() is the time of the creation, for every row and in every segment', async () => {
  const dataDir = `${temporaryFolder()}/data`
  const one = await startServer({ env: NEVER, dataDir })
  const spec: PoolSpec = { ...EVERY_TYPE, uniqueName: 'now' }
  const made = await one.createPool(spec)
  for (let segment = 0; segment < 4; segment++) {
    await post(
      at(one, made),
      Array.from({ length: 20 }, (_, i) => eventOf(`${segment} ${i}`)),
    )
    expect(await one.count(made.poolId)).toBe(String((segment + 1) * 20))
  }
  const input = {
    dataPool: made.poolId,
    set: [
      { column: 'time', expression: 'now()' },
      { column: 'date', expression: 'CURRENT_DATE' },
    ],
  }
  const job = await createJob(one, 'update', input)
  expect((await ended(one, job)).status).toBe('SUCCEEDED')
  const { data } = await one.graphql<{ job: { createdAt: string } }>(
    'query ($id: ID!) { job: updateDataPoolRecordsJob(id: $id) { createdAt } }',
    { id: job.id },
  )
  const { createdAt } = data.job
  expect(await rowsOf(one, made, 'SELECT time, date, COUNT(*) FROM pool GROUP BY time, date')).toEqual([
    [createdAt, createdAt.slice(0, 10), '80'],
  ])
  expect((await one.stop()).code).toBe(0)
})

describe('an update that no column can take', () => {
  const failing = async (expression: string, name: string, message: RegExp) => {
    const before = await rowsOf(server, pool, 'SELECT * FROM pool')
    const input = { dataPool: pool.poolId, set: [{ column: name, expression }] }
    expect(await runJob(server, 'update', input)).toMatch(message)
    expect(await rowsOf(server, pool, 'SELECT * FROM pool')).toEqual(before)
  }

  test('null for a required column: FAILED with a reason, and the pool is as before', async () => {
    const reason = /^the expression of column "needed" is null for 1 records? .* the column is required$/
    for (const expression of ['NULL', 'nullif(needed, needed)', 'needed % 0', 'needed * 3000000000'])
      await failing(expression, 'needed', reason)
  })

  test('a value of more than an event has at most', async () => {
    await set('string', `'${'x'.repeat(16_000)}'`)
    for (const times of [5, 13]) await set('string', `concat(${Array(times).fill('string').join()})`)
    const length = 16_000 * 5 * 13
    expect(await rowsOf(server, pool, 'SELECT length(string) FROM pool')).toEqual([[String(length)]])
    const exactly = `concat(string, substring(string, 1, ${BODY_BYTES_MAX - length}))`
    const tooLong = `concat(string, substring(string, 1, ${BODY_BYTES_MAX - length + 1}))`
    await failing(
      tooLong,
      'string',
      /^the expression of column "string" has a value of 1048321 bytes, and an event has at most 1048320$/,
    )
    await set('string', exactly)
    expect(await rowsOf(server, pool, 'SELECT length(string) FROM pool')).toEqual([[String(BODY_BYTES_MAX)]])
    await failing("string || 'é'", 'string', /1048322 bytes/)
  })
})

test('columns may have the names that a job uses itself', async () => {
  const names = [
    's',
    'u',
    'm',
    'f',
    'r',
    'd',
    'rows',
    'changed_0',
    'changed_1',
    'left_out',
    'say "hi"; --',
    "it's",
  ]
  const made = await server.createPool({
    columns: [
      column('at', 'TIMESTAMP'),
      column('id', 'STRING'),
      ...names.map(name => column(name, 'INT64', true)),
    ],
    timestamp: 'at',
    uniqueId: 'id',
    tenant: 'u',
  })
  const values = Object.fromEntries(names.map((name, i) => [name, i]))
  await post(made, [eventOf('a', values), eventOf('b', values)])
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
  const input = {
    dataPool: made.poolId,
    filterSql: "id = 'a'",
    // Each from its neighbour: all read the row as it was.
    set: names.map((name, i) => ({ column: name, expression: `${quoted(names.at(i - 1)!)} + 100` })),
  }
  expect(await runJob(server, 'update', input)).toBeNull()
  const rows = await rowsOf(server, made, `SELECT ${names.map(quoted).join()} FROM pool ORDER BY id`)
  const neighbours = names.map((_, i) => String(((i + names.length - 1) % names.length) + 100))
  expect(rows).toEqual([neighbours, names.map((_, i) => String(i))])
})
