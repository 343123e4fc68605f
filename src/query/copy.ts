/** The rows of a result into a file instead of an answer: Arrow record batches, written chunk by chunk. */
import type { DuckDBResult } from '@duckdb/node-api'
import type { ColumnType } from '../batch/plan.ts'
import { Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { collectYoung } from '../util/collect.ts'
import { type Disk, disk } from '../util/disk.ts'
import { rawColumn } from './raw-column.ts'
import { RecordBatches } from './record-batch.ts'
import { gatherTextsJs, tryGatherTextsNative } from './text-gatherer.ts'

/**
 * Writes a new file of IPC messages, one behind the other, without schema and end. Returns the rows.
 * @param types of the result's columns
 * @param gatherer `js`: the TypeScript one, even where the native module is there
 * @param check throws where the copy is to be given up; called for each chunk
 */
export async function copyBatches(
  result: DuckDBResult,
  types: readonly ColumnType[],
  file: string,
  gatherer: 'native' | 'js' | undefined,
  check: () => void,
): Promise<number> {
  assert(result.columnCount === types.length, 'a statement has the columns that were planned')
  const gather = (gatherer === 'js' ? undefined : tryGatherTextsNative()) ?? gatherTextsJs
  const on: Disk = disk
  const handle = orUnavailable(file, () => on.open(file, 'wx'))
  try {
    let position = 0
    const batches = new RecordBatches(gather, message => {
      orUnavailable(file, () => on.write(handle, message, position))
      position += message.reduce((sum, { byteLength }) => sum + byteLength, 0)
    })
    let rows = 0
    let written = 0
    for (;;) {
      check()
      if (position > written) collectYoung() // the chunks of what was written
      written = position
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) break
      const columns = types.map((type, index) => rawColumn(chunk, index, type))
      batches.add(columns, chunk.rowCount)
      rows += chunk.rowCount
    }
    check()
    batches.flush()
    return rows
  } finally {
    on.close(handle)
  }
}

/** What goes wrong with the copy is the machine's fault, and no segment's. */
function orUnavailable<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Unavailable('query_io', `${file} cannot be written: ${(error as Error).message}`)
  }
}
