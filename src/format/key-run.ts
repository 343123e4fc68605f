/** Writing and reading of a KeyRun (protocol.ts): the sorted keys of one flush in one buffer. */
import { assert } from '../util/assert.ts'

/** The sorted keys of one flush: one ArrayBuffer, moved. Int32 words, then bytes, little-endian:
 *
 *    0  count of keys n    1  bytes of all keys
 *    2 … 2+n               rows: the row in the new segment, or -1: the key is deleted
 *    2+n … 3+2n            n + 1 offsets of the keys in the bytes
 *    then the keys, each unique, in ascending order of their bytes
 */
export type KeyRun = ArrayBuffer

/** One key of a run; row -1: the key is deleted. */
export interface RunKey {
  readonly key: Uint8Array
  readonly row: number
}

/** The parts of a run, as views of its buffer. */
export interface RunView {
  readonly count: number
  readonly rows: Int32Array
  readonly offsets: Int32Array
  readonly bytes: Uint8Array
}

/** A run of `keys`, which must be unique; they are sorted here, in place. */
export function buildKeyRun(keys: RunKey[]): KeyRun {
  keys.sort((a, b) => Buffer.compare(a.key, b.key))
  let keyBytes = 0
  for (const { key } of keys) keyBytes += key.byteLength
  const run = new ArrayBuffer(4 * (3 + 2 * keys.length) + keyBytes)
  new Int32Array(run, 0, 2).set([keys.length, keyBytes])
  const view = viewRun(run, false)
  let offset = 0
  for (const [index, { key, row }] of keys.entries()) {
    view.rows[index] = row
    view.offsets[index] = offset
    view.bytes.set(key, offset)
    offset += key.byteLength
  }
  view.offsets[keys.length] = offset
  return run
}

/** Views of a run; asserts that its lengths agree. */
export function viewRun(run: KeyRun, complete = true): RunView {
  assert(run.byteLength >= 12, 'a key run has a header')
  const [count = -1, keyBytes = -1] = new Int32Array(run, 0, 2)
  const bytesAt = 4 * (3 + 2 * count)
  assert(count >= 0 && keyBytes >= 0 && run.byteLength >= bytesAt + keyBytes, 'a key run is whole')
  const offsets = new Int32Array(run, 4 * (2 + count), count + 1)
  assert(!complete || offsets[count] === keyBytes, 'the offsets of a key run end with its bytes')
  return {
    count,
    rows: new Int32Array(run, 8, count),
    offsets,
    bytes: new Uint8Array(run, bytesAt, keyBytes),
  }
}
