/**
 * Question: what does each step of a flush cost in processor time, by the order of its keys?
 *
 *   rising       requests as `bench -- path` sends them: one time per request, ids that rise
 *   interleaved  64 producers send in turn, each late by its own time; times rise within a request
 *   random       random times within an hour and random ids
 *   one key      every row has the same key: one row remains
 *
 * Method: 100,000 bench events in six columns with their payload, 500 per request. Each round has
 * the same rows with keys a day later, and the index grows. Prints ms of CPU of this thread for
 * each step (medians), and MB/s of batches. Non-goals: messages between threads, merges.
 */
import { join } from 'node:path'
import { columnView, FIRST_SCHEMA_COLUMN, KEY_COLUMN } from '../src/format/batch-layout.ts'
import { poolKey, TAG } from '../src/index/index-entry.ts'
import { tryOpenNativeStore } from '../src/index/index-store-native.ts'
import type { MemtableEntry } from '../src/store/flush/memtable.ts'
import { layOutStream, writeStreamFrame } from '../src/store/segment/arrow-stream.ts'
import { countRows, tryAssemblerNative } from '../src/store/segment/assembler.ts'
import { tryEncoderNative } from '../src/store/segment/parquet-encoder.ts'
import { publishSegment } from '../src/store/segment/publish-segment.ts'
import { zoneMapOf } from '../src/store/segment/write-segment.ts'
import { crc32 } from '../src/util/crc32.ts'
import { disk } from '../src/util/disk.ts'
import { must } from '../src/util/errors.ts'
import { tryNative } from '../src/util/native.ts'
import { threadCpuClock } from '../src/util/this-thread.ts'
import { encodeKeyParts } from '../test/util/key-parts.ts'
import { entriesOf, BENCH_SCHEMA as schema } from './entries.ts'
import { BATCH_EVENTS, BENCH_SEED, createRandom } from './events.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { median, print, row, short } from './measure.ts'
import { numberOf, oneOf } from './options.ts'

const ROWS = 100_000
const PRODUCERS = 64
const LATE_MS = 2_000
const FIRST_MS = Date.UTC(2026, 0, 1)
const DAY_US = 86_400_000_000n
const STEPS = ['deduplicate', 'gather', 'encode', 'write', 'keys'] as const

/** Options of the command line, as text. */
interface FlushesOptions {
  /** One of PATTERNS. */
  readonly pattern?: string | undefined
  readonly rounds?: string | undefined
}

interface Identity {
  readonly timeMs: number
  readonly id: string
}

type Times = Record<(typeof STEPS)[number], number>

/** The order of keys of each pattern: the identity of event number `index`. */
const PATTERNS: Readonly<Record<string, () => (index: number, id: string) => Identity>> = {
  rising: () => (index, id) => ({ timeMs: FIRST_MS + Math.floor(index / BATCH_EVENTS), id }),
  interleaved: () => {
    const random = createRandom(BENCH_SEED)
    const late = Array.from({ length: PRODUCERS }, () => Math.floor(random() * LATE_MS))
    return (index, id) => {
      const producer = Math.floor(index / BATCH_EVENTS) % PRODUCERS
      return { timeMs: FIRST_MS + Math.floor(index / 10) - must(late[producer], 'a producer'), id }
    }
  },
  random: () => {
    const random = createRandom(BENCH_SEED)
    return () => ({
      timeMs: FIRST_MS + Math.floor(random() * 3_600_000),
      id: `${random()}${random()}`.slice(2, 26),
    })
  },
  'one key': () => () => ({ timeMs: FIRST_MS, id: 'the one' }),
}

/** Prints a line for each pattern. */
export async function benchFlushes(options: FlushesOptions): Promise<void> {
  const rounds = numberOf('rounds', options.rounds, 9)
  const asked = oneOf('pattern', options.pattern, Object.keys(PATTERNS))
  if (tryNative() === undefined) {
    print('flushes: the native module is not built; this question measures its steps')
    return
  }
  print(`flushes: ${ROWS} rows a flush, ${rounds} rounds, median ms of CPU`)
  for (const [pattern, identify] of Object.entries(PATTERNS)) {
    if (asked !== undefined && asked !== pattern) continue
    const { times, bytes, fileBytes } = measure(identify(), rounds)
    const parts = STEPS.map(step => ({ step, ms: median(times.map(one => one[step])) }))
    const sum = parts.reduce((all, { ms }) => all + ms, 0)
    const cells = parts.map(({ step, ms }) => `${step} ${ms.toFixed(1)}`).join(', ')
    print(
      row(
        pattern,
        `${cells}; all ${sum.toFixed(1)} ms, ${short((bytes / sum) * 1000)}B/s, file ${fileBytes} bytes`,
      ),
    )
  }
}

