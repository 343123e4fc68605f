/** Rows and deletes of one segment as one run: what its seal gave to the index. */
import { buildKeyRun, type RunView, viewRun } from './key-run.ts'
import type { KeyRun } from './protocol.ts'

/** Keys with the sequences that deleted them. */
export interface StoredKeys {
  readonly keys: readonly Uint8Array[]
  readonly sequences: ArrayLike<number>
}

/**
 * Of a row and a delete of one key, the one with the higher sequence counts (W-7). Changes `run` in place or copies it.
 * @param run the segment's rows; undefined where it has none
 * @param sequences of those rows, by row
 */
export function withDeletes(run: KeyRun | undefined, sequences: Float64Array, deletes: StoredKeys): KeyRun {
  const base = run ?? buildKeyRun([])
  const view = viewRun(base)
  const found = new Int32Array(view.rows) // a key may stand among the deletes more than once
  const added: Uint8Array[] = []
  for (const [index, key] of deletes.keys.entries()) {
    const at = placeOf(view, key)
    if (at === view.count || compareAt(view, at, key) !== 0) added.push(key)
    else if ((deletes.sequences[index] as number) > sequences[found[at] as number]!) view.rows[at] = -1
  }
  return added.length === 0 ? base : insert(view, added)
}

/** How the run's key at `at` compares with `key`. */
function compareAt({ bytes, offsets }: RunView, at: number, key: Uint8Array): number {
  return Buffer.compare(bytes.subarray(offsets[at], offsets[at + 1]), key)
}

/** Of the first key that is not below `key`. */
function placeOf(view: RunView, key: Uint8Array): number {
  let [from, to] = [0, view.count]
  while (from < to) {
    const middle = (from + to) >>> 1
    if (compareAt(view, middle, key) < 0) from = middle + 1
    else to = middle
  }
  return from
}

/** The run and keys that it does not have, with row -1. What stands between two of them is copied at once. */
function insert(view: RunView, added: Uint8Array[]): KeyRun {
  added.sort(Buffer.compare)
  const keys = added.filter((key, i) => i === 0 || Buffer.compare(key, added[i - 1]!) !== 0)
  const count = view.count + keys.length
  const keyBytes = view.bytes.byteLength + keys.reduce((sum, key) => sum + key.byteLength, 0)
  const run = new ArrayBuffer(4 * (3 + 2 * count) + keyBytes)
  new Int32Array(run, 0, 2).set([count, keyBytes])
  const into = viewRun(run, false)
  let [from, index, offset] = [0, 0, 0]
  const copyTo = (to: number) => {
    into.rows.set(view.rows.subarray(from, to), index)
    const shift = offset - view.offsets[from]!
    for (let i = from; i < to; i++) into.offsets[index++] = view.offsets[i]! + shift
    into.bytes.set(view.bytes.subarray(view.offsets[from], view.offsets[to]), offset)
    offset = view.offsets[to]! + shift
    from = to
  }
  for (const key of keys) {
    copyTo(placeOf(view, key))
    into.rows[index] = -1
    into.offsets[index++] = offset
    into.bytes.set(key, offset)
    offset += key.byteLength
  }
  copyTo(view.count)
  into.offsets[count] = offset
  return run
}
