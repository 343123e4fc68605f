/** Random leaderboards and top values over random rows, against plain JavaScript. */
import { afterAll, expect, test } from 'vitest'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { below, newSeed, type Random, randomFrom } from '../util/random.ts'
import * as model from './metric-model.ts'
import { type Cell, type Row, TestPool } from './pool.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const FROM_US = 1_700_000_000_000_000n
const TO_US = FROM_US + 40n * model.DAY_US

function randomRows(random: Random, count: number): Row[] {
  return Array.from({ length: count }, () => model.randomRow(random, FROM_US, TO_US))
}

function compareAll(a: readonly Cell[], b: readonly Cell[]): number {
  for (const [index, cell] of a.entries()) {
    const order = model.compare(cell, b[index]!)
    if (order !== 0) return order
  }
  return 0
}

test('random leaderboards', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  for (let part = 0; part < 6; part++) {
    const { live, segments } = await model.store(pool, random, randomRows(random, part * 60))
    for (let i = 0; i < 40; i++) {
      const metric = model.randomMetric(random)
      const dimensions = Array.from({ length: below(random, 4) }, () => model.pick(random, model.COLUMNS))
      const timeRange = model.randomRange(random, FROM_US, TO_US)
      const { selection, holds } = model.randomCondition(random)
      const { policy, sees } = model.randomPolicy(random)
      const sort = model.pick(random, ['ASC', 'DESC'] as const)
      const rowLimit = model.pick(random, [1, 3, 1_000])
      const query = { metric, name: 'value', dimensions, timeRange, sort, rowLimit, ...selection }
      const rows = live.filter(row => sees(row) && holds(row) && model.inRange(timeRange, row))
      const groups = model.groupsOf(dimensions, rows)
      // Without dimensions all rows are one group, which is there even if it is empty.
      if (dimensions.length === 0 && rows.length === 0) groups.push({ cells: [], rows: [] })
      const want = groups
        .map(group => ({ ...group, value: model.evaluate(metric, group.rows) }))
        .filter(({ value }) => value.cell !== null)
        .sort((a, b) => {
          const order = model.compare(a.value.cell, b.value.cell)
          return (sort === 'ASC' ? order : -order) || compareAll(a.cells, b.cells)
        })
        .slice(0, rowLimit)
        .map(({ cells, value }) => [
          ...cells.map((cell, index) => model.print(dimensions[index]!, cell)),
          value.text,
        ])
      const got = await pool.answer(leaderboard, model.SCHEMA, query, segments, { policy })
      expect(got, `seed ${seed}: ${JSON.stringify(query)}`).toEqual({
        headers: [...dimensions, 'value'],
        rows: want,
      })
    }
  }
})

test('random top values', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  for (let part = 0; part < 3; part++) {
    const { live, segments } = await model.store(pool, random, randomRows(random, part * 100))
    for (let i = 0; i < 35; i++) {
      const column = model.pick(random, model.COLUMNS)
      const timeRange = model.randomRange(random, FROM_US, TO_US)
      const { policy, sees } = model.randomPolicy(random)
      const maxValues = model.pick(random, [1, 2, 5, 1_000])
      const rows = live.filter(row => sees(row) && model.inRange(timeRange, row) && row[column] !== null)
      const values = model
        .groupsOf([column], rows)
        .sort((a, b) => b.rows.length - a.rows.length || compareAll(a.cells, b.cells))
        .slice(0, maxValues)
        .map(({ cells }) => model.print(column, cells[0]!))
      const query = { column, maxValues, timeRange }
      const got = await pool.answer(topValues, model.SCHEMA, query, segments, { policy })
      expect(got, `seed ${seed}: ${JSON.stringify(query)}`).toEqual({ values })
    }
  }
})
