/** Reads a body as the thread of an import does, and gives what it made in plain values. */
import { expect } from 'vitest'
import type { FieldComparison } from '../../../src/parse/import/compare-fields.ts'
import { batchesOf } from '../../../src/parse/import/import-thread.ts'
import type { ImportOptions } from '../../../src/parse/import/import-types.ts'
import { PLAIN_NAMING } from '../../../src/parse/import/naming.ts'
import { RowBatches } from '../../../src/parse/import/row-batches.ts'
import { JsonScan } from '../../../src/parse/json-scan.ts'
import { BodyBroken } from '../../../src/util/errors.ts'
import { BODY_BYTES_MAX, EVENTS_MAX } from '../../../src/util/limits.ts'

export interface Imported {
  /** `row:line:text` of each event. */
  readonly events: string[]
  /** `row:line:code` of each refused row. */
  readonly refused: string[]
  readonly messages: string[]
  batches: number
  /** Rows and bytes at the end of each batch. */
  readonly ends: [rows: number, bytes: number][]
  /** Rows and bytes of the whole body; undefined where it broke. */
  done: { readonly rows: number; readonly bytes: number } | undefined
  broken: string | undefined
  brokenMessage: string
  compared: FieldComparison | undefined
}

export type Given = Partial<ImportOptions>

/**
 * Reads `pieces`. Each piece is overwritten once the next one is asked for, as its owner may do.
 */
export async function readImport(pieces: readonly Uint8Array[], given: Given = {}): Promise<Imported> {
  const options: ImportOptions = {
    format: 'ndjson',
    encoding: 'identity',
    skipRows: 0,
    errorsMax: 10_000,
    columns: [],
    naming: PLAIN_NAMING,
    spoolFile: '',
    ...given,
  }
  const batches = new RowBatches(options)
  const read: Imported = {
    events: [],
    refused: [],
    messages: [],
    batches: 0,
    ends: [],
    done: undefined,
    broken: undefined,
    brokenMessage: '',
    compared: undefined,
  }
  const output = batchesOf(options, reused(pieces), batches)
  try {
    for (;;) {
      const next = await output.next()
      if (next.done === true) {
        const { compared, ...done } = next.value
        read.done = done
        read.compared = compared ?? read.compared
        break
      }
      const { body, places, refused, refusedBy, rows, bytes, compared } = next.value
      read.compared = compared ?? read.compared
      read.batches += 1
      read.ends.push([rows, bytes])
      if (body.byteLength > BODY_BYTES_MAX) throw new Error(`a body of ${body.byteLength} bytes`)
      if (places.length > 2 * EVENTS_MAX) throw new Error(`${places.length / 2} events`)
      if (body.byteLength > 0) addEvents(read, body, places)
      else if (places.length > 0) throw new Error('events without a body')
      let count = 0
      for (const each of refusedBy.values()) count += each
      const isCut = read.refused.length + refused.length >= options.errorsMax
      if (isCut ? count < refused.length : count !== refused.length)
        throw new Error(`${count} refused rows, ${refused.length} are told`)
      for (const { row, line, code, message } of refused) {
        read.refused.push(`${row}:${line}:${code}`)
        read.messages.push(message)
      }
    }
  } catch (error) {
    if (!(error instanceof BodyBroken)) throw error
    read.broken = error.code
    read.brokenMessage = error.message
  }
  return read
}

/** The texts of an array's elements, byte for byte. */
function addEvents(read: Imported, body: Uint8Array, places: Float64Array): void {
  const scan = new JsonScan()
  expect(scan.load(body, 0, body.byteLength)).toBe(true)
  const texts: string[] = []
  for (scan.pos = 1; scan.pos < scan.end; scan.pos += 1) {
    scan.skipSpace()
    const from = scan.pos
    expect(scan.skipValue()).toBe(true)
    texts.push(Buffer.from(body.subarray(from, scan.pos)).toString())
    scan.skipSpace()
  }
  if (texts.length !== places.length / 2)
    throw new Error(`${texts.length} events and ${places.length / 2} places`)
  for (const [index, text] of texts.entries())
    read.events.push(`${places[2 * index]}:${places[2 * index + 1]}:${text}`)
}

async function* reused(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void, void> {
  for (const piece of pieces) {
    const copy = Uint8Array.from(piece)
    yield copy
    copy.fill(0x21)
  }
}

/** A body cut into pieces of `bytes` bytes. */
export function cut(body: Uint8Array, bytes: number): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let from = 0; from < body.length; from += bytes) pieces.push(body.subarray(from, from + bytes))
  return pieces
}
