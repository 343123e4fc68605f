/**
 * Random questions whose partial groups are kept, beside the same over all rows: each answer is
 * equal to the last digit. Between them segments come, are merged and go, and rows are deleted.
 *
 * Every question is asked again and again, so that it meets what was kept of it at every age.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { counter } from '../../src/query/plan/counter.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { metricReport } from '../../src/query/plan/metric-report.ts'
import type { RowPolicy } from '../../src/query/plan/policy.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { MiB } from '../../src/util/limits.ts'
import { below, casesOf, newSeed, type Random, randomFrom } from '../util/random.ts'
import * as model from './metric-model.ts'
import { type Row, schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const ASKS = casesOf(250, 5_000)
const QUESTIONS = 8
const SEGMENTS_MAX = 14
const FROM_US = 1_700_000_000_000_000n
const TO_US = FROM_US + 3n * model.DAY_US
/** The same columns in another pool, or with a newer schema. */
const SCHEMAS = [model.SCHEMA, { ...model.SCHEMA, version: 2 }, { ...model.SCHEMA, pool: schemaOf([]).pool }]

const pool = new TestPool()
beforeAll(() => pool.open({ partialsBytesMax: 8 * MiB, partialsRowsMin: 5, queryMsMax: 60_000 }))
afterAll(() => pool.close())

interface Asked {
  // biome-ignore lint/suspicious/noExplicitAny: questions of all kinds
  readonly question: Askable<any, any>
  readonly query: object
  readonly policy: RowPolicy | null
  readonly schema: (typeof SCHEMAS)[number]
}

/** Sums of these lose digits in any order, or overflow half-way. */
const HARD = [0.1, 1e300, -1e300, 1e16, -1e16, 1e-300, 1.7e308, -1.7e308, 3, -0]

function randomRow(random: Random): Row {
  const row = model.randomRow(random, FROM_US, TO_US)
  return below(random, 2) === 0 ? { ...row, f64: model.pick(random, HARD) } : row
}

const METRICS = [
  'COUNT() + SUM(n)',
  'SUM(f64) / COUNT(f64) - AVG(f64)',
  'AVG(big)',
  'MAX(f64) - MIN(f64)',
  'COUNT() FILTER (WHERE n > 0)',
  'AVG(n) FILTER (WHERE flag)',
  'MEDIAN(n)',
  'ARG_MAX(n, f64)',
  'BOOL_OR(flag)',
]

function randomQuestion(random: Random): Asked {
  const metric = () =>
    below(random, 2) === 0
      ? model.randomMetric(random)
      : ({ kind: 'custom', expression: model.pick(random, METRICS) } as const)
  const { selection } = model.randomCondition(random)
  const timeRange = model.randomRange(random, FROM_US, TO_US)
  const rows = { timeRange, ...selection }
  const columns = (count: number) =>
    Array.from({ length: below(random, count + 1) }, () => model.pick(random, ['name', 'n', 'flag', 'day']))
  const asked = (question: Asked['question'], query: object): Asked => {
    const { policy } = model.randomPolicy(random)
    return { question, query, policy, schema: model.pick(random, SCHEMAS) }
  }
  switch (below(random, 5)) {
    case 0: {
      const granularity = model.pick(random, ['HOUR', 'DAY', 'FIFTEEN_MINUTES'])
      return asked(timeSeries, { metric: metric(), granularity, groupBy: columns(1), ...rows })
    }
    case 1: {
      const sort = model.pick(random, ['ASC', 'DESC'])
      return asked(leaderboard, {
        metric: metric(),
        name: 'v',
        dimensions: columns(2),
        sort,
        rowLimit: 5,
        ...rows,
      })
    }
    case 2: {
      const dimensions = columns(2)
      const metrics = [{ metric: metric() }, { metric: metric(), ...model.randomCondition(random).selection }]
      const headers = [...dimensions, 'a', 'b']
      const sorts = headers.map(() => model.pick(random, ['ASC', 'DESC']))
      const page = { way: 'forward', count: 50, cursor: null }
      return asked(metricReport, {
        dimensions,
        metrics,
        headers,
        sorts,
        orderByColumn: headers.length,
        page,
        ...rows,
      })
    }
    case 3:
      return asked(topValues, { column: model.pick(random, ['name', 'n', 'day']), maxValues: 5, timeRange })
    default:
      return asked(counter, { metric: metric(), ...rows })
  }
}

