/**
 * Both stores against a Map: the same changes give the same contents, and each store opens the
 * files of the other.
 */
import { describe, expect, test } from 'vitest'
import { buildKeyRun } from '../../src/format/key-run.ts'
import { poolKey, TAG } from '../../src/index/index-entry.ts'
import type { KeyStore, KeyTxn } from '../../src/index/index-store.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { MAP_BYTES, STORES } from './flushes.ts'

const ALL: readonly [Uint8Array, Uint8Array] = [Uint8Array.of(0), Uint8Array.of(255)]
const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1')
const bytesOf = (text: string) => Buffer.from(text, 'latin1')

/** Everything in the store, as text. */
function contents(store: KeyStore): Map<string, string> {
  return store.transact(
    txn => new Map(txn.range(...ALL, 1_000_000).map(([key, value]) => [latin1(key), latin1(value)])),
  )
}

function sorted(model: Map<string, string>): [string, string][] {
  return [...model].sort(([a], [b]) => Buffer.compare(bytesOf(a), bytesOf(b)))
}

type Random = (below: number) => number

function randomKey(random: Random): string {
  const bytes = new Uint8Array(1 + random(12)).map(() => 97 + random(4))
  return `x${latin1(bytes)}`
}

function randomStep(txn: KeyTxn, model: Map<string, string>, random: Random, segment: number): void {
  switch (random(4)) {
    case 0: {
      const key = randomKey(random)
      const value = 'v'.repeat(random(20) === 0 ? 9000 : random(60))
      txn.put(bytesOf(key), bytesOf(value))
      model.set(key, value)
      break
    }
    case 1: {
      const key = randomKey(random)
      expect(txn.remove(bytesOf(key))).toBe(model.delete(key))
      break
    }
    case 2: {
      const key = randomKey(random)
      const value = txn.get(bytesOf(key))
      expect(value === undefined ? undefined : latin1(value)).toBe(model.get(key))
      break
    }
    default:
      upsertStep(txn, model, random, segment)
  }
}

function place(segment: number, row: number): string {
  return latin1(new Uint8Array(Uint32Array.of(segment, row).buffer))
}

function upsertStep(txn: KeyTxn, model: Map<string, string>, random: Random, segment: number): void {
  const pool = random(3)
  const prefix = poolKey(TAG.key, pool)
  const rows = new Map<string, number>()
  for (let i = random(300); i >= 0; i--) rows.set(`k${random(500)}`, random(4) === 0 ? -1 : rows.size)
  const superseded = txn.upsertKeys(
    prefix,
    buildKeyRun([...rows].map(([key, row]) => ({ key: bytesOf(key), row }))),
    segment,
  )
  const want: [number, number][] = []
  for (const [text, row] of rows) {
    const key = latin1(prefix) + text
    const old = model.get(key)
    if (old !== undefined) {
      const [oldSegment, oldRow] = new Uint32Array(Uint8Array.from(bytesOf(old)).buffer)
      want.push([oldSegment as number, oldRow as number])
    }
    if (row < 0) model.delete(key)
    else model.set(key, place(segment, row))
  }
  want.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  expect([...superseded]).toEqual(want.flat())
}

describe.each(STORES)('store %s', (name, open) => {
  test('does what a Map does, over transactions, failures and reopening by the other store', () => {
    const seed = newSeed()
    const random = integersFrom(seed)
    const folder = temporaryFolder()
    let model = new Map<string, string>()
    let segment = 1
    for (let round = 0; round < 12; round++) {
      const opener = round % 3 === 2 ? STORES.find(([other]) => other !== name)?.[1] : open
      const store = (opener ?? open)({ folder, mapBytes: MAP_BYTES })
      for (let i = 0; i < 4; i++) {
        const next = new Map(model)
        store.transact(txn => {
          for (let step = 0; step < 25; step++) randomStep(txn, next, random, segment++)
        })
        model = next
        const lost = new Map(model)
        const fail = () =>
          store.transact(txn => {
            for (let step = 0; step < 10; step++) randomStep(txn, lost, random, segment++)
            throw new Error('given up')
          })
        expect(fail, `seed ${seed}`).toThrow('given up')
      }
      expect([...contents(store)], `seed ${seed}, round ${round}`).toEqual(sorted(model))
      store.close()
    }
  })

  test('reads ranges with a limit and removes them in steps', () => {
    const store = open({ folder: temporaryFolder(), mapBytes: MAP_BYTES })
    const key = (i: number) => Buffer.from(`r${String(i).padStart(4, '0')}`)
    store.transact(txn => {
      for (let i = 0; i < 1000; i++) txn.put(key(i), Buffer.from(String(i)))
    })
    store.transact(txn => {
      expect(txn.range(key(10), key(20), 100).map(([, value]) => Number(latin1(value)))).toEqual([
        10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
      ])
      expect(txn.range(key(10), key(20), 3)).toHaveLength(3)
      expect(txn.removeRange(key(100), key(900), 300)).toBe(300)
      expect(txn.removeRange(key(100), key(900), 600)).toBe(500)
      expect(txn.range(key(90), key(910), 100).map(([, value]) => Number(latin1(value)))).toEqual([
        90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 900, 901, 902, 903, 904, 905, 906, 907, 908, 909,
      ])
    })
    store.close()
  })
})
