/**
 * The kept rows of a seal as contiguous Arrow buffers, each at the place where the IPC stream wants it.
 * The specification of native/fill.cpp.
 */
import { type BatchBuffer, batchRows, columnView, KEY_COLUMN, KIND, WIDTH_OF_KIND } from '../batch/layout.ts'
import { PLACE_WORDS, PLACES_FIRST_COLUMN, type Places } from './assembler.ts'
import { ENTRY_WORDS, type TailEntry } from './protocol.ts'
import { eachRun } from './runs.ts'

/** The second pass in TypeScript; see Assembler.fill. */
export function fillJs(
  entries: readonly TailEntry[],
  keep: Uint8Array,
  out: Uint8Array,
  places: Places,
): void {
  const columns = (places.length - PLACES_FIRST_COLUMN) / PLACE_WORDS
  const written = new Float64Array(columns)
  let row = 0
  eachRun(entries, keep, (batch, from, to) => {
    for (let c = 0; c < columns; c++) {
      if (c === KEY_COLUMN) continue
      const at = PLACES_FIRST_COLUMN + PLACE_WORDS * c
      const target = { validity: places[at]!, offsets: places[at + 1]!, data: places[at + 2]! }
      written[c]! += appendColumn(batch, c, from, to, out, target, row, written[c]!)
    }
    row += to - from
  })
  appendRequests(entries, keep, out, places)
}

interface Target {
  readonly validity: number
  readonly offsets: number
  readonly data: number
}

/** Appends rows [from, to) at row `row`; returns the variable-width bytes written. */
function appendColumn(
  batch: BatchBuffer,
  index: number,
  from: number,
  to: number,
  out: Uint8Array,
  target: Target,
  row: number,
  written: number,
): number {
  const view = columnView(batch, index)
  const bytes = new Uint8Array(batch)
  if (target.validity >= 0) {
    if (view.nulls === 0) setBits(out, target.validity * 8 + row, to - from)
    else copyBits(out, target.validity * 8 + row, bytes, view.validityOffset * 8 + from, to - from)
  }
  if (view.kind === KIND.bool) {
    copyBits(out, target.data * 8 + row, bytes, view.dataOffset * 8 + from, to - from)
    return 0
  }
  if (view.kind !== KIND.binary) {
    const width = WIDTH_OF_KIND[view.kind]
    const start = view.dataOffset + from * width
    out.set(bytes.subarray(start, start + (to - from) * width), target.data + row * width)
    return 0
  }
  const source = new Int32Array(batch, view.offsetsOffset, batchRows(batch) + 1)
  const offsets = new Int32Array(out.buffer, out.byteOffset + target.offsets, row + to - from + 1)
  const shift = written - source[from]!
  for (let i = from + 1; i <= to; i++) offsets[row + i - from] = source[i]! + shift
  const [begin, end] = [view.dataOffset + source[from]!, view.dataOffset + source[to]!]
  if (target.data >= 0) out.set(bytes.subarray(begin, end), target.data + written)
  return end - begin
}

/** `at` counts bits from the start of `out`, which are zero from there on. */
function setBits(out: Uint8Array, at: number, count: number): void {
  for (let i = at; i < at + count; i++) out[Math.floor(i / 8)]! |= 1 << (i & 7)
}

function copyBits(out: Uint8Array, at: number, source: Uint8Array, from: number, count: number): void {
  for (let i = 0; i < count; i++) {
    const bit = (source[Math.floor((from + i) / 8)]! >> ((from + i) & 7)) & 1
    out[Math.floor((at + i) / 8)]! |= bit << ((at + i) & 7)
  }
}

function appendRequests(
  entries: readonly TailEntry[],
  keep: Uint8Array,
  out: Uint8Array,
  places: Places,
): void {
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength)
  let [received, sequence, base] = [places[0]!, places[1]!, 0]
  for (const { kind, requests } of entries) {
    for (let r = 0; r < requests.length; r += ENTRY_WORDS) {
      for (const end = base + requests[r + 2]!; base < end; base++) {
        if (keep[base] === 0 || kind === 'delete') continue
        view.setBigInt64(received, BigInt(requests[r + 1]!) * 1000n, true)
        view.setBigInt64(sequence, BigInt(requests[r]!), true)
        received += 8
        sequence += 8
      }
    }
  }
}
