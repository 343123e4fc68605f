/**
 * W-6: a server without an index rebuilds it from the segments that the native encoder wrote.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parquetMetadata } from 'hyparquet'
import { expect, test } from 'vitest'
import { tryNative } from '../../src/util/native.ts'
import { send, startServer, temporaryFolder } from '../util/server.ts'

test.runIf(tryNative() !== undefined)('an index deleted between two lives is made again', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const args = ['--kernel', 'native']
  const first = await startServer({ dataDir, args })
  const pool = await first.createPool({
    columns: [
      { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
      { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
      { name: 'n', jsonProperty: 'n', type: 'INT64', nullable: true },
    ],
    timestamp: 'at',
    uniqueId: 'id',
  })
  const event = (i: number, n: number) => ({ id: `id-${i}`, at: '2026-01-01T00:00:00Z', n })
  const events = Array.from({ length: 400 }, (_, i) => event(i, 1))
  expect((await send(pool.url, events)).status).toBe(200)
  expect(await first.count(pool.poolId)).toBe('400')
  expect((await first.stop()).code).toBe(0)

  const folder = join(dataDir, 'segment')
  const files = (readdirSync(folder, { recursive: true }) as string[]).filter(name =>
    name.endsWith('.parquet'),
  )
  const metadata = parquetMetadata(Uint8Array.from(readFileSync(join(folder, files[0]!))).buffer)
  // Written by the native encoder.
  expect(metadata.row_groups[0]!.columns[1]!.meta_data!.codec).toBe('LZ4_RAW')
  rmSync(join(dataDir, 'index'), { recursive: true })

  const second = await startServer({ dataDir, args })
  expect(await second.count(pool.poolId)).toBe('400')
  expect((await send(pool.url.replace(first.base, second.base), [event(7, 100)])).status).toBe(200)
  expect(await second.count(pool.poolId)).toBe('400') // the key is in the index
  expect(await second.sum(pool.poolId, 'n')).toBe('499')
  expect((await second.stop()).code).toBe(0)
})
