import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { CounterQuery } from '../../src/query/plan/counter.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf([['n', 'INT64']])
const queries: CounterQuery[] = [
  { metric: { kind: 'count' } },
  { metric: { kind: 'sum', column: 'n' } },
  { metric: { kind: 'count' }, filters: [{ column: 'n', operator: 'GREATER_THAN', value: '-1' }] },
]
const good: QuerySegment[] = []

beforeAll(async () => {
  await pool.open()
  for (let part = 0; part < 3; part++) good.push(await make(part))
})
afterAll(() => pool.close())

function make(part: number): Promise<QuerySegment> {
  return pool.segment(
    schema,
    Array.from({ length: 3000 }, (_, n) => ({ n: BigInt(n * (part + 1)) })),
  )
}

const damages: Record<string, (file: string) => void> = {
  deleted: file => rmSync(file),
  truncated: file => truncateSync(file, 1000),
  'cut at its end': file => truncateSync(file, readFileSync(file).length - 1),
  empty: file => truncateSync(file, 0),
  garbage: file => writeFileSync(file, 'not a Parquet file, but long enough to be one, one should think'),
  'zeroed pages': file => writeFileSync(file, readFileSync(file).fill(0, 4, 9000)),
}

for (const [name, damage] of Object.entries(damages)) {
  for (const warm of [false, true]) {
    test(`W-8 a segment that is ${name} is named (read before: ${warm})`, async () => {
      const bad = await make(9)
      for (const deletionVectors of [[], [1, 2]]) {
        const segments = [good[0]!, good[1]!, withDeletionVectors(bad, deletionVectors), good[2]!]
        if (warm && deletionVectors.length === 0)
          for (const query of queries) await pool.counter(schema, query, segments)
        if (deletionVectors.length === 0) damage(bad.file)
        for (const query of queries) {
          // A footer is all that a plain count needs: damaged pages are found when they are read.
          if (name === 'zeroed pages' && query === queries[0]) continue
          const answer = pool.counter(schema, query, segments)
          await expect(answer).rejects.toMatchObject({ name: 'SegmentDamaged', file: bad.file })
        }
      }
    })
  }
}
