import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import type { Filter } from '../../src/query/plan/where.ts'
import { below, randomFrom } from '../util/random.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf([
  ['ts', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['n', 'INT64'],
  ['d', 'DOUBLE'],
  ['f', 'FLOAT'],
  ['day', 'DATE'],
])
const count = { kind: 'count' } as const
const sum = (column: string) => ({ kind: 'sum', column }) as const

beforeAll(async () => {
  await pool.open()
})
afterAll(() => pool.close())

describe.each(['native', 'js'] as const)('W-8 the rows of a manifest, kernel %s', kernel => {
  const pool = new TestPool()

  beforeAll(async () => {
    await pool.open({ kernel })
  })
  afterAll(() => pool.close())

  test('a pool without rows answers null sums and zero counts', async () => {
    expect(await pool.counter(schema, { metric: count }, [])).toBe('0')
    expect(await pool.counter(schema, { metric: sum('n') }, [])).toBe(null)
    const filters: Filter[] = [{ column: 'id', operator: 'EQUALS', value: 'x' }]
    expect(await pool.counter(schema, { metric: count, filters }, [])).toBe('0')
  })

  test('deletion vectors of several segments leave out exactly their rows', async () => {
    const seed = Date.now() % 1e9
    const numbers = randomFrom(seed)
    const random = (limit: number) => below(numbers, limit)
    const all = []
    let live = 0n
    let liveRows = 0
    for (let part = 0; part < 5; part++) {
      const rows = Array.from({ length: 5000 + random(3000) }, (_, row) => ({
        id: `${part}-${row}`,
        n: BigInt(random(1e9)) * 1_000_003n,
      }))
      const deletedRows = new Set(
        part === 2 ? [] : Array.from({ length: random(1500) + 1 }, () => random(rows.length)),
      )
      rows.forEach((row, index) => {
        if (deletedRows.has(index)) return
        live += row.n
        liveRows++
      })
      all.push(withDeletionVectors(await pool.segment(schema, rows), [...deletedRows]))
    }
    for (const order of [all, [...all].reverse(), [...all.slice(2), ...all.slice(0, 2)]]) {
      expect(await pool.counter(schema, { metric: sum('n') }, order), `seed ${seed}`).toBe(String(live))
      expect(await pool.counter(schema, { metric: count }, order), `seed ${seed}`).toBe(String(liveRows))
      const filters: Filter[] = [{ column: 'id', operator: 'IS_NOT_NULL' }]
      expect(await pool.counter(schema, { metric: count, filters }, order), `seed ${seed}`).toBe(
        String(liveRows),
      )
    }
    const more = withDeletionVectors(all[2]!, [0, 1, 4999])
    const grown = [all[0]!, more, all[4]!]
    const before = BigInt((await pool.counter(schema, { metric: count }, [all[0]!, all[2]!, all[4]!]))!)
    const filters: Filter[] = [{ column: 'id', operator: 'IS_NOT_NULL' }]
    expect(await pool.counter(schema, { metric: count, filters }, grown)).toBe(String(before - 3n))
    expect(await pool.counter(schema, { metric: count }, grown)).toBe(String(before - 3n))
  })

  test('a segment whose rows are all deleted answers nothing', async () => {
    const segment = withDeletionVectors(await pool.segment(schema, [{ n: 1n }, { n: 2n }]), [0, 1])
    expect(await pool.counter(schema, { metric: count }, [segment])).toBe('0')
    expect(await pool.counter(schema, { metric: sum('n') }, [segment])).toBe(null)
  })

  test('a column that was added later is null in older segments', async () => {
    const wider = schemaOf(
      [
        ['a', 'INT32'],
        ['b', 'TIMESTAMP'],
        ['it"s', 'STRING'],
      ],
      { version: 3, pool: 7 },
    )
    const old = schemaOf([['a', 'INT32']], { version: 2, pool: 7 })
    const first = await pool.segment(old, [{ a: 1 }, { a: 2 }])
    const second = await pool.segment(wider, [{ a: 4, b: 0n, 'it"s': 'x' }, { a: 8 }])
    const isNull = (column: string): Filter[] => [{ column, operator: 'IS_NULL' }]
    const check = async (segments: (typeof first)[], want: string | null, filters: Filter[] = []) => {
      expect(await pool.counter(wider, { metric: sum('a'), filters }, segments)).toBe(want)
    }
    await check([first], '3', isNull('b'))
    await check([first, second], '11', isNull('b'))
    await check([second, first], '11', isNull('it"s'))
    await check([withDeletionVectors(first, [1]), second], '9', isNull('b'))
    await check([first, withDeletionVectors(second, [1])], '3', isNull('b'))
    await check([withDeletionVectors(first, [0]), withDeletionVectors(second, [1])], '4', [
      { column: 'b', operator: 'EQUALS', value: '1970-01-01' },
    ])
  })
})

