/**
 * The rows of the pool of rejected events (catalog/rejected-pool.ts). A parse worker makes them of
 * the refused events of a task while it has their bodies in memory; the main thread makes those of
 * requests whose bodies nobody parsed. A row is a JSON object, as an event of that pool is.
 *
 *   W-9  A group makes rows of at most `bytesMax` bytes. Those that are left out are counted. A
 *        text that has no room for sure costs nothing: no row is made of it.
 */

import { isUtf8 } from 'node:buffer'
import { must } from '../util/errors.ts'
import { EVENTS_MAX, KiB } from '../util/limits.ts'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY } from './characters.ts'
import { JsonScan } from './json-scan.ts'

/** Bytes of a refused text that are kept. Nearly all events of real senders are shorter. */
export const REJECTED_TEXT_BYTES_MAX = 64 * KiB
/**
 * A piece of rows ends at this size, which its last row may go beyond, and at EVENTS_MAX rows: so
 * each piece has room in a request of its own.
 */
const PIECE_BYTES = 256 * KiB

/** The permission to keep the refused events of one group of requests. */
export interface RejectedGrant {
  /** The properties that all rows of the source have, as JSON without braces. */
  readonly properties: string
  /** The pool's number. */
  readonly pool: number
  /** Microseconds since 1970 with which ids begin: no other grant has them, in no start. */
  readonly atUs: number
  /** Bytes of rows; 0 where refused events are only counted. */
  readonly bytesMax: number
}

export interface RejectedRows {
  readonly pieces: readonly RejectedPiece[]
  /** Rows that were left out for want of bytes. */
  readonly leftOut: number
}

export interface RejectedPiece {
  readonly rows: number
  /** JSON objects with commas between them. */
  readonly json: Uint8Array
}

/** A refused event, or a refused request, whose `index` is null. */
export interface Rejected {
  /** The place of its request in the task. */
  readonly request: number
  readonly index: number | null
  /** The events of its request where that was all or nothing: all are refused, or none. */
  readonly allOf?: number | undefined
  readonly code: string
  readonly column: string | null
  readonly message: string
  /** How `text` is written; null where the request did not say. */
  readonly contentType: string | null
  /** Undefined where it was not received. */
  readonly text: Uint8Array | undefined
  /** A JSON object, empty where the pool's columns read nothing of the request. */
  readonly context: Uint8Array
}

/** Collects rows up to the grant. */
export class RejectedWriter {
  readonly #grant: RejectedGrant
  readonly #pieces: RejectedPiece[] = []
  #rows: string[] = []
  #pieceBytes = 0
  #bytes = 0
  #leftOut = 0

  constructor(grant: RejectedGrant) {
    this.#grant = grant
  }

  /** False where no further row has room: a caller need not look for its text. */
  get hasRoom(): boolean {
    return this.#bytes < this.#grant.bytesMax
  }

  /** Counts rows without making them. */
  leaveOut(rows: number): void {
    this.#leftOut += rows
  }

  add(rejected: Rejected): void {
    const row = this.#tryRow(rejected)
    if (row === undefined) {
      // Later rows have no room either: what is kept is the beginning, without holes.
      this.#bytes = this.#grant.bytesMax
      this.#leftOut += 1
      return
    }
    const bytes = Buffer.byteLength(row) + 1 // with its comma
    this.#bytes += bytes
    this.#pieceBytes += bytes
    this.#rows.push(row)
    if (this.#pieceBytes >= PIECE_BYTES || this.#rows.length === EVENTS_MAX) this.#endPiece()
  }

  /** The row where it has room. The text is looked at only where it may have room as it is. */
  #tryRow(rejected: Rejected): string | undefined {
    const room = this.#grant.bytesMax - this.#bytes
    const textBytes = Math.min(rejected.text?.byteLength ?? 0, REJECTED_TEXT_BYTES_MAX - 3)
    if (textBytes + rejected.context.byteLength >= room) return undefined
    const row = rowOf(this.#grant, rejected)
    return Buffer.byteLength(row) + 1 > room ? undefined : row
  }

  end(): RejectedRows {
    this.#endPiece()
    return { pieces: this.#pieces, leftOut: this.#leftOut }
  }

  #endPiece(): void {
    if (this.#rows.length > 0)
      this.#pieces.push({ rows: this.#rows.length, json: Buffer.from(this.#rows.join()) })
    this.#rows = []
    this.#pieceBytes = 0
  }
}

function rowOf({ properties, pool, atUs }: RejectedGrant, rejected: Rejected): string {
  const { code, column, index, message, contentType, context } = rejected
  const { text, isWhole } = textOf(rejected.text)
  // Sixteen digits of µs reach to the year 2286: ids sort by time, then by the place.
  const id = `${digits(atUs, 16)}-${pool}-${digits(rejected.request, 3)}-${placeOf(rejected)}`
  const why = `"code":${quoted(code)},"column_name":${quoted(column)},"message":${quoted(message)}`
  const what = `"content_type":${quoted(contentType)},"element_index":${index},"text":${quoted(text)}`
  const read = context.byteLength === 0 ? '' : `,"context":${Buffer.from(context).toString()}`
  return `{${properties},"id":"${id}",${why},${what},"is_truncated":${!isWhole}${read}}`
}

function placeOf({ index, allOf }: Rejected): string {
  if (index === null) return 'request'
  return allOf === undefined ? digits(index, 3) : `${digits(index, 3)}of${allOf}`
}

function digits(number: number, count: number): string {
  return String(number).padStart(count, '0')
}

/** The request of an id, and the events of that where it was all or nothing. */
export function requestOfId(id: string): { readonly request: string; readonly allOf: number | undefined } {
  const end = id.lastIndexOf('-')
  const [, allOf] = id.slice(end).split('of')
  return { request: id.slice(0, end), allOf: allOf === undefined ? undefined : Number(allOf) }
}

function quoted(text: string | null): string {
  return text === null ? 'null' : JSON.stringify(text)
}

/** At most REJECTED_TEXT_BYTES_MAX bytes of a text. Bytes that are no UTF-8 are replaced. */
function textOf(bytes: Uint8Array | undefined): { readonly text: string | null; readonly isWhole: boolean } {
  if (bytes === undefined) return { text: null, isWhole: false }
  const isShort = bytes.byteLength <= REJECTED_TEXT_BYTES_MAX
  const kept = Buffer.from(isShort ? bytes : bytes.subarray(0, startOfCharacter(bytes)))
  return { text: kept.toString(), isWhole: isShort && isUtf8(kept) }
}

/** The last byte up to REJECTED_TEXT_BYTES_MAX at which a character begins. */
function startOfCharacter(bytes: Uint8Array): number {
  let at = REJECTED_TEXT_BYTES_MAX
  while (at > REJECTED_TEXT_BYTES_MAX - 4 && (bytes[at]! & 0xc0) === 0x80) at -= 1
  return at
}

const scan = new JsonScan()

/** The events of a document that a kernel has accepted as JSON, each with its bytes. */
export function* elementsOf(document: Uint8Array): Generator<Uint8Array, void, void> {
  must(scan.load(document, 0, document.byteLength) || undefined, 'a document that was parsed before')
  const isArray = scan.skipSpace() === OPEN_ARRAY
  if (isArray) {
    scan.enter()
    if (scan.skipSpace() === CLOSE_ARRAY) return
  }
  do {
    if (scan.bytes[scan.pos] === COMMA) scan.pos++
    scan.skipSpace()
    const from = scan.pos
    scan.skipValue()
    yield document.subarray(from, scan.pos)
  } while (isArray && scan.skipSpace() === COMMA)
}
