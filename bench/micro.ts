/**
 * Question: what does one call of the innermost code cost? The kernels, the key loops, the codecs
 * of keys and deletes, and the SQL of a question.
 *
 * Method: the package `benchmark` calls each case for some seconds, on one thread, and gives the
 * mean of its samples with the margin of error. Compare two builds in turn on a quiet machine.
 * Non-goals: threads, disks, the log.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Benchmark from 'benchmark'
import { readDeleteFile, writeDeleteFile } from '../src/format/delete-file.ts'
import { buildKeyRun, type KeyRun } from '../src/format/key-run.ts'
import { poolKey, TAG } from '../src/index/index-entry.ts'
import type { KeyStore } from '../src/index/index-store.ts'
import { openLmdbStore } from '../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../src/index/index-store-native.ts'
import { INDEX_MAP_BYTES } from '../src/index/open-index.ts'
import { duckdb } from '../src/query/duckdb/write-statement.ts'
import { type LeaderboardQuery, leaderboard } from '../src/query/plan/leaderboard.ts'
import { newContext } from '../src/query/plan/plan-context.ts'
import { encodeKeyParts } from '../test/util/key-parts.ts'
import { BENCH_SCHEMA } from './entries.ts'
import { kernelCases, type MicroCase } from './kernel.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { print, row, short } from './measure.ts'
import { numberOf, oneOf } from './options.ts'

/** Options of the command line, as text. */
interface MicroOptions {
  readonly only?: string | undefined
  readonly seconds?: string | undefined
}

/** What makes the cases of each group. */
const GROUPS = { kernel: kernelCases, keys: keyCases, codecs: codecCases, dialect: dialectCases }

const SECONDS = 3
const KEYS = 100_000
/** Keys of a run. Every tenth is in the store. */
const RUN_KEYS = 10_000
const FIRST_US = 1_767_225_600_000_000n

/** Measures every case, or those of the group `only`, for `seconds` (3) each. */
export async function benchMicro(options: MicroOptions): Promise<void> {
  const groups = Object.keys(GROUPS) as (keyof typeof GROUPS)[]
  const only = oneOf('only', options.only, groups)
  const seconds = Math.max(0.01, numberOf('seconds', options.seconds, SECONDS))
  const folder = benchFolder('weir-bench-micro-')
  try {
    for (const group of only === undefined ? groups : [only])
      for (const one of GROUPS[group](folder)) print(row(one.name, await measure(one, seconds)))
  } finally {
    removeFolder(folder)
  }
}

/** Waits between the samples, so that Ctrl-C is heard. */
function measure({ name, unit, count, bytes, call }: MicroCase, seconds: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const figure = new Benchmark(name, call, { async: true, maxTime: seconds })
    figure.on('error', () => reject(figure.error))
    figure.on('complete', () => {
      const { hz, stats } = figure
      const amount = bytes === undefined ? '' : `, ${short(hz * bytes)}B/s`
      const margin = `± ${stats.rme.toFixed(1)} %, ${stats.sample.length} samples`
      resolve(`${short(hz * count)} ${unit}/s${amount}, ${margin}`)
    })
    figure.run()
  })
}

/** The key (time, id) of event `number`, 33 bytes. */
function keyOf(number: number): Uint8Array {
  return encodeKeyParts([
    { type: 'TIMESTAMP', value: FIRST_US + BigInt(number) },
    { type: 'STRING', value: `evt_${String(number).padStart(20, '0')}` },
  ])
}

/** A run of `count` keys, `step` apart. */
function runOf(first: number, count: number, step: number, rowOf: (index: number) => number): KeyRun {
  return buildKeyRun(
    Array.from({ length: count }, (_, index) => ({ key: keyOf(first + index * step), row: rowOf(index) })),
  )
}

/** What ends a transaction so that the store stays as it is, and nothing is synced. */
const ROLL_BACK = new Error('rolled back')

function keyCases(folder: string): MicroCase[] {
  const prefix = poolKey(TAG.key, 1)
  // Of 10,000 keys 1,000 are known ones, and the others are new.
  const run = runOf(KEYS - 9_000, RUN_KEYS, 9, index => index)
  const opened = [tryOpenNativeStore, openLmdbStore].map((open, index) => {
    const path = join(folder, `keys-${index}`)
    mkdirSync(path)
    return open({ folder: path, mapBytes: INDEX_MAP_BYTES })
  })
  const stores = opened.filter((store): store is KeyStore => store !== undefined)
  return stores.map(store => {
    store.transact(txn =>
      txn.upsertKeys(
        prefix,
        runOf(0, KEYS, 1, index => index),
        1,
      ),
    )
    return {
      name: `keys ${store.keyLoop}, upsert a run, ${KEYS} stored`,
      unit: 'keys',
      count: RUN_KEYS,
      call() {
        try {
          store.transact(txn => {
            txn.upsertKeys(prefix, run, 2)
            throw ROLL_BACK
          })
        } catch (error) {
          if (error !== ROLL_BACK) throw error
        }
      },
    }
  })
}

function codecCases(): MicroCase[] {
  const keys = Array.from({ length: 1000 }, (_, number) => ({ key: keyOf(number), row: number }))
  const deletes = runOf(0, RUN_KEYS, 1, () => -1)
  const sequences = Float64Array.from({ length: RUN_KEYS }, (_, index) => index + 1)
  const header = {
    pool: 1,
    schemaVersion: 1,
    segment: 1,
    sequenceFrom: 1,
    sequenceTo: RUN_KEYS,
    rowsOfFlush: 0,
  }
  const file = writeDeleteFile(header, deletes, sequences)
  return [
    { name: 'encode a key', unit: 'keys', count: 1, call: () => keyOf(1) },
    { name: 'build a key run', unit: 'keys', count: keys.length, call: () => buildKeyRun([...keys]) },
    {
      name: 'write a delete file',
      unit: 'keys',
      count: RUN_KEYS,
      bytes: file.byteLength,
      call: () => writeDeleteFile(header, deletes, sequences),
    },
    {
      name: 'read a delete file',
      unit: 'keys',
      count: RUN_KEYS,
      bytes: file.byteLength,
      call: () => readDeleteFile(file, 'bench'),
    },
  ]
}

const QUESTION: LeaderboardQuery = {
  metric: { kind: 'sum', column: 'amount' },
  name: 'value',
  dimensions: ['type', 'tenant'],
  sort: 'DESC',
  rowLimit: 100,
  timeRange: { start: '2026-01-01T00:00:00Z', stop: '2026-01-31T00:00:00Z' },
  filters: [
    { column: 'tenant', operator: 'EQUALS', value: 'tenant-0042' },
    { column: 'quantity', operator: 'GREATER_THAN', value: '3' },
  ],
}

function dialectCases(): MicroCase[] {
  const planned = () => leaderboard.plan(BENCH_SCHEMA, QUESTION, newContext(Date.UTC(2026, 0, 31)))
  const plan = planned()
  return [
    { name: 'plan a leaderboard', unit: 'plans', count: 1, call: planned },
    { name: 'write its SQL', unit: 'statements', count: 1, call: () => duckdb.write(plan) },
  ]
}
