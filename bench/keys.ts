/**
 * Question: what does the key index cost as it grows? It runs the real index, one commit per flush.
 *
 *   fill      keys of 28 bytes (timestamp, id) as 64 producers send them: times rise by batch, up
 *             to 2 s late, ids rise inside a batch. `--pattern ascending`: times and ids rise
 *             together. Prints bytes per key and the commit's time (p50, p99, max), also of the
 *             last tenth; then of commits in which every tenth key is a known one.
 *   restart   opening that index again, from the page cache.
 *   rebuild   the index from as many rows in Parquet segments of 1M rows each, which DuckDB makes
 *             first.
 *
 * Non-goals: Parquet of the flush, messages between threads, reads from a cold disk.
 */
import { mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import type { PoolSchema } from '../src/format/schema.ts'
import type { SegmentMeta } from '../src/format/segment-meta.ts'
import { openLmdbStore } from '../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../src/index/index-store-native.ts'
import { Index } from '../src/index/key-index.ts'
import { INDEX_MAP_BYTES, openIndexFolder } from '../src/index/open-index.ts'
import { disk } from '../src/util/disk.ts'
import { assert, must } from '../src/util/errors.ts'
import { FLUSH_ROWS } from '../src/util/limits.ts'
import { chooseNative, type KernelChoice } from '../src/util/native.ts'
import { segmentFile } from '../src/util/paths.ts'
import { createRandom } from './events.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { latencies, print } from './measure.ts'
import { numberOf, oneOf } from './options.ts'

/** Options of the command line, as text. */
interface KeysOptions {
  readonly keys?: string | undefined
  readonly kernel?: string | undefined
  readonly pattern?: string | undefined
}

const KEY_BYTES = 28
const BATCH = 500
const PRODUCERS = 64
const LATE_US = 2_000_000
const SEGMENT_ROWS = 1_000_000
const FIRST_US = 1_767_225_600_000_000
const UPDATE_RUNS = 4
/** Distinct known keys in a commit of updates. */
const UPDATE_KEYS_MIN = FLUSH_ROWS / 10

/**
 * Fills `keys` (1M) with `kernel` (native where it is built) in `pattern` (producers), reopens and
 * rebuilds.
 */
export async function benchKeys(options: KeysOptions): Promise<void> {
  const keys = Math.max(UPDATE_KEYS_MIN, numberOf('keys', options.keys, 1_000_000))
  const kernel = chooseNative(oneOf('kernel', options.kernel, ['native', 'js']) ?? '')
  const pattern = oneOf('pattern', options.pattern, ['ascending', 'producers']) ?? 'producers'
  print(
    `keys: ${keys / 1e6}M keys of ${KEY_BYTES} bytes, ${kernel} key loop, ${pattern}, ${FLUSH_ROWS} keys a flush`,
  )
  const root = benchFolder('weir-bench-keys-')
  try {
    fill(join(root, 'index'), keys, kernel, pattern === 'producers' ? lateTimes() : risingTimes())
    restart(join(root, 'index'), keys, kernel)
    rmSync(join(root, 'index'), { recursive: true })
    await measureRebuild(root, keys, kernel)
  } finally {
    removeFolder(root)
  }
}

function open(folder: string, kernel: KernelChoice): Index {
  mkdirSync(folder, { recursive: true })
  const options = { folder, mapBytes: INDEX_MAP_BYTES }
  const store =
    kernel === 'js' ? openLmdbStore(options) : must(tryOpenNativeStore(options), 'the native module')
  return new Index(store, 'bench')
}

/** The timestamp of batch `number`, µs. */
type Times = (number: number) => number

function lateTimes(): Times {
  const random = createRandom(7)
  // Together 64 producers send a batch per ms. Each is late by its own time and a little more.
  const late = Array.from({ length: PRODUCERS }, () => Math.floor(random() * LATE_US))
  return number =>
    FIRST_US + number * 1000 - must(late[number % PRODUCERS], 'a producer') - Math.floor(random() * 50_000)
}

function risingTimes(): Times {
  return number => FIRST_US + number * 1000
}

/** A sorted run of keys (time, number): number n belongs to batch n / 500. */
function runOf(numbers: readonly number[], timeOf: (number: number) => number): ArrayBuffer {
  const pairs = numbers.map(number => [timeOf(number), number] as const)
  pairs.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  const count = pairs.length
  const run = new ArrayBuffer(4 * (3 + 2 * count) + KEY_BYTES * count)
  new Int32Array(run, 0, 2).set([count, KEY_BYTES * count])
  const words = new Int32Array(run, 8, 2 * count + 1)
  const view = new DataView(run)
  for (const [i, [time, number]] of pairs.entries()) {
    words[i] = i
    words[count + i + 1] = KEY_BYTES * (i + 1)
    const at = 4 * (3 + 2 * count) + KEY_BYTES * i
    view.setUint32(at, Math.floor(time / 0x1_0000_0000))
    view.setUint32(at + 4, time >>> 0)
    view.setUint8(at + 8, KEY_BYTES - 9)
    for (let b = 9; b + 4 <= KEY_BYTES; b += 4) view.setUint32(at + b, number)
  }
  return run
}

function metaOf(segment: number, rows: number): SegmentMeta {
  const zoneMap = { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: 0, timestampToUs: 0, tenant: null }
  return {
    segment,
    rows,
    bytes: 1,
    checksum: 1,
    schemaVersion: 1,
    deletes: 0,
    sequenceFrom: segment,
    sequenceTo: segment,
    ...zoneMap,
  }
}

function fill(folder: string, keys: number, kernel: KernelChoice, times: Times): void {
  const index = open(folder, kernel)
  const timeOfBatch: number[] = []
  const timeOf = (number: number) => {
    const batch = Math.floor(number / BATCH)
    while (timeOfBatch.length <= batch) timeOfBatch.push(times(timeOfBatch.length))
    return must(timeOfBatch[batch], 'a time')
  }
  const commits: number[] = []
  let segment = 1
  const commit = (numbers: readonly number[]) => {
    const run = runOf(numbers, timeOf)
    const start = performance.now()
    index.commit([
      { pool: 1, add: metaOf(segment, numbers.length), remove: [], keys: run, flushedSequence: segment },
    ])
    commits.push(performance.now() - start)
    segment += 1
  }
  const cpu = process.cpuUsage()
  for (let from = 0; from < keys; from += FLUSH_ROWS) {
    commit(Array.from({ length: Math.min(FLUSH_ROWS, keys - from) }, (_, i) => from + i))
    if (segment % 40 === 0)
      print(`  ${((from + FLUSH_ROWS) / 1e6).toFixed(1)}M keys, ${bytesOf(folder, from + FLUSH_ROWS)}`)
  }
  const { user, system } = process.cpuUsage(cpu)
  print(`  fill: ${bytesOf(folder, keys)}`)
  print(
    `  commit of a flush, all          ${latencies(commits)} (process ${((user + system) / keys).toFixed(2)} µs a key, sorting included)`,
  )
  print(`  commit of a flush, last tenth   ${latencies(commits.slice(Math.floor(commits.length * 0.9)))}`)
  commits.length = 0
  const random = createRandom(11)
  for (let i = 0; i < UPDATE_RUNS; i++) {
    const numbers = new Set<number>()
    while (numbers.size < FLUSH_ROWS / 10) numbers.add(Math.floor(random() * keys))
    for (let n = keys + i * FLUSH_ROWS; numbers.size < FLUSH_ROWS; n++) numbers.add(n)
    commit([...numbers])
  }
  print(`  … every tenth key a known one  ${latencies(commits)}`)
  index.close()
}

function bytesOf(folder: string, keys: number): string {
  const { size } = statSync(join(folder, 'data.mdb'))
  return `${(size / 1e6).toFixed(0)} MB, ${(size / keys).toFixed(1)} bytes a key`
}

function restart(folder: string, keys: number, kernel: KernelChoice): void {
  const start = performance.now()
  const index = open(folder, kernel)
  const { pools } = index.state()
  const opened = performance.now() - start
  const counted = performance.now()
  const count = index.countKeys(1)
  assert(count >= keys, 'every key is in the index')
  print(
    `  restart: ${opened.toFixed(0)} ms with ${pools[0]?.segments.length} segments; a count of all keys ${(performance.now() - counted).toFixed(0)} ms`,
  )
  index.close()
}

const SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [
    { name: 'at', type: 'TIMESTAMP', jsonProperty: 'at', required: true },
    { name: 'id', type: 'STRING', jsonProperty: 'id', required: true },
  ],
  timestamp: 0,
  tenant: -1,
  key: { columns: [0, 1], version: -1 },
}

