/** Copies left by a killed process, a failed export thread or a stop are removed. */
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { ExportClient } from '../../../src/query/arrow/export-client.ts'
import { sweepCopies } from '../../../src/query/copy-rows.ts'
import { exportFile, spillFolder } from '../../../src/util/paths.ts'
import { temporaryFolder } from '../../util/server.ts'

const folder = temporaryFolder()

/** A copy without a row. */
function emptyCopy(name: string) {
  const file = join(folder, name)
  writeFileSync(file, '')
  return { file, rows: 0 }
}

test('copies of an earlier process with the same id are removed, and copies of this process stay', async () => {
  const left = [
    `export-${process.pid}-0.parquet`,
    `export-${process.pid}-1.parquet`,
    'export-0123456789abcdef-1.parquet',
  ]
  const ours = basename(exportFile(folder, 1))
  expect(left).not.toContain(ours)
  for (const name of [...left, ours, 'other']) emptyCopy(name)
  mkdirSync(spillFolder(folder, 'penalty'))
  emptyCopy('penalty/duckdb_temp_storage_S32K-0.tmp')
  await sweepCopies(folder)
  expect(readdirSync(folder).sort()).toEqual([ours, 'other'].sort())
})

test('after the thread failed its files are Unavailable, and the next thread reads new ones', async () => {
  const client = new ExportClient()
  const begun = once(process, 'worker')
  const one = await client.open(emptyCopy('one'))
  const [worker] = (await begun) as [Worker]
  await worker.terminate()
  const two = await client.open(emptyCopy('two'))
  await expect(one.next()).rejects.toMatchObject({ name: 'Unavailable', code: 'export_thread' })
  await one.close()
  expect(await two.next()).toBe(undefined)
  await two.close()
  await client.stop()
})

test('after the stop: a copy that comes too late is removed, and an open one needs no close', async () => {
  const client = new ExportClient()
  const source = await client.open(emptyCopy('early'))
  await client.stop()
  const { file, rows } = emptyCopy('late')
  await expect(client.open({ file, rows })).rejects.toMatchObject({ code: 'stopping' })
  expect(existsSync(file)).toBe(false)
  await expect(source.next()).rejects.toMatchObject({ code: 'stopping' })
  await source.close()
})
