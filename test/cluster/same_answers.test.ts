/**
 * Both stores answer the same: random expressions, and lists of texts that are read, over the same
 * rows.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { counter } from '../../src/query/plan/counter.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import { sql } from '../../src/query/sql/sql-question.ts'
import { ExpressionPool, NOW_MS, SCHEMA } from '../query/expression/pool.ts'
import { AGGREGATES, pick, randomValue } from '../query/expression/random-expressions.ts'
import { schemaOf, TestPool } from '../query/pool.ts'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { JSON_DOCUMENTS, JSON_PATHS, NUMBERS, TIMES } from './texts.ts'

const why = whyNoClickHouse()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const clusterTest = test.skipIf(why !== undefined)

const CASES = casesOf(400, 4_000)

const expressions = new ExpressionPool()
const texts = new TestPool()
let engines: readonly QueryEngine[]

beforeAll(async () => {
  if (why !== undefined) return
  await expressions.open()
  engines = [expressions.pool.local, (await expressions.pool.cluster()).engine]
})
afterAll(async () => {
  await expressions.close()
  await texts.close()
})

/** What both stores answer to an expression, or how they fail. */
async function both(expression: string): Promise<readonly string[]> {
  const query = { metric: { kind: 'custom', expression } } as const
  return await Promise.all(
    engines.map(async engine => {
      try {
        const asker = { engine, nowMs: NOW_MS }
        const answer = await expressions.pool.answer(counter, SCHEMA, query, expressions.segments(), asker)
        return 'badRequest' in answer ? `BAD: ${answer.badRequest}` : String(answer.value)
      } catch (error) {
        return `FAILED: ${(error as Error).message}`
      }
    }),
  )
}

clusterTest(
  'random expressions',
  async () => {
    const seed = newSeed()
    const random = randomFrom(seed)
    const different: string[] = []
    let answered = 0
    for (let i = 0; i < CASES; i++) {
      const argument = randomValue(random, 1 + below(random, 3))
      const aggregate = pick(random, random() < 0.6 ? ['count', 'min', 'max', 'count_distinct'] : AGGREGATES)
      const expression = `${aggregate === 'count_star' ? 'count' : aggregate}(${argument})`
      const [local, cluster] = await both(expression)
      if (!local!.startsWith('BAD: ')) answered += 1
      if (local !== cluster && !/ in a cluster/.test(cluster!) && !isSum(aggregate, cluster!))
        different.push(`${expression}\n  local   ${local}\n  cluster ${cluster}`)
    }
    process.stdout.write(`random expressions: ${CASES}, answered ${answered}, seed ${seed}\n`)
    expect(different.join('\n'), `seed ${seed}`).toBe('')
  },
  600_000,
)

/** A sum of real numbers depends on the order of rows where large ones take each other away. */
function isSum(aggregate: string, answer: string): boolean {
  return /^(sum|avg|average|mean)/.test(aggregate) && Number.isFinite(Number(answer))
}

/** What both stores make of texts, each in a row of its own. */
async function compareTexts(list: readonly (string | null)[], values: readonly string[]): Promise<void> {
  const schema = schemaOf([
    ['place', 'INT32'],
    ['text', 'STRING'],
  ])
  const rows = list.map((text, place) => ({ place, text }))
  const segment = await texts.segment(schema, rows)
  await texts.engine()
  const engines = [texts.local, (await texts.cluster()).engine]
  const different: string[] = []
  for (const value of values) {
    const parsed = await texts.local.parseStatement(`SELECT text, ${value} FROM t ORDER BY place`, 'APP')
    if ('badRequest' in parsed) throw new Error(parsed.badRequest)
    const query = { statement: parsed, poolOf: [0], dialect: 'POSTGRESQL' } as const
    const [local, cluster] = await Promise.all(
      engines.map(async engine => {
        const answer = await texts.answer(sql, schema, query, [segment], { engine })
        if ('badRequest' in answer) throw new Error(`${value}: ${answer.badRequest}`)
        return answer.rows
      }),
    )
    for (const [index, row] of local!.entries())
      if (row[1] !== cluster![index]?.[1])
        different.push(
          `${value} of ${JSON.stringify(row[0])}: local ${row[1]}, cluster ${cluster![index]?.[1]}`,
        )
  }
  expect(different.slice(0, 40).join('\n')).toBe('')
}

clusterTest('texts that are cast', async () => {
  const types = ['BOOLEAN', 'TINYINT', 'INTEGER', 'BIGINT', 'FLOAT', 'DOUBLE']
  const casts = types.map(type => `CAST(text AS ${type})`)
  await compareTexts([...NUMBERS, null], casts)
  const times = ['CAST(text AS DATE)', 'CAST(text AS TIMESTAMP)', 'CAST(CAST(text AS TIMESTAMP) AS VARCHAR)']
  await compareTexts([...TIMES, null], [...times, 'CAST(CAST(text AS DATE) AS VARCHAR)'])
})

clusterTest('parts of JSON', async () => {
  const paths = JSON_PATHS.flatMap(path => [`text->>'${path}'`, `CAST(text->'${path}' AS VARCHAR)`])
  await compareTexts([...JSON_DOCUMENTS, null], paths)
})

clusterTest('characters of both cases', async () => {
  const codes = Array.from({ length: 0x1_f000 }, (_, code) => code).filter(
    code => code < 0xd800 || code >= 0xe000,
  )
  const list = Array.from({ length: 250 }, (_, part) =>
    String.fromCodePoint(...codes.slice(part * 512, part * 512 + 512)),
  )
  const values = ['lower(text)', 'upper(text)', 'length(text)', 'trim(text)', "text ILIKE '%É%'"]
  await compareTexts([...list, 'ΑΣ ΑΣ', 'ß', 'ŉ', 'İI', ' \u00a0\u3000x\t\u2003 '], values)
})

clusterTest('parts of texts', async () => {
  const list = ['', null, 'a', 'abc', 'äöü€😀x', "O'Brien % _ 👨‍👩‍👧 ß"]
  const sizes = [-9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 9]
  const pairs = sizes.flatMap(from => sizes.map(count => `substring(text, ${from}, ${count})`))
  const joined = (parts: readonly string[]) => parts.map(part => `coalesce(${part}, '-')`).join(" || '|' || ")
  const values = Array.from({ length: 25 }, (_, at) => pairs.slice(at * 5, at * 5 + 5))
  await compareTexts(list, [...values, sizes.slice(2, 7).map(from => `substring(text, ${from})`)].map(joined))
})
