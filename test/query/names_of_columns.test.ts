/**
 * No name of a column changes an answer: the names that the statements use inside are no names of
 * columns, and a name with a dot is one name.
 */
import { afterAll, expect, test } from 'vitest'
import { counter } from '../../src/query/plan/counter.ts'
import { dataGrid } from '../../src/query/plan/data-grid.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { metricReport } from '../../src/query/plan/metric-report.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { recordsByUniqueId } from '../../src/query/plan/records-by-unique-id.ts'
import { columnValues } from '../../src/query/plan/statistics.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { schemaOf, TestPool } from './pool.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const NAMES = 'c1 C2 place value key all count d0 m0 k2 p0 rows s1 r.c1 r.n s.value size null v k o'.split(
  ' ',
)
const PLAIN = 'plain'

/** Answers over a pool whose timestamp has the name, as texts in which it is called as before. */
async function answersOf(name: string): Promise<string[]> {
  const columns = [
    [name, 'TIMESTAMP'],
    ['id', 'STRING'],
    ['n', 'INT64'],
    ['r', 'STRING'],
  ] as const
  const more = [
    ['length', 'INT64'],
    ['r.id', 'STRING'],
    ['s.n', 'INT64'],
  ] as const
  const schema = {
    ...schemaOf([...columns, ...more], { timestamp: 0 }),
    key: { columns: [0, 1], version: -1 },
    uniqueId: 1,
  }
  const rows = Array.from({ length: 24 }, (_, i) => ({
    ...{ [name]: 3_600_000_000n * BigInt((7 * i) % 24), id: `${i % 3}`, n: i % 5, r: 'abc'.repeat(i % 4) },
    ...{ length: -i, 'r.id': 'other', 's.n': 9 },
  }))
  const segments = [await pool.segment(schema, rows)]
  const ask = async <Query, Answer extends object>(question: Askable<Query, Answer>, query: Query) => {
    const answer = JSON.stringify(await pool.answer(question, schema, query, segments))
    expect(answer).not.toContain('badRequest')
    // Names of fields stand before a colon.
    return answer
      .split(`${JSON.stringify(name)}`)
      .join(`"${PLAIN}"`)
      .replaceAll(`"${PLAIN}":`, `${JSON.stringify(name)}:`)
  }
  const all = [name, 'id', 'n', 'length']
  const page = { count: 7, way: 'forward', cursor: null } as const
  const grid = { columns: all, orderByColumn: null, sort: null, page }
  const sum = { kind: 'sum', column: 'n' } as const
  return [
    await ask(recordsByUniqueId, { columns: ['n', name, 'id', 'length'], uniqueIds: ['2', '0', '1'] }),
    await ask(dataGrid, grid),
    await ask(dataGrid, { ...grid, orderByColumn: 3, sort: 'ASC' }),
    await ask(dataGrid, { ...grid, columns: ['n', 'length'] }),
    await ask(leaderboard, { metric: sum, name: 'm', dimensions: [name, 'n'], sort: 'ASC', rowLimit: 9 }),
    await ask(metricReport, {
      dimensions: [name, 'n'],
      metrics: [{ metric: sum }, { metric: { kind: 'max', column: name } }],
      headers: ['a', 'b', 'c', 'd'],
      sorts: ['DESC', 'ASC', 'DESC', 'DESC'],
      orderByColumn: 2,
      page,
    }),
    await ask(timeSeries, { metric: sum, granularity: 'HOUR', groupBy: ['id', name] }),
    await ask(topValues, { column: name, maxValues: 5 }),
    ...(await Promise.all(
      [
        `arg_max(id, "${name}") || arg_min(r, "${name}")`,
        `MAX(sqrt(power(epoch("${name}") / n, 2)))`,
        `MAX(left(r, CAST(n AS INTEGER)) || CAST("${name}" + INTERVAL 1 DAY AS VARCHAR))`,
        `COUNT(nullif("${name}" + INTERVAL 1 DAY, time_bucket(INTERVAL 1 MONTH, "${name}")))`,
      ].map(expression => ask(counter, { metric: { kind: 'custom', expression } })),
    )),
    await ask(columnValues, { column: name }),
  ]
}

test(`${NAMES.length} names of a timestamp`, async () => {
  const expected = await answersOf(PLAIN)
  const wrong: string[] = []
  for (const name of NAMES) {
    const answers = await answersOf(name)
    answers.forEach((answer, index) => {
      // Cursors hold a checksum of the list's name.
      const bare = (text: string | undefined) => text?.replaceAll(/"(\w*[cC]ursor)":"[^"]*"/g, '"$1":""')
      if (bare(answer) !== bare(expected[index])) wrong.push(`${name}: question ${index}`)
    })
  }
  expect(wrong).toEqual([])
})