describe('values', () => {
  test('sums of integers are exact beyond 2^53 and 2^63', async () => {
    const big = 2n ** 63n - 1n
    const segment = await pool.segment(schema, [{ n: big }, { n: big }, { n: 5n }, {}])
    expect(await pool.counter(schema, { metric: sum('n') }, [segment])).toBe(String(2n * big + 5n))
    const low = await pool.segment(schema, [{ n: 9_007_199_254_740_993n }, { n: -(2n ** 63n) }])
    expect(await pool.counter(schema, { metric: sum('n') }, [low])).toBe(
      String(9_007_199_254_740_993n - 2n ** 63n),
    )
  })

  test('sums of floats print as JavaScript prints them', async () => {
    const segment = await pool.segment(schema, [
      { d: 0.1, f: 0.5 },
      { d: 0.2, f: 0.25 },
    ])
    expect(await pool.counter(schema, { metric: sum('d') }, [segment])).toMatch(/^0\.3/)
    expect(await pool.counter(schema, { metric: sum('f') }, [segment])).toBe('0.75')
    const small = await pool.segment(schema, [{ d: 1e-7 }])
    expect(await pool.counter(schema, { metric: sum('d') }, [small])).toBe('1e-7')
    const huge = await pool.segment(schema, [{ d: 1.7e308 }, { d: 1.7e308 }])
    expect(await pool.counter(schema, { metric: sum('d') }, [huge])).toBe(null)
  })

  test('values are printed as the API shows them', async () => {
    const segment = await pool.segment(schema, [
      { ts: 1_700_000_000_123_456n, id: 'é\0𝄞', n: -1n, d: 1e21, f: Math.fround(0.1), day: -1 },
      { ts: -1n, d: 5 },
      { ts: 253_402_300_799_999_000n, day: 0 },
    ])
    const engine = await pool.engine()
    const statement = {
      sql: 'SELECT ts, id, n, d, f, day, n > 0 AS b FROM rows ORDER BY day NULLS LAST',
      bounds: [],
    }
    const done = await engine.run(
      { source: rowsOfPool(schema, { segments: [segment] }), statement, rowsMax: 3 },
      'a',
    )
    expect(done.columns).toEqual(['ts', 'id', 'n', 'd', 'f', 'day', 'b'])
    expect(done.rows).toEqual([
      ['2023-11-14T22:13:20.123456Z', 'é\0𝄞', '-1', '1e+21', '0.1', '1969-12-31', 'false'],
      ['9999-12-31T23:59:59.999Z', null, null, null, null, '1970-01-01', null],
      ['1969-12-31T23:59:59.999999Z', null, null, '5', null, null, null],
    ])
    expect(done.recordsProcessed).toBe(3)
    const less = engine.run(
      { source: rowsOfPool(schema, { segments: [segment] }), statement, rowsMax: 2 },
      'a',
    )
    await expect(less).rejects.toMatchObject({ name: 'Unavailable', code: 'too_many_rows' })
    const hidden = { sql: 'SELECT _service_sequence FROM rows', bounds: [] }
    await expect(
      engine.run({ source: rowsOfPool(schema, { segments: [segment] }), statement: hidden, rowsMax: 2 }, 'a'),
    ).rejects.toThrow(/_service_sequence/)
  })
})

describe('time ranges', () => {
  const timed = schemaOf(
    [
      ['ts', 'TIMESTAMP'],
      ['day', 'DATE'],
      ['other', 'TIMESTAMP'],
    ],
    { timestamp: 0 },
  )
  const us = 1_700_000_000_000_001n

  test.each([true, false])(
    'start is inclusive and stop exclusive, to the microsecond (zoned: %s)',
    async zoned => {
      const segment = await pool.segment(timed, [{ ts: us - 1n }, { ts: us }, { ts: us + 1n }, {}], zoned)
      const check = async (start: string | null, stop: string | null, want: string) => {
        expect(await pool.counter(timed, { metric: count, timeRange: { start, stop } }, [segment])).toBe(want)
      }
      await check('2023-11-14T22:13:20.000001Z', null, '2')
      await check('2023-11-14T23:13:20.000002+01:00', null, '1')
      await check(null, '2023-11-14T22:13:20.000001Z', '1')
      await check('2023-11-14T22:13:20.000001Z', '2023-11-14T22:13:20.000001Z', '0')
      await check('2023-11-14', '2023-11-15', '3')
      await check(null, null, '4')
    },
  )

  test('a DATE counts as the instant of its midnight', async () => {
    const dated = schemaOf([['day', 'DATE']], { timestamp: 0 })
    const segment = await pool.segment(dated, [{ day: -1 }, { day: 0 }, { day: 1 }, {}])
    const check = async (start: string | null, stop: string | null, want: string) => {
      expect(await pool.counter(dated, { metric: count, timeRange: { start, stop } }, [segment])).toBe(want)
    }
    await check('1970-01-01', null, '2')
    await check('1970-01-01T00:00:00.000001Z', null, '1')
    await check('1969-12-31T00:00:00.000001Z', null, '2')
    await check(null, '1970-01-01', '1')
    await check(null, '1970-01-01T00:00:00.000001Z', '2')
    await check(null, '1969-12-31T12:00:00Z', '1')
  })
})
