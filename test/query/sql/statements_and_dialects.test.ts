/** What statements answer besides rows: columns, types, the order of nulls, dialects, limits. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SqlAnswer } from '../../../src/query/sql/sql-question.ts'
import { QUANTILES_MAX, STATEMENT_ROWS_MAX } from '../../../src/util/limits.ts'
import { SqlPools } from './pools.ts'

const pools = new SqlPools()
beforeAll(() => pools.open())
afterAll(() => pools.close())

async function columnsOf(statement: string): Promise<readonly string[]> {
  const planned = await pools.plan(statement)
  if ('badRequest' in planned) throw new Error(planned.badRequest)
  const { columns } = planned.plan.answer([]) as SqlAnswer
  return columns.map(({ columnName, type, isNullable }) => `${columnName} ${type}${isNullable ? '?' : ''}`)
}

describe('columns', () => {
  for (const [statement, columns] of [
    [
      'SELECT * FROM customers',
      '_service_received_at TIMESTAMP, _service_payload JSON, id INT32?, name STRING?, country STRING?, secret STRING?, score FLOAT?',
    ],
    ['SELECT ID, Name AS n, c.score FROM customers c', 'id INT32?, n STRING?, score FLOAT?'],
    [
      'SELECT COUNT(*), SUM(id), AVG(id), MAX(score), MIN(seen) AS m FROM orders, (SELECT score FROM customers) x',
      'count INT64, sum INT64?, avg DOUBLE?, max FLOAT?, m TIMESTAMP?',
    ],
    [
      "SELECT 1, 'a', NULL, true, id + 1, CAST(id AS VARCHAR), upper(plan) FROM orders",
      '?column? INT64, ?column? STRING, ?column? STRING?, ?column? BOOLEAN, + INT64?, id STRING?, upper STRING?',
    ],
    [
      "SELECT day, seen, details, details->>'a' AS a FROM orders",
      'day DATE?, seen TIMESTAMP?, details JSON?, a STRING?',
    ],
    ['SELECT id FROM customers UNION SELECT id FROM orders', 'id INT64?'],
    ['SELECT x.n FROM (SELECT COUNT(*) AS n FROM orders) x', 'n INT64'],
    ['SELECT c._service_payload FROM orders o LEFT JOIN customers c USING (id)', '_service_payload JSON?'],
    [
      'SELECT * FROM (SELECT id, plan FROM orders) a JOIN (SELECT id, name FROM customers) b USING (id)',
      'id INT64?, plan STRING?, name STRING?',
    ],
  ] as const)
    test(statement, async () => {
      expect((await columnsOf(statement)).join(', ')).toBe(columns)
    })
})

test('nulls come where the dialect has them', async () => {
  const statement = (order: string) => `SELECT DISTINCT country FROM customers ORDER BY country ${order}`
  const first = '[[null],["JP"],["FR"],["DE"]]'
  const last = '[["JP"],["FR"],["DE"],[null]]'
  expect(await pools.rows(statement('DESC'))).toBe(first)
  expect(await pools.rows(statement('DESC'), { dialect: 'CLICKHOUSE' })).toBe(last)
  expect(await pools.rows(statement('DESC NULLS LAST'))).toBe(last)
  expect(await pools.rows(statement('DESC NULLS FIRST'), { dialect: 'CLICKHOUSE' })).toBe(first)
  for (const dialect of ['POSTGRESQL', 'CLICKHOUSE'] as const)
    expect(await pools.rows(statement('ASC'), { dialect })).toBe('[["DE"],["FR"],["JP"],[null]]')
})

describe('ClickHouse', () => {
  for (const [statement, rows] of [
    ['SELECT countIf(paid), uniq(plan), sumIf(quantity, id < 3) FROM orders', '[["20","4","10"]]'],
    [
      'SELECT toStartOfDay(`seen`) AS d, count() FROM `orders` WHERE `id` < 2 GROUP BY d',
      '[["2024-03-18T00:00:00.000Z","2"]]',
    ],
    ['SELECT `say "hi"; --` FROM `My "odd" pool` WHERE `select` = \'a\'', '[["x"]]'],
    ["SELECT '`' AS `a` FROM orders LIMIT 1", '[["`"]]'],
    ['SELECT id FROM orders -- `\n LIMIT 0', '[]'],
    ['SELECT `id FROM orders', 'BAD'],
  ] as const)
    test(statement, async () => {
      const answer = await pools.rows(statement, { dialect: 'CLICKHOUSE' })
      if (rows === 'BAD') expect(answer).toMatch(/^BAD: /)
      else expect(answer).toBe(rows)
    })
})

const PARAMETERS = "parameters such as $1 have no form here: write the value itself, a text as '…'"

describe('is refused with a sentence:', () => {
  for (const [statement, sentence] of [
    ['SELECT 1; SELECT 2', 'a text of SQL is exactly one SELECT'],
    ['DELETE FROM orders', 'a text of SQL is exactly one SELECT'],
    [
      'SELECT plan, COUNT(*) FROM orders',
      'column "plan" stands outside of an aggregate such as SUM(…), and GROUP BY does not have it',
    ],
    ['SELECT x FROM orders', `there is no column "x"; a text is in single quotes: 'x'`],
    ['SELECT o.x FROM orders o', 'there is no column "o.x"'],
    ['SELECT x.id FROM orders o', 'there is no table "x" after FROM of the same SELECT'],
    ['SELECT id FROM orders, customers', 'column "id" is ambiguous: write its table before it'],
    [
      'SELECT * FROM range(10)',
      'functions after FROM, such as range and unnest, are not allowed: name a Data Pool',
    ],
    [
      'SELECT * FROM information_schema.tables',
      'a table is the unique name or the id of a Data Pool, without a schema',
    ],
    ['SELECT * FROM nowhere', 'Data Pool "nowhere" not found'],
    ['WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a', 'RECURSIVE is not allowed; as a name it is quoted'],
    ['SELECT SUM(id) OVER () FROM orders', 'window functions are not allowed'],
    ['SELECT id FROM orders QUALIFY id > 1', 'QUALIFY is not allowed in a statement'],
    ['VALUES (1)', 'VALUES is not allowed'],
    ['SELECT * EXCLUDE (id) FROM orders', 'EXCLUDE is not allowed in a statement'],
    ['SELECT id FROM orders WHERE id = $1', PARAMETERS],
    ['SELECT id FROM orders WHERE id = $id', PARAMETERS],
    ['SELECT id FROM orders WHERE id = ?', PARAMETERS],
    ['SELECT [id] FROM orders', 'lists are not allowed'],
    ['SELECT plan[2:] FROM orders', 'parts of values in [ ] are not allowed'],
    ["SELECT {'a': id} FROM orders", 'structs are not allowed'],
    ["SELECT seen AT TIME ZONE 'UTC' FROM orders", 'AT TIME ZONE is not allowed'],
    [
      "SELECT id FROM orders WHERE plan ~ 'a'",
      "~ and SIMILAR TO are not allowed: write regexp_matches(text, '…')",
    ],
    [
      'SELECT coalesce(x -> x + 1) FROM orders',
      "-> takes one key: write (column -> 'a') in parentheses, or column ->> '$.a.b'; lambdas are not allowed",
    ],
    [
      'SELECT id FROM orders UNION SELECT id, name FROM customers',
      'UNION: one query has 1 columns, the other 2',
    ],
    [
      // The value is written three times, in which each deviation within is written three times.
      Array.from({ length: 14 }).reduce<string>(
        inner => `SELECT stddev((${inner}))`,
        'SELECT stddev(1 + (SELECT COUNT(*) FROM orders))',
      ),
      'the values and the FILTER of a STDDEV or VARIANCE hold no subquery: select from a query that has its value as a column',
    ],
    [
      'SELECT var_pop(id) FILTER (WHERE id > (SELECT stddev(id) FROM orders)) FROM orders',
      'the values and the FILTER of a STDDEV or VARIANCE hold no subquery: select from a query that has its value as a column',
    ],
    ['SELEC id', 'syntax error at or near "SELEC"'],
    [
      'SELECT at, id FROM orders',
      'syntax error at or near ","; if "at" is a name, write it in double quotes',
    ],
    [
      "SELECT id FROM orders WHERE name = 'äöü😀😀😀' ORDER BY Group",
      'syntax error at or near "Group"; if "Group" is a name, write it in double quotes',
    ],
    [
      'SELECT `id` FROM orders',
      'backticks quote names in the dialect CLICKHOUSE alone, and in pairs: write "…"',
    ],
    ['SELECT COUNT(* FROM orders', 'syntax error at or near "FROM"'],
  ] as const)
    test(statement, async () => {
      expect(await pools.rows(statement)).toBe(`BAD: ${sentence}`)
    })
})

test('an answer with too many rows is refused, and one of the limit is not', async () => {
  expect(await pools.rows('SELECT id FROM orders', { rowsMax: 39 })).toBe(
    'BAD: the answer has more than 39 rows',
  )
  expect(JSON.parse(await pools.rows('SELECT id FROM orders', { rowsMax: 40 }))).toHaveLength(40)
  const five = 'SELECT a.id FROM orders a, orders b, orders c LIMIT'
  expect(JSON.parse(await pools.rows(`${five} ${STATEMENT_ROWS_MAX}`))).toHaveLength(STATEMENT_ROWS_MAX)
  expect(await pools.rows(`${five} ${STATEMENT_ROWS_MAX + 1}`)).toMatch(/^BAD: the answer has more than/)
})

test('a product of many rows ends at the time limit, and the next statement is right', async () => {
  const engine = await pools.pool.open({ queryMsMax: 300 })
  const tables = Array.from({ length: 9 }, (_, i) => `orders o${i}`).join(', ')
  const sum = Array.from({ length: 9 }, (_, i) => `o${i}.id`).join(' + ')
  const before = pools.engine
  pools.useEngine(engine)
  await expect(pools.rows(`SELECT SUM((${sum}) % 7) FROM ${tables}`)).rejects.toMatchObject({
    code: 'timeout',
  })
  await expect(
    pools.rows(`WITH a AS (SELECT ${sum} AS s FROM ${tables}) SELECT COUNT(*) FROM a, a AS b`),
  ).rejects.toMatchObject({ code: expect.stringMatching(/timeout|query_memory/) })
  expect(await pools.rows('SELECT COUNT(*) FROM orders')).toBe('[["40"]]')
  await engine.stop()
  pools.useEngine(before)
})

test('a condition on the primary timestamp and on the tenant leaves out segments', async () => {
  const us = (text: string) => Date.parse(text) * 1_000
  const pruningOf = async (statement: string) => {
    const planned = await pools.plan(statement)
    if ('badRequest' in planned) throw new Error(planned.badRequest)
    const { timeFromUs, timeToUs, tenantEquals, others = [] } = planned.plan
    return [timeFromUs, timeToUs, tenantEquals, ...others.map(other => other.timeFromUs)]
  }
  const day = "seen >= '2024-03-20' AND seen < '2024-03-21'"
  const range = [us('2024-03-20'), us('2024-03-21')]
  expect(await pruningOf(`SELECT id FROM orders WHERE ${day} AND plan = 'pro'`)).toEqual([...range, 'pro'])
  expect(
    await pruningOf(
      `SELECT COUNT(*) FROM orders o WHERE o.seen BETWEEN '2024-03-20' AND '2024-03-21' GROUP BY plan`,
    ),
  ).toEqual([range[0], range[1]! + 1, null])
  expect(
    await pruningOf(`SELECT id FROM (SELECT * FROM orders WHERE ${day}) x WHERE x.plan = 'pro'`),
  ).toEqual([...range, null])
  const none = [null, null, null]
  expect(await pruningOf(`SELECT id FROM orders WHERE ${day} OR id = 1`)).toEqual(none)
  expect(
    await pruningOf(
      `SELECT a.id FROM orders a JOIN orders b USING (id) WHERE a.${day.replace('AND ', 'AND a.')}`,
    ),
  ).toEqual(none)
  expect(await pruningOf(`SELECT id FROM orders WHERE ${day} UNION SELECT id FROM orders`)).toEqual(none)
  expect(
    await pruningOf(`SELECT c.name FROM customers c WHERE id IN (SELECT id FROM orders WHERE ${day})`),
  ).toEqual([null, null, null, range[0]])
})

test('medians and quantiles have a limit, because each keeps its values outside of the memory limit', async () => {
  const statement = (count: number, more = '') =>
    `SELECT ${Array.from({ length: count }, (_, i) => `median(quantity + ${i})`).join(', ')}${more} FROM orders`
  const refused = `BAD: a query computes at most ${QUANTILES_MAX} different medians and quantiles, because each keeps all of its values in memory`
  const medians = Array.from({ length: QUANTILES_MAX }, (_, i) => String(5 + i))
  expect(await pools.rows(statement(QUANTILES_MAX))).toBe(JSON.stringify([medians]))
  expect(await pools.rows(statement(QUANTILES_MAX + 1))).toBe(refused)
  expect(await pools.rows(statement(QUANTILES_MAX, ', quantile(id, 0.9)'))).toBe(refused)
  expect(await pools.rows(statement(QUANTILES_MAX, ', median(id) FILTER (WHERE paid)'))).toBe(refused)
  // Those of subqueries and of other tables count too.
  const inner = `(${statement(QUANTILES_MAX - 1)}) x`
  expect(await pools.rows(`SELECT (SELECT median(id) FROM orders) AS m FROM ${inner}`)).toBe('[["19.5"]]')
  expect(
    await pools.rows(`SELECT median(id), (SELECT median(amount) FROM orders) FROM ${inner}, orders`),
  ).toBe(refused)
  // Equal ones are computed once.
  const equal = Array.from({ length: 40 }, () => 'median(id)').join(', ')
  expect(await pools.rows(`SELECT ${equal} FROM orders`)).toMatch(/^\[\["19.5",/)
})