async function writeSegments(folder: string, keys: number): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
  const duck = await instance.connect()
  await duck.run("SET TimeZone = 'UTC'")
  for (let from = 0, segment = 1; from < keys; from += SEGMENT_ROWS, segment++) {
    const rows = Math.min(SEGMENT_ROWS, keys - from)
    const time = (offset: number) =>
      `make_timestamp(${FIRST_US} + (i // ${BATCH}) * 1000 + ${offset})::TIMESTAMPTZ`
    const footer = {
      format: 1,
      pool: 'pool',
      pool_number: 1,
      schema_version: 1,
      segment,
      rows,
      deletes: 0,
      replaces: '',
    }
    const all = { ...footer, sequence_from: segment, sequence_to: segment }
    const pairs = Object.entries(all).map(([name, value]) => `"weir.${name}": '${value}'`)
    await duck.run(`COPY (SELECT ${time(9)} AS _service_received_at, '{"n":' || i || '}' AS _service_payload, ${time(0)} AS at,
      printf('%019d', i) AS id, ${segment}::BIGINT AS _service_sequence FROM range(${from}, ${from + rows}) t(i))
      TO '${join(folder, segmentFile(segment))}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 65536, KV_METADATA {${pairs.join(', ')}})`)
  }
  duck.closeSync()
  instance.closeSync()
}

async function measureRebuild(root: string, keys: number, kernel: KernelChoice): Promise<void> {
  await writeSegments(join(root, 'segment', 'POOL'), keys)
  const cpu = process.cpuUsage()
  const start = performance.now()
  const { index } = await openIndexFolder({
    disk,
    folder: join(root, 'index'),
    segmentFolder: join(root, 'segment'),
    identity: 'bench',
    pools: [{ pool: 1, poolId: 'POOL', schemas: [SCHEMA] }],
    kernel,
    loggedSequences: () => undefined,
    onProgress: () => undefined,
  })
  const seconds = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const used = (user + system) / 1e6
  assert(index.countKeys(1) === keys, 'every key is in the index')
  print(
    `  rebuild: ${seconds.toFixed(1)} s, ${(keys / seconds / 1e6).toFixed(2)}M rows/s, ${(keys / used / 1e6).toFixed(2)}M rows per CPU-second, ${bytesOf(join(root, 'index'), keys)}`,
  )
  index.close()
}
