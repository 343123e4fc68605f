/**
 * A Parquet body as rows. Its table of contents stands at its end, so the body is written to a file
 * of its own first, which a process reads (parquet-process.ts).
 *
 *   W-9  The disk keeps SPOOL_FREE_BYTES_MIN free: the log needs it. The file goes when the import
 *        ends, and a start removes files that were left.
 */
import { rmSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Callee } from '../../util/callee.ts'
import { disk, isDiskError, isOutOfRoom } from '../../util/disk.ts'
import { assert, BodyBroken, Unavailable } from '../../util/errors.ts'
import { MiB, PARQUET_MEMORY_BYTES, QUERY_NICE, SPOOL_FREE_BYTES_MIN } from '../../util/limits.ts'
import { startProcess } from '../../util/process-kit.ts'
import type { Pieces } from '../gunzip.ts'
import { EventFields } from './compare-fields.ts'
import { type Done, type ImportOptions, PARQUET_SMALLER, type RowBatch, TOO_LONG } from './import-types.ts'
import type { ParquetCalls } from './parquet-process.ts'
import type { RowBatches } from './row-batches.ts'

/** Bytes of a Parquet body between two looks at the free space. */
const SPOOL_CHECK_BYTES = 16 * MiB
/** Megabytes of JavaScript values in the process that reads a Parquet body: a chunk's events. */
const PARQUET_HEAP_MIB = 256
/**
 * Bytes that the system gives the process that reads a Parquet body: the last resort. It counts
 * addresses: 4,000 columns need 1.5 GiB of them, and 350 MB of memory.
 */
const PARQUET_DATA_BYTES_MAX = PARQUET_MEMORY_BYTES + 1_152 * MiB

/** The batches of a Parquet body. A row's line is its number. */
export async function* parquetBatches(
  { columns, naming, skipRows, spoolFile }: ImportOptions,
  pieces: Pieces,
  batches: RowBatches,
): AsyncGenerator<RowBatch, Done, void> {
  try {
    await spool(pieces, spoolFile)
    const process = startProcess<ParquetCalls>({
      name: 'parquet',
      data: undefined,
      nice: QUERY_NICE,
      crashAt: '',
      heapMiB: PARQUET_HEAP_MIB,
      dataBytesMax: PARQUET_DATA_BYTES_MAX,
      lost: readerLost,
    })
    try {
      const opened = await process.call('open', { file: spoolFile, columns, naming, skipRows })
      if (opened.compared === undefined) batches.events = new EventFields(columns)
      else batches.compared = opened.compared
      let { skipped } = opened
      for (; skipped > 0; skipped -= 1) batches.skips()
      yield* rowsOf(process, batches)
    } finally {
      await process.terminate()
    }
  } finally {
    rmSync(spoolFile, { force: true })
  }
  return { rows: batches.rows, bytes: 0, ...batches.takeCompared() }
}

/** How a process ends that touched memory which is not its own: a damaged file made it do so. */
const CRASHED = /SIGSEGV|SIGBUS|SIGILL|SIGFPE/

/**
 * The reader has ended. V8, and libraries without a handler, abort the process where the system
 * gives them no memory. The kernel ends it where the machine has none.
 */
function readerLost({ message }: Error): BodyBroken {
  if (CRASHED.test(message)) return new BodyBroken('broken_parquet', 'the file is damaged: its reader failed')
  const how = message.replace(/^the parquet process \S+ /, '')
  return new BodyBroken(
    'broken_parquet',
    `the reader of the file ${how}: it took too much memory, or the file is damaged${PARQUET_SMALLER}`,
  )
}

async function* rowsOf(
  process: Callee<ParquetCalls>,
  batches: RowBatches,
): AsyncGenerator<RowBatch, void, void> {
  try {
    for (;;) {
      const { bytes, lengths } = await process.call('next', undefined)
      if (lengths.length === 0) break
      let from = 0
      for (const length of lengths) {
        const line = batches.rows + 1
        const end = from + Math.max(0, length)
        const full =
          end > from
            ? batches.add(bytes, from, end, line, 0)
            : batches.refuse(length === TOO_LONG ? 'row_too_long' : 'no_payload', line, 0)
        if (full !== undefined) yield full
        from = end
      }
      assert(from === bytes.byteLength, 'the rows take all bytes')
    }
  } finally {
    if (batches.hasRows) yield batches.take(0)
  }
}

/** Writes the body to a new file. @throws Unavailable without room, or where the disk failed */
async function spool(pieces: Pieces, path: string): Promise<void> {
  try {
    await writePieces(pieces, path)
  } catch (error) {
    if (isOutOfRoom(error)) throw noRoom()
    if (!isDiskError(error)) throw error
    throw new Unavailable('tmp_failed', `${path} cannot be written: ${error.message}`)
  }
}

async function writePieces(pieces: Pieces, path: string): Promise<void> {
  const file = disk.open(path, 'wx')
  try {
    let [written, unchecked] = [0, SPOOL_CHECK_BYTES]
    for await (const piece of pieces) {
      unchecked += piece.byteLength
      if (unchecked >= SPOOL_CHECK_BYTES) {
        const { bavail, bsize } = statfsSync(dirname(path))
        if (bavail * bsize < SPOOL_FREE_BYTES_MIN) throw noRoom()
        unchecked = 0
      }
      disk.write(file, [piece], written)
      written += piece.byteLength
    }
  } finally {
    disk.close(file)
  }
}

function noRoom(): Unavailable {
  return new Unavailable(
    'tmp_full',
    `the disk of the data folder has no room for the file: a Parquet file is kept in data/tmp while it is read, and ${SPOOL_FREE_BYTES_MIN} bytes stay free`,
  )
}
