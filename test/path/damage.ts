/** Damages a stopped data folder, and reads its log and segments. */
import { closeSync, openSync, readdirSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { listFolder, readLogHeader } from '../../src/log/log-folder.ts'
import { type LogEnd, readLog } from '../../src/log/read-log.ts'
import type { ReadRecord } from '../../src/log/record-codec.ts'
import { disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import type { ColumnSpec, PoolSpec } from '../util/server.ts'

const column = (name: string, type: string): ColumnSpec => ({
  name,
  jsonProperty: name,
  type,
  nullable: false,
})

/** A pool with a key and a number to sum. */
export const KEYED: PoolSpec = {
  uniqueName: 'keyed',
  columns: [column('ts', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
  timestamp: 'ts',
  uniqueId: 'id',
}

/** Events of KEYED: ids `from` to `to - 1`, all with the number `n`. */
export function events(from: number, to: number, n = 1): { ts: string; id: string; n: number }[] {
  return Array.from({ length: to - from }, (_, i) => ({ ts: '2026-01-01', id: `e${from + i}`, n }))
}

/** The place of a log record. */
export type Place = Pick<ReadRecord, 'kind' | 'file' | 'fileOffset' | 'recordBytes' | 'bodyBytes'>

/** The log of a stopped folder: its records and its end. */
export function readStoppedLog(dataDir: string): { readonly records: Place[]; readonly end: LogEnd } {
  const folder = join(dataDir, 'log')
  const { files } = listFolder(disk, folder)
  const pools = new Map(Array.from({ length: 100 }, (_, number) => [number, 0]))
  const reader = readLog(disk, folder, files, must(readLogHeader(disk, folder), 'the head'), pools)
  const records: Place[] = []
  for (let step = reader.next(); ; step = reader.next()) {
    if (step.done === true) return { records, end: step.value }
    const { kind, file, fileOffset, recordBytes, bodyBytes } = step.value
    records.push({ kind, file, fileOffset, recordBytes, bodyBytes })
  }
}

/** Flips one bit of one byte. */
export function flipBit(file: string, offset: number, bit = 0): void {
  const byte = readBytes(file, offset, 1)
  writeBytes(file, offset, Uint8Array.of(byte[0]! ^ (1 << bit)))
}

export function readBytes(file: string, offset: number, count: number): Uint8Array {
  const handle = openSync(file, 'r')
  const bytes = new Uint8Array(count)
  readSync(handle, bytes, 0, count, offset)
  closeSync(handle)
  return bytes
}

export function writeBytes(file: string, offset: number, bytes: Uint8Array): void {
  const handle = openSync(file, 'r+')
  writeSync(handle, bytes, 0, bytes.length, offset)
  closeSync(handle)
}

/** The Parquet files of a pool. */
export function segmentsOf(dataDir: string, poolId: string): string[] {
  const folder = join(dataDir, 'segment', poolId)
  return readdirSync(folder)
    .filter(name => name.endsWith('.parquet'))
    .sort()
    .map(name => join(folder, name))
}
