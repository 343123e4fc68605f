/**
 * Columns that are added to a pool whose records have a key of two columns and a version column:
 * the versions of the schema and those of the rows do not disturb each other.
 */
import { afterAll, expect, test } from 'vitest'
import { addColumn } from '../jobs/add-column.ts'
import { crossRead } from '../util/cross-read.ts'
import { below, newSeed, randomFrom } from '../util/random.ts'
import { removeLeftovers, send, startServer } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { column } from './client.ts'
import { OFTEN } from './compaction.ts'

afterAll(removeLeftovers)

const POOL = {
  uniqueName: 'versions',
  columns: [column('a', 'STRING'), column('b', 'INT64'), column('v', 'INT64'), column('n', 'INT64')],
  uniqueId: 'a',
  tableSettings: { engine: { replacingMergeTree: { ver: 'v' } }, orderBy: ['b', 'a'] },
}
const COLUMNS = 8
const OPERATIONS = 60
const seed = newSeed()

interface Row {
  readonly v: number
  readonly n: number
  /** Columns that the pool had when it was posted. */
  readonly columns: number
}

test(`the highest version wins, with the columns of its own time (seed ${seed})`, async () => {
  const random = randomFrom(seed)
  let server = await startServer({ env: OFTEN })
  const { dataDir } = server
  const pool = await server.createPool(POOL)
  const wanted = new Map<string, Row>()
  let n = 0
  const ask = async (body: unknown, method: 'POST' | 'DELETE') => {
    const { status } = await send(server.base + new URL(pool.url).pathname, body, method)
    expect(status).toBe(200)
  }
  for (let columns = 0; columns <= COLUMNS; columns++) {
    if (columns > 0) await addColumn(server, pool.poolId, `c${columns}`, 'STRING')
    for (let operation = 0; operation < OPERATIONS; operation++) {
      const [a, b] = [`a${below(random, 5)}`, below(random, 6)]
      const key = `${a}/${b}`
      n += 1
      if (random() < 0.1) {
        await ask([{ a, b }], 'DELETE')
        wanted.delete(key)
      } else {
        const v = below(random, 20)
        const added = Object.fromEntries(Array.from({ length: COLUMNS }, (_, i) => [`c${i + 1}`, `${n}`]))
        await ask([{ a, b, v, n, ...added }], 'POST')
        if (v >= (wanted.get(key)?.v ?? -1)) wanted.set(key, { v, n, columns })
      }
      if (random() < 0.2) await server.count(pool.poolId) // flushes what is there
    }
    if (columns % 3 === 1) {
      await server.kill()
      server = await startServer({ dataDir, env: OFTEN })
    }
  }
  expect((await server.stop()).code).toBe(0)
  const expected = [...wanted].map(([key, row]) => {
    const own = Array.from({ length: row.columns }, () => String(row.n))
    return [key, String(row.v), String(row.n), ...own].join()
  })
  const check = async () => {
    await verifyFolder(dataDir)
    const found = ((await crossRead(dataDir)).get(pool.poolId) ?? []).map(row => {
      const added = Array.from({ length: COLUMNS }, (_, i) => row[`c${i + 1}`] ?? null)
      return [`${row['a']}/${row['b']}`, row['v'], row['n'], ...added.filter(value => value !== null)].join()
    })
    expect(found.sort()).toEqual(expected.sort())
  }
  await check()
  await rebuildFolder(dataDir)
  await check()
})
