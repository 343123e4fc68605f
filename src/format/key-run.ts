/**
 * A key run: sorted keys and their rows in one buffer, which passes between threads whole. A flush,
 * a merge and a segment each give one to the index. native/key_run.h reads and writes the same
 * bytes. Int32 words, then bytes, little-endian:
 *
 *    0  count of keys n    1  bytes of all keys
 *    2 … 2+n               rows: the row in the new segment, or -1: the key is deleted
 *    2+n … 3+2n            n + 1 offsets of the keys in the bytes
 *    then the keys, each unique, in ascending order of their bytes
 *
 * A run of rows with versions has n × VERSION_BYTES more: the version of each key's row
 * (key.ts), zeros where the key is deleted. Such a run may also have rows below -1: row r
 * stands as -2 - r where a delete of the key came before it. It then replaces the key's row
 * whatever that row's version.
 */
import { assert } from '../util/errors.ts'
import { VERSION_BYTES } from './key.ts'

export type KeyRun = ArrayBuffer

const HEADER_WORDS = 2

/** How a run says that row `row` follows a delete of its key. Of a row so given, it is the row. */
export function afterDelete(row: number): number {
  return -2 - row
}

/** The row that a word of `RunView.rows` names; -1 where the key is deleted. */
export function rowOfWord(word: number): number {
  return word < -1 ? afterDelete(word) : word
}

/** One key of a run; row -1 where the key is deleted. */
export interface RunKey {
  readonly key: Uint8Array
  readonly row: number
}

/** A run as views of its buffer. Key i stands at bytes [offsets[i], offsets[i + 1]). */
export interface RunView {
  readonly count: number
  readonly rows: Int32Array
  readonly offsets: Int32Array
  readonly bytes: Buffer
  /** VERSION_BYTES for each key; undefined in a run without versions, and in an empty one. */
  readonly versions: Buffer | undefined
}

/** Returns views of a run. Asserts that its lengths agree. */
export function viewRun(run: KeyRun): RunView {
  const view = viewParts(run)
  assert(view.offsets[view.count] === view.bytes.length, 'the offsets of a key run end with its bytes')
  return view
}

function viewParts(run: KeyRun): RunView {
  assert(run.byteLength >= runBytes(0, 0), 'a key run has a header')
  const [count = -1, keyBytes = -1] = new Int32Array(run, 0, HEADER_WORDS)
  assert(
    count >= 0 && keyBytes >= 0 && run.byteLength >= runBytes(count, keyBytes),
    'a key run has the length that its header says',
  )
  return {
    count,
    rows: new Int32Array(run, 4 * HEADER_WORDS, count),
    offsets: new Int32Array(run, 4 * (HEADER_WORDS + count), count + 1),
    bytes: Buffer.from(run, runBytes(count, 0), keyBytes),
    versions: versionsOf(run, count, keyBytes),
  }
}

function versionsOf(run: KeyRun, count: number, keyBytes: number): Buffer | undefined {
  const bytes = VERSION_BYTES * count
  const from = runBytes(count, keyBytes)
  return count > 0 && run.byteLength === from + bytes ? Buffer.from(run, from, bytes) : undefined
}

function runBytes(count: number, keyBytes: number): number {
  return 4 * (HEADER_WORDS + 2 * count + 1) + keyBytes
}

/** Compares the run's key at `index` with `key`: below 0, 0 or above 0, as Buffer.compare. */
export function compareKeyAt({ bytes, offsets }: RunView, index: number, key: Uint8Array): number {
  return bytes.compare(key, 0, key.length, offsets[index], offsets[index + 1])
}

/** Writes a run whose keys come in ascending order. */
export class KeyRunWriter {
  readonly #run: KeyRun
  readonly #view: RunView
  #count = 0
  #end = 0

  /** @param count keys of the run, and `keyBytes` the bytes of all of them */
  constructor(count: number, keyBytes: number) {
    this.#run = new ArrayBuffer(runBytes(count, keyBytes))
    new Int32Array(this.#run, 0, HEADER_WORDS).set([count, keyBytes])
    this.#view = viewParts(this.#run)
  }

  /** Appends a key with its row; -1 where the key is deleted. */
  add(key: Uint8Array, row: number): void {
    this.#view.bytes.set(key, this.#end)
    this.#append(key.length, row)
  }

  /** Appends key `index` of another run with a row of its own. */
  addFrom(from: RunView, index: number, row: number): void {
    const bytes = from.bytes.copy(this.#view.bytes, this.#end, from.offsets[index], from.offsets[index + 1])
    this.#append(bytes, row)
  }

  /** Appends keys [start, end) of another run with their rows, and copies their bytes at once. */
  addRange(from: RunView, start: number, end: number): void {
    const { rows, offsets, bytes } = this.#view
    const shift = this.#end - from.offsets[start]!
    rows.set(from.rows.subarray(start, end), this.#count)
    for (let index = start; index < end; index++) offsets[++this.#count] = from.offsets[index + 1]! + shift
    this.#end += from.bytes.copy(bytes, this.#end, from.offsets[start], from.offsets[end])
  }

  #append(bytes: number, row: number): void {
    this.#view.rows[this.#count] = row
    this.#end += bytes
    this.#count += 1
    this.#view.offsets[this.#count] = this.#end
  }

  /** Returns the run. Asserts that it is filled. */
  end(): KeyRun {
    const { count, bytes } = this.#view
    assert(this.#count === count && this.#end === bytes.length, 'a key run is filled')
    return this.#run
  }
}

/** A copy of a run without versions, with them. `versions`: by row, VERSION_BYTES each. */
export function withVersions(run: KeyRun, versions: Uint8Array): KeyRun {
  const { count, rows } = viewRun(run)
  const ranked = new ArrayBuffer(run.byteLength + VERSION_BYTES * count)
  const bytes = new Uint8Array(ranked)
  bytes.set(new Uint8Array(run))
  for (let i = 0, at = run.byteLength; i < count; i++, at += VERSION_BYTES) {
    const row = rowOfWord(rows[i]!)
    if (row < 0) continue
    const from = VERSION_BYTES * row
    for (let byte = 0; byte < VERSION_BYTES; byte++) bytes[at + byte] = versions[from + byte]!
  }
  return ranked
}

/** A run of `keys`, which must be unique; they are sorted here, in place. */
export function buildKeyRun(keys: RunKey[]): KeyRun {
  keys.sort((a, b) => Buffer.compare(a.key, b.key))
  let keyBytes = 0
  for (const { key } of keys) keyBytes += key.byteLength
  const run = new KeyRunWriter(keys.length, keyBytes)
  for (const { key, row } of keys) run.add(key, row)
  return run.end()
}
