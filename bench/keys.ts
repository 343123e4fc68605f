/**
 * What does the seal's key loop cost? Both stores, 28-byte keys in runs of 100,000, each run one transaction.
 *
 *   node dist/bench/keys.js [native|js] [million keys]
 *
 * Prints µs a key, as elapsed time and as processor time, of distinct ascending keys and then of runs in which
 * every tenth key is a random old one; and bytes a key on disk. Not measured: Parquet, hand-over, sorting.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { poolKey, TAG } from '../src/keys/record.ts'
import { openLmdbStore } from '../src/keys/store-lmdb.ts'
import { tryOpenNativeStore } from '../src/keys/store-native.ts'
import { INDEX_MAP_BYTES } from '../src/limits.ts'
import { must } from '../src/util/assert.ts'
import { say } from '../src/util/say.ts'

const RUN_KEYS = 100_000
const KEY_BYTES = 28
const UPDATE_RUNS = 5

const kind = process.argv[2] === 'js' ? 'js' : 'native'
const runs = Math.round(Number(process.argv[3] ?? 1) * 10)

/** A run of the keys numbered in `numbers`, which rise. */
function runOf(numbers: Float64Array): ArrayBuffer {
  const count = numbers.length
  const run = new ArrayBuffer(4 * (3 + 2 * count) + KEY_BYTES * count)
  new Int32Array(run, 0, 2).set([count, KEY_BYTES * count])
  const words = new Int32Array(run, 8, 2 * count + 1)
  const view = new DataView(run)
  for (let i = 0; i < count; i++) {
    const number = numbers[i] as number
    words[i] = i
    words[count + i + 1] = KEY_BYTES * (i + 1)
    const at = 4 * (3 + 2 * count) + KEY_BYTES * i
    view.setBigUint64(at, BigInt(number))
    for (let b = 8; b < KEY_BYTES; b += 4) view.setUint32(at + b, Math.imul(number + b, 0x9e3779b1) >>> 0)
  }
  return run
}

function ascending(first: number): Float64Array {
  return new Float64Array(RUN_KEYS).map((_, i) => first + i)
}

/** Nine new keys and a random old one, in turn; sorted. */
function withUpdates(first: number): Float64Array {
  const numbers = new Set<number>()
  while (numbers.size < RUN_KEYS / 10) numbers.add(Math.floor(Math.random() * first))
  for (let i = 0; numbers.size < RUN_KEYS; i++) numbers.add(first + i)
  return Float64Array.from(numbers).sort()
}

const folder = mkdtempSync(join(tmpdir(), 'weir-bench-keys-'))
const options = { folder, mapBytes: INDEX_MAP_BYTES }
const store = kind === 'js' ? openLmdbStore(options) : must(tryOpenNativeStore(options), 'the native module')
const prefix = poolKey(TAG.key, 1)

/** Applies `count` runs; returns µs a key elapsed (in the loop, with the commit) and of processor time. */
function measure(count: number, numbersOf: (run: number) => Float64Array, firstSegment: number) {
  let [loopMs, totalMs, cpuUs] = [0, 0, 0]
  for (let i = 0; i < count; i++) {
    const run = runOf(numbersOf(i))
    const cpu = process.cpuUsage()
    const start = performance.now()
    store.transact(txn => {
      txn.upsertKeys(prefix, run, firstSegment + i)
      loopMs += performance.now() - start
    })
    totalMs += performance.now() - start
    const { user, system } = process.cpuUsage(cpu)
    cpuUs += user + system
  }
  const keys = count * RUN_KEYS
  const us = (ms: number) => ((1000 * ms) / keys).toFixed(2)
  return `${us(loopMs)} µs a key in the loop, ${us(totalMs)} with commit and sync, ${(cpuUs / keys).toFixed(2)} of processor`
}

try {
  const last = Math.min(5, runs)
  say(`${kind}, ${(runs * RUN_KEYS) / 1e6}M keys ascending`)
  say(`  all          ${measure(runs - last, i => ascending(i * RUN_KEYS), 1)}`)
  say(`  last 500k    ${measure(last, i => ascending((runs - last + i) * RUN_KEYS), runs)}`)
  say(`  ${Math.round(statSync(join(folder, 'data.mdb')).size / (runs * RUN_KEYS))} bytes a key on disk`)
  const updates = measure(UPDATE_RUNS, i => withUpdates(runs * RUN_KEYS + i * RUN_KEYS), 2 * runs)
  say(`  10 % random updates  ${updates}`)
} finally {
  store.close()
  rmSync(folder, { recursive: true, force: true })
}
