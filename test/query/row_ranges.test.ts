/**
 * W-8: a large segment is copied in ranges of its rows, and each live row is in one of them, by the
 * native function and by the anti-join.
 */
import { afterAll, expect, test } from 'vitest'
import { openBatches } from '../../src/query/arrow/copied-batches.ts'
import { linesOf } from '../../src/query/arrow/export-formats.ts'
import { EXPORT_GROUP_ROWS, recordBatches, type SegmentGroup } from '../../src/query/arrow/export-stream.ts'
import { copyRows } from '../../src/query/copy-rows.ts'
import { writeSelection } from '../../src/query/selection.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const schema = schemaOf([['n', 'INT64']])
/** More than two groups, and no multiple of a row group. */
const ROWS = 2 * EXPORT_GROUP_ROWS + 12_345

function rowsSql(rows: number, from: number): string {
  return `SELECT (i + ${from})::BIGINT AS n, to_timestamp(0)::TIMESTAMPTZ AS _service_received_at,
    '{}' AS _service_payload, i::BIGINT AS _service_sequence FROM range(${rows}) t(i)`
}

test.each(['native', 'js'] as const)('each live row is copied once (%s)', async kernel => {
  const seed = newSeed()
  const random = integersFrom(seed)
  const engine = await pool.open({ kernel })
  const [small, plain, large] = [
    await pool.write(rowsSql(1_000, 0)),
    await pool.write(rowsSql(ROWS, 10_000)),
    await pool.write(rowsSql(ROWS, 2_000_000)),
  ]
  const borders = [0, EXPORT_GROUP_ROWS - 1, EXPORT_GROUP_ROWS, 2 * EXPORT_GROUP_ROWS - 1, ROWS - 1]
  const deleted = new Set([...borders, ...Array.from({ length: 30_000 }, () => random(ROWS))])
  const reduced = withDeletionVectors(large, [...deleted])
  const limited = { schema, policy: null }
  const written = await writeSelection(limited, { columns: ['n'] }, async () => new Map(), 0, engine.dialect)
  if ('badRequest' in written) throw new Error(written.badRequest)
  const groups: SegmentGroup[] = []
  const deps = { engine, temporaryFolder: pool.temporaryFolder }
  const copy = (group: SegmentGroup) => {
    groups.push(group)
    return copyRows(schema, written, group, { fairKey: 'P1_X_SMALL 1' }, deps)
  }
  const found: number[] = []
  for await (const batch of recordBatches([small, plain, reduced], copy, openBatches))
    for (const line of Buffer.from(linesOf('csv', written.columns, batch))
      .toString()
      .split('\r\n'))
      if (line !== '') found.push(Number(line))
  const live = Array.from({ length: ROWS }, (_, row) => row).filter(row => !deleted.has(row))
  const expected = [
    ...Array.from({ length: 1_000 }, (_, n) => n),
    ...Array.from({ length: ROWS }, (_, row) => row + 10_000),
    ...live.map(row => row + 2_000_000),
  ]
  expect(
    found.sort((a, b) => a - b),
    `seed ${seed}`,
  ).toEqual(expected)
  expect(groups.map(({ rowRange }) => rowRange?.from)).toEqual([
    undefined,
    ...[0, 1, 2, 0, 1, 2].map(n => n * EXPORT_GROUP_ROWS),
  ])
  await engine.stop()
})