function measure(identify: (index: number, id: string) => Identity, rounds: number) {
  const entries = entriesOf(0, ROWS, BATCH_EVENTS, (index, id) => {
    const { timeMs, id: value } = identify(index, id)
    return encodeKeyParts([
      { type: 'TIMESTAMP', value: timeMs * 1000 },
      { type: 'STRING', value },
    ])
  })
  const folder = benchFolder('weir-bench-')
  const indexFolder = join(folder, 'index')
  disk.mkdir(indexFolder)
  const store = must(tryOpenNativeStore({ folder: indexFolder, mapBytes: 2 ** 34 }), 'the native module')
  try {
    const flush = flusher(join(folder, 'segment'), store)
    const times: Times[] = []
    let fileBytes = 0
    for (let round = 0; round <= rounds; round++) {
      const one = flush(entries, round + 1)
      if (round > 0) times.push(one.times) // the first round makes the memory that the others reuse
      fileBytes = one.fileBytes
      ageKeys(entries)
    }
    return { times, fileBytes, bytes: entries.reduce((sum, { batch }) => sum + batch.byteLength, 0) }
  } finally {
    store.close()
    removeFolder(folder)
  }
}

/** Moves all keys a day ahead: the same order, unknown to the index. */
function ageKeys(entries: readonly MemtableEntry[]): void {
  for (const { batch } of entries) {
    const { offsetsOffset, dataOffset } = columnView(batch, KEY_COLUMN)
    const offsets = new Int32Array(batch, offsetsOffset, BATCH_EVENTS)
    const data = new DataView(batch, dataOffset)
    for (const offset of offsets) data.setBigUint64(offset, data.getBigUint64(offset) + DAY_US)
  }
}

/** Runs the steps of store/segment/write-segment.ts and index/apply-commit.ts, and times each. */
function flusher(folder: string, store: NonNullable<ReturnType<typeof tryOpenNativeStore>>) {
  const assembler = must(tryAssemblerNative(), 'the native module')
  const encoder = must(tryEncoderNative(), 'the native module')
  const cpuMs = must(threadCpuClock(), 'the native module')
  let scratch = new ArrayBuffer(0)
  return (entries: readonly MemtableEntry[], segment: number) => {
    const laps = [cpuMs()]
    const lap = () => void laps.push(cpuMs())
    const deduplicated = assembler.deduplicate(entries, true, FIRST_SCHEMA_COLUMN + schema.columns.length)
    const rows = countRows(deduplicated.keep)
    lap()
    const layout = layOutStream(schema, rows, deduplicated.sums, undefined)
    if (scratch.byteLength < layout.bytes) scratch = new ArrayBuffer(layout.bytes)
    const stream = new Uint8Array(scratch, 0, layout.bytes)
    writeStreamFrame(stream, layout)
    assembler.gather(entries, deduplicated.keep, stream, layout.places)
    zoneMapOf(schema, { stream, layout, rows, sums: deduplicated.sums }, assembler)
    lap()
    const parquet = encoder.encode(stream, layout, schema, rows, new Map([['weir.format', '1']]), {
      entries,
      keep: deduplicated.keep,
    })
    lap()
    publishSegment(disk, folder, segment, { parquet, deletes: undefined })
    crc32(parquet)
    lap()
    store.transact(txn =>
      txn.upsertKeys(poolKey(TAG.key, schema.pool), must(deduplicated.keys, 'keys'), segment),
    )
    lap()
    const times = Object.fromEntries(STEPS.map((step, i) => [step, laps[i + 1]! - laps[i]!])) as Times
    return { times, fileBytes: parquet.length }
  }
}
