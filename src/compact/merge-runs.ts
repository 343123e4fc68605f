/** Key runs (keys/protocol.ts) as a merge handles them: parts of one, and several joined to one. */
import type { KeyRun } from '../keys/protocol.ts'
import { assert } from '../util/assert.ts'

/** The parts of a run, as views of its buffer. */
export interface RunParts {
  readonly count: number
  readonly rows: Int32Array
  readonly offsets: Int32Array
  readonly bytes: Buffer
}

/** Views of a whole run. */
export function partsOf(run: KeyRun): RunParts {
  const [count = -1, keyBytes = -1] = new Int32Array(run, 0, 2)
  const bytesAt = 4 * (3 + 2 * count)
  assert(count >= 0 && run.byteLength === bytesAt + keyBytes, 'a key run is whole')
  return {
    count,
    rows: new Int32Array(run, 8, count),
    offsets: new Int32Array(run, 4 * (2 + count), count + 1),
    bytes: Buffer.from(run, bytesAt, keyBytes),
  }
}

/** Order of key `i` of `a` and key `j` of `b`. */
function compareKeys(a: RunParts, i: number, b: RunParts, j: number): number {
  return a.bytes.compare(b.bytes, b.offsets[j], b.offsets[j + 1], a.offsets[i], a.offsets[i + 1])
}

/** Order of a run's key and another. */
export function compareKey(a: RunParts, i: number, key: Uint8Array): number {
  return a.bytes.compare(key, 0, key.length, a.offsets[i], a.offsets[i + 1])
}

/** Writes a run whose keys come in order. */
class RunWriter {
  readonly #run: KeyRun
  readonly #parts: RunParts
  #count = 0
  #end = 0

  constructor(count: number, keyBytes: number) {
    this.#run = new ArrayBuffer(4 * (3 + 2 * count) + keyBytes)
    new Int32Array(this.#run, 0, 2).set([count, keyBytes])
    this.#parts = partsOf(this.#run)
  }

  /** Appends key `at` of `from` with this row. */
  add(from: RunParts, at: number, row: number): void {
    const { rows, offsets, bytes } = this.#parts
    rows[this.#count] = row
    this.#end += from.bytes.copy(bytes, this.#end, from.offsets[at], from.offsets[at + 1])
    this.#count += 1
    offsets[this.#count] = this.#end
  }

  end(): KeyRun {
    assert(this.#count === this.#parts.count && this.#end === this.#parts.bytes.length, 'a run is filled')
    return this.#run
  }
}

/** A run without keys. */
export function emptyRun(): KeyRun {
  return new RunWriter(0, 0).end()
}

/** A run of these keys, which come in order, each with row -1. */
export function deletedRun(keys: readonly Uint8Array[]): KeyRun {
  const offsets = new Int32Array(keys.length + 1)
  for (const [i, key] of keys.entries()) offsets[i + 1] = (offsets[i] as number) + key.length
  const parts = { count: keys.length, rows: new Int32Array(keys.length), offsets, bytes: Buffer.concat(keys) }
  return deletedPart(parts, () => true)
}

/** The keys of a run's rows that `wants`, each with row -1. */
export function deletedPart(parts: RunParts, wants: (row: number) => boolean): KeyRun {
  let [count, keyBytes] = [0, 0]
  const { rows, offsets } = parts
  for (let i = 0; i < parts.count; i++) {
    if (!wants(rows[i] as number)) continue
    count += 1
    keyBytes += (offsets[i + 1] as number) - (offsets[i] as number)
  }
  const run = new RunWriter(count, keyBytes)
  for (let i = 0; i < parts.count; i++) if (wants(rows[i] as number)) run.add(parts, i, -1)
  return run.end()
}

/** All keys of `runs` in one run; no key may stand in two. */
export function joinRuns(runs: readonly KeyRun[]): KeyRun {
  const queue = [...runs]
  for (;;) {
    const [a, b] = queue.splice(0, 2)
    if (a === undefined) return emptyRun()
    if (b === undefined) return a
    queue.push(joinTwo(partsOf(a), partsOf(b)))
  }
}

function joinTwo(a: RunParts, b: RunParts): KeyRun {
  const run = new RunWriter(a.count + b.count, a.bytes.length + b.bytes.length)
  let [i, j] = [0, 0]
  while (i < a.count && j < b.count) {
    const order = compareKeys(a, i, b, j)
    assert(order !== 0, 'a key stands in one run only')
    if (order < 0) run.add(a, i, a.rows[i++] as number)
    else run.add(b, j, b.rows[j++] as number)
  }
  while (i < a.count) run.add(a, i, a.rows[i++] as number)
  while (j < b.count) run.add(b, j, b.rows[j++] as number)
  return run.end()
}
