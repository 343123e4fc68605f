/** Statements over real rows, each against DuckDB over tables with the same rows. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { casesOf, newSeed, randomFrom } from '../../util/random.ts'
import { SqlPools } from './pools.ts'
import { RandomStatements } from './random-statements.ts'
import { Reference } from './reference.ts'

/** The rows are in ClickHouse (cluster/suites.mjs), where statements are typed alone. */
const isCluster = process.env['WEIR_TEST_STORE'] === 'clickhouse'
const pools = new SqlPools()
const native = new SqlPools('native')
const reference = new Reference()
beforeAll(async () => {
  await pools.open()
  if (!isCluster) await native.open()
  await reference.open()
})
afterAll(async () => {
  reference.close()
  await pools.close()
  if (!isCluster) await native.close()
})

/** Statements that DuckDB reads as Weir does. Those with ORDER BY are compared in their order. */
const STATEMENTS: readonly string[] = [
  'SELECT id FROM orders',
  'SELECT * FROM customers',
  "SELECT * FROM orders WHERE plan = 'pro'",
  'SELECT o.* FROM orders o WHERE o.paid',
  'SELECT o.id, o.plan AS p FROM orders AS o WHERE o.amount > 3 ORDER BY o.id DESC LIMIT 5 OFFSET 2',
  'SELECT COUNT(*) FROM orders',
  'SELECT COUNT(*) FROM orders WHERE id < 5',
  'SELECT count(*) AS n, sum(quantity) AS q, min(seen) AS a, max(day) AS d FROM orders;',
  'SELECT plan, COUNT(*) FROM orders GROUP BY plan',
  'SELECT plan, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC NULLS LAST, plan NULLS FIRST',
  'SELECT upper(plan) AS u, SUM(amount) FROM orders GROUP BY u',
  'SELECT upper(plan) AS u, length(upper(plan)) FROM orders GROUP BY upper(plan)',
  "SELECT substring(plan, 1, 2) AS s, upper(substring(plan, 1, 2)), COUNT(*) FROM orders GROUP BY substring(plan, 1, 2) HAVING COUNT(*) > 1 AND substring(plan, 1, 2) > 'a' ORDER BY substring(plan, 1, 2)",
  'SELECT plan, paid, SUM(quantity) FROM orders GROUP BY 1, 2 HAVING SUM(quantity) > 3',
  'SELECT o.plan FROM orders o GROUP BY plan',
  'SELECT plan FROM orders o GROUP BY o.plan',
  'SELECT DISTINCT plan, paid FROM orders',
  'SELECT DISTINCT plan FROM orders ORDER BY plan DESC NULLS LAST LIMIT 2',
  'SELECT DISTINCT upper(plan) AS p FROM orders ORDER BY upper(plan) NULLS FIRST',
  'SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id',
  "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id AND c.country = 'DE'",
  'SELECT o.id, c.name FROM orders o RIGHT JOIN customers c ON o.customer = c.id',
  'SELECT o.id, c.name FROM orders o FULL OUTER JOIN customers c ON o.customer = c.id',
  'SELECT o.id, c.id FROM orders o FULL JOIN customers c USING (id)',
  'SELECT id, o.plan, c.name FROM orders o FULL JOIN customers c USING (id)',
  'SELECT id, o.plan, c.name FROM orders o RIGHT JOIN customers c USING (id) WHERE id IS NULL OR id > 3',
  'SELECT id, plan FROM orders JOIN customers USING (id) ORDER BY id',
  'SELECT id, name, n FROM customers JOIN (SELECT id, COUNT(*) AS n FROM orders GROUP BY id) x USING (id)',
  'SELECT id, name, m FROM customers a FULL JOIN (SELECT customer AS id, MAX(amount) AS m FROM orders GROUP BY customer) b USING (id)',
  'SELECT o.id FROM orders o LEFT JOIN customers c USING (id) GROUP BY id',
  'SELECT id, COUNT(*) FROM orders o LEFT JOIN customers c USING (id) GROUP BY o.id',
  'SELECT c.id FROM orders o RIGHT JOIN customers c USING (id) GROUP BY id',
  'SELECT COUNT(*) FROM orders, customers',
  'SELECT COUNT(*) FROM orders o CROSS JOIN customers c WHERE o.customer = c.id',
  'SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.id + 1 WHERE a.plan = b.plan OR a.quantity < b.quantity',
  'SELECT c.country, SUM(o.amount) AS total, COUNT(DISTINCT o.plan) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.country ORDER BY total DESC NULLS LAST',
  'SELECT x.p, x.n FROM (SELECT plan AS p, COUNT(*) AS n FROM orders GROUP BY plan) x WHERE x.n > 7',
  'SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY plan)',
  'SELECT y.b FROM (SELECT id, plan FROM orders) AS y(a, b) WHERE y.a < 3',
  'WITH big AS (SELECT * FROM orders WHERE amount > 5) SELECT plan, COUNT(*) FROM big GROUP BY plan',
  'WITH a(x, y) AS (SELECT id, amount FROM orders), b AS (SELECT x, y * 2 AS z FROM a WHERE x < 20) SELECT a.x, b.z FROM a LEFT JOIN b ON a.x = b.x',
  'WITH a AS (SELECT 1 AS n) SELECT o.id FROM orders o CROSS JOIN a WHERE o.id > a.n',
  'WITH orders AS (SELECT id FROM orders WHERE id < 3) SELECT * FROM orders',
  'WITH a AS (SELECT id FROM orders WHERE id < 9), a2 AS (WITH a AS (SELECT id FROM customers) SELECT * FROM a) SELECT COUNT(*) FROM a, a2',
  'WITH unused AS (SELECT * FROM customers) SELECT COUNT(*) FROM orders',
  'SELECT id FROM orders UNION ALL SELECT id FROM customers',
  'SELECT customer FROM orders UNION SELECT id FROM customers ORDER BY 1 NULLS LAST',
  'SELECT customer AS c FROM orders UNION ALL SELECT 0.5::DOUBLE ORDER BY c NULLS FIRST LIMIT 9',
  'SELECT amount FROM orders UNION SELECT score FROM customers',
  'SELECT quantity FROM orders INTERSECT SELECT id FROM customers',
  'SELECT id FROM orders EXCEPT SELECT id FROM customers',
  '(SELECT id FROM orders ORDER BY id DESC LIMIT 2) UNION ALL (SELECT id FROM customers ORDER BY id NULLS LAST LIMIT 2)',
  "SELECT plan, n FROM (SELECT plan, 1 AS n FROM orders UNION ALL SELECT name, 2 FROM customers) u WHERE n = 2 OR plan = 'pro'",
  "SELECT id FROM orders WHERE customer IN (SELECT id FROM customers WHERE country = 'DE')",
  'SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE id < 3)',
  'SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM customers WHERE score > 3)',
  'SELECT COUNT(*) FROM orders WHERE 9223372036854775808 IN (SELECT 9223372036854775807 + 0 * id FROM customers)',
  'SELECT COUNT(*) FROM orders WHERE 9223372036854775807 + 0 * id = 9223372036854775808',
  'SELECT plan FROM orders GROUP BY plan HAVING SUM(9223372036854775807) > 36893488147419103232.5',
  'SELECT 9223372036854775808 AS n, -170141183460469231731687303715884105 AS m FROM orders',
  'SELECT id FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers WHERE score > 3)',
  'SELECT id FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)',
  'SELECT id, (SELECT MAX(score) FROM customers) AS m FROM orders WHERE id < 3',
  'SELECT plan, COUNT(*) FROM orders GROUP BY plan HAVING COUNT(*) > (SELECT MIN(id) + 7 FROM customers)',
  "SELECT CASE WHEN paid THEN 'yes' WHEN NOT paid THEN 'no' ELSE '?' END AS p, COUNT(*) FROM orders GROUP BY p",
  "SELECT date_trunc('day', seen) AS d, COUNT(*) FROM orders GROUP BY d ORDER BY d",
  "SELECT id FROM orders WHERE seen >= '2024-03-20' AND seen < '2024-03-21'",
  "SELECT details->>'$.tag' AS tag, COUNT(*) FROM orders GROUP BY tag",
  'SELECT SUM(amount) FILTER (WHERE paid) AS x, COUNT(*) FILTER (WHERE NOT paid) FROM orders',
  'SELECT plan, SUM(CASE WHEN paid THEN quantity ELSE 0 END) AS s FROM orders GROUP BY plan ORDER BY SUM(quantity), plan NULLS LAST',
  'SELECT "select", "Größe", "say ""hi""; --" FROM "My ""odd"" pool"',
  'SELECT t."say ""hi""; --" AS "out ""x""; DROP" FROM "My ""odd"" pool" t ORDER BY "Größe" DESC',
  "SELECT 1 AS one, 'a' AS two, NULL AS three, true AS four FROM orders LIMIT 1",
  'SELECT id, id FROM customers',
  'SELECT *, id + 1 AS next FROM customers',
  'SELECT HAVING_ FROM (SELECT COUNT(*) AS HAVING_ FROM orders) x',
  'SELECT COUNT(*) FROM orders HAVING COUNT(*) > 100',
  'SELECT 5 AS x FROM orders HAVING COUNT(*) > 1',
  'SELECT COUNT(*) FROM orders LIMIT 0',
  'SELECT MIN(x.m) FROM (SELECT MIN(seen) AS m FROM orders GROUP BY plan) x',
  'SELECT CAST(id AS VARCHAR) AS s, CAST(amount AS INTEGER) FROM orders WHERE id < 8',
  "SELECT coalesce(plan, 'none') AS p, COUNT(*) FROM orders GROUP BY coalesce(plan, 'none') ORDER BY 2, 1",
  'SELECT (a.id + b.id) * 2 AS s FROM customers a, customers b WHERE a.id < b.id',
  'FROM orders SELECT id WHERE id = 3',
  'SELECT id FROM orders -- a comment',
  'SELECT /* a /* nested */ comment */ id FROM orders WHERE id IN (1, 2, 3)',
  'SELECT ID, "PLAN" FROM orders O WHERE o.Id = 1',
  'SELECT q.x FROM ((SELECT id AS x FROM orders) UNION (SELECT id FROM customers)) q WHERE q.x > 5',
  'SELECT x.c FROM (orders JOIN customers ON orders.customer = customers.id) AS x(a, b, c)',
  'SELECT orders.id, name FROM orders JOIN (customers JOIN (SELECT DISTINCT plan FROM orders) p ON true) ON orders.customer = customers.id AND orders.plan = p.plan',
  'SELECT COUNT(*) FROM orders a LEFT JOIN orders b ON a.id < b.id LEFT JOIN customers c ON b.customer = c.id',
  'SELECT MEDIAN(quantity), AVG(quantity), STDDEV(id) FROM orders WHERE id < 2',
  'SELECT day + INTERVAL 1 DAY AS t FROM orders WHERE id < 2',
  'SELECT seen + INTERVAL 1 DAY FROM orders GROUP BY seen',
  "SELECT date_trunc('month', seen) + INTERVAL 1 DAY, COUNT(*) FROM orders GROUP BY date_trunc('month', seen)",
  'SELECT seen FROM orders GROUP BY seen ORDER BY seen - INTERVAL 1 MONTH NULLS FIRST, seen',
  "SELECT seen FROM orders GROUP BY seen HAVING seen + INTERVAL 1 DAY > '2024-03-19'",
  "SELECT seen + INTERVAL 1 DAY, COUNT(*) FROM orders GROUP BY seen + INTERVAL 1 DAY HAVING seen + INTERVAL 1 DAY > '2024-03-19' ORDER BY seen + INTERVAL 1 DAY",
  'SELECT DISTINCT seen + INTERVAL 1 DAY FROM orders ORDER BY seen + INTERVAL 1 DAY NULLS FIRST',
  'SELECT plan, MAX(seen) + INTERVAL 1 DAY FROM orders GROUP BY plan',
  'SELECT (SELECT MAX(seen) FROM orders) + INTERVAL 1 DAY, COUNT(*) FROM orders WHERE seen < (SELECT MAX(seen) FROM orders) - INTERVAL 1 HOUR',
  'SELECT a.id, b.id FROM orders a JOIN orders b ON a.seen = b.seen + INTERVAL 1 DAY',
  'SELECT a.id, b.id FROM orders a LEFT JOIN orders b ON a.seen > b.seen + INTERVAL 1 DAY AND a.plan = b.plan',
  "SELECT nullif(upper(plan), 'PRO') AS p, COUNT(*) FROM orders GROUP BY nullif(upper(plan), 'PRO') HAVING nullif(upper(plan), 'PRO') IS NULL OR COUNT(*) > 1",
  'SELECT nullif(quantity, id), nullif(id + 1, quantity), quantity / (id % 3), id % (quantity - 1) FROM orders',
  'SELECT id FROM orders WHERE id + 1 BETWEEN 3 AND (SELECT MAX(id) - 3 FROM orders)',
  'SELECT plan, SUM(quantity) / SUM(id) FROM orders GROUP BY plan HAVING SUM(quantity) / SUM(id) BETWEEN 0 AND 5 ORDER BY SUM(quantity) BETWEEN 0 AND 20, plan NULLS FIRST',
  'SELECT a.id, b.id FROM orders a JOIN orders b ON a.id - b.id BETWEEN 1 AND 2 AND nullif(a.id + 0, b.quantity) > 3',
  'SELECT CAST(CAST(id AS VARCHAR) AS DOUBLE) AS n, COUNT(*) FROM orders GROUP BY CAST(CAST(id AS VARCHAR) AS DOUBLE)',
  "SELECT date_diff('day', MIN(seen), MAX(seen)) FROM orders",
  'SELECT sum(id) / count(*) AS r FROM orders',
  'SELECT plan IS NULL AS n, COUNT(*) FROM orders GROUP BY plan IS NULL',
]