/** Sums of real numbers, alone and by groups, over all rows: these are always asked. */
const REAL: readonly Asked[] = [
  { question: counter, query: { metric: { kind: 'sum', column: 'f64' } } },
  { question: counter, query: { metric: { kind: 'average', column: 'f64' } } },
  {
    question: leaderboard,
    query: {
      ...{ metric: { kind: 'sum', column: 'f64' }, name: 'v', dimensions: ['flag'] },
      ...{ sort: 'ASC', rowLimit: 5 },
    },
  },
].map(one => ({ ...one, policy: null, schema: model.SCHEMA }))

/** A segment with its rows, of which some are deleted. */
interface Stored {
  readonly rows: readonly Row[]
  readonly deleted: readonly number[]
  readonly whole: QuerySegment
}

async function stored(rows: readonly Row[]): Promise<Stored> {
  return { rows, deleted: [], whole: await pool.segment(model.SCHEMA, rows) }
}

/** One thing happens to the segments, as a flush, a merge or an update does it. */
async function step(random: Random, all: readonly Stored[]): Promise<readonly Stored[]> {
  const at = below(random, all.length)
  const rest = all.filter((_, index) => index !== at)
  const chosen = all[at]
  switch (chosen === undefined ? 0 : below(random, 6)) {
    case 0:
    case 1: {
      const rows = Array.from({ length: 1 + below(random, 40) }, () => randomRow(random))
      return [...all.slice(-SEGMENTS_MAX), await stored(rows)]
    }
    case 2:
    case 3: {
      const { rows, deleted } = chosen!
      const live = rows.flatMap((_, index) => (deleted.includes(index) ? [] : [index]))
      const more = live.filter(() => below(random, 8) === 0)
      return all.map(one => (one === chosen ? { ...one, deleted: [...deleted, ...more] } : one))
    }
    case 4: {
      const merged = all.slice(at, at + 3)
      const rows = merged.flatMap(one => one.rows.filter((_, index) => !one.deleted.includes(index)))
      const others = all.filter(one => !merged.includes(one))
      return rows.length === 0 ? others : [...others, await stored(rows)]
    }
    default:
      return below(random, 6) === 0 ? rest : all
  }
}

/** Asks with partial groups, and over all rows. */
async function compare({ question, query, policy, schema }: Asked, all: readonly Stored[], where: string) {
  const segments = all.map(({ whole, deleted }) => withDeletionVectors(whole, deleted))
  let kept = 0
  const partials = {
    onKept: (of: number) => {
      kept += of
    },
  }
  const got = await pool.answer(question, schema, query, segments, { policy, partials })
  const want = await pool.answer(question, schema, query, segments, { policy })
  expect(got, `${where}: ${question.type} ${JSON.stringify([query, policy])}`).toEqual(want)
  return kept
}

test('an answer with kept partial groups equals the one over all rows', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  const questions = [...REAL, ...Array.from({ length: QUESTIONS }, () => randomQuestion(random))]
  let [before, all]: [readonly Stored[], readonly Stored[]] = [[], []]
  let kept = 0
  for (let ask = 0; ask < ASKS; ) {
    if (below(random, 3) === 0) [before, all] = [all, await step(random, all)]
    if (below(random, 40) === 0) questions[REAL.length + below(random, QUESTIONS)] = randomQuestion(random)
    // Some are asked at once, also of segments as they were before.
    const together = Array.from({ length: 1 + below(random, 3) }, () => below(random, 4))
    const asked = model.pick(random, questions)
    const counts = together.map(lot => {
      ask += 1
      const one = lot === 0 ? model.pick(random, questions) : asked
      return compare(one, lot === 1 ? before : all, `seed ${seed}, ask ${ask}`)
    })
    for (const count of await Promise.all(counts)) kept += count
  }
  expect(kept).toBeGreaterThan(ASKS / 4)
})