test.skipIf(isCluster)(
  'a range of a computed value is one that DuckDB sees, so that it joins by it',
  async () => {
    const on = 'a.id + 1 BETWEEN b.id AND b.quantity'
    const planned = await pools.plan(`SELECT COUNT(*) FROM orders a JOIN orders b ON ${on}`)
    if ('badRequest' in planned) throw new Error(planned.badRequest)
    expect(planned.statement.sql).toMatch(/ BETWEEN _service_s2\."id" AND _service_s2\."quantity"/)
    expect(planned.statement.sql).not.toContain('lambda')
  },
)

describe('answers as DuckDB', () => {
  for (const statement of STATEMENTS)
    test(statement, async () => {
      await reference.compare(pools, statement)
      if (!isCluster) await reference.compare(native, statement)
    })
})

const RANDOM = casesOf(200, 1_500)

test(`${RANDOM} random statements answer as DuckDB`, async () => {
  const seed = newSeed()
  process.stdout.write(`statements_answered: seed ${seed}\n`)
  const random = new RandomStatements(randomFrom(seed))
  for (let i = 0; i < RANDOM; i++) {
    const statement = random.statement()
    const asked = !isCluster && i % 2 === 0 ? native : pools
    await reference.compare(asked, statement, true).catch((error: Error) => {
      throw new Error(`${statement}\n${error.message}`)
    })
  }
})
