/**
 * Sample requests as they come: a file is split into its documents, and a document into its events.
 * The rules for documents are those of ingest: RFC 8259, UTF-8, bounded depth, and a byte order
 * mark before the first byte is dropped.
 */

import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../characters.ts'
import { type BrokenAt, DOCUMENT, describeDocument, EXPECTED } from '../event-error.ts'
import { JsonScan, withoutMark } from '../json-scan.ts'

/** Events of all samples together. */
export const SAMPLES_MAX = 1_000
/**
 * Bytes of all samples together, and of a file of them. A megabyte takes some 0.1 s of processor
 * time, so a caller on the main thread gives fewer.
 */
export const INFER_BYTES_MAX = 4 * BODY_BYTES_MAX

/** A request's body, one event or an array of events, and the headers that came with it. */
export interface Sample {
  readonly body: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** The samples cannot be read: the caller's mistake. */
export interface InferProblem {
  readonly problem: { readonly code: string; readonly message: string }
}

/** The events of a document, as places in the bytes of a scan. */
export interface EventPlaces {
  readonly starts: readonly number[]
  readonly ends: readonly number[]
  /** The document is an array: its events share their headers. */
  readonly isArray: boolean
}

/**
 * The documents of a file: one object, one array of events, NDJSON, or documents one after the
 * other. Or why the file cannot be read.
 */
export function readSamples(file: Uint8Array): readonly Sample[] | InferProblem {
  if (file.length > INFER_BYTES_MAX) return tooLarge()
  const scan = new JsonScan()
  const text = withoutMark(file)
  if (!scan.load(text, 0, text.length)) return broken(scan, 'The file')
  const samples: Sample[] = []
  for (scan.skipSpace(); scan.pos < scan.end; scan.skipSpace()) {
    if (samples.length === SAMPLES_MAX) return tooMany()
    const start = scan.pos
    if (!scan.skipValue()) return broken(scan, 'The file')
    samples.push({ body: scan.bytes.subarray(start, scan.pos) })
  }
  return samples
}

/** Loads a document into the scan and finds its events, or says why the sample has none. */
export function findEvents(scan: JsonScan, body: Uint8Array, index: number): EventPlaces | InferProblem {
  const where = `Sample ${index}`
  const text = withoutMark(body)
  if (!scan.load(text, 0, text.length)) return broken(scan, where)
  const starts: number[] = []
  const ends: number[] = []
  const isArray = scan.skipSpace() === OPEN_ARRAY
  if (isArray) {
    scan.enter()
    for (let byte = scan.skipSpace(); byte !== CLOSE_ARRAY; ) {
      if (!findEvent(scan, starts, ends)) return notObject(scan, where)
      byte = scan.skipSpace()
      if (byte !== COMMA && byte !== CLOSE_ARRAY) {
        scan.refuseGrammar(EXPECTED.bracket)
        return broken(scan, where)
      }
      if (byte !== COMMA) continue
      scan.pos++
      scan.skipSpace()
    }
    scan.leave()
  } else if (!findEvent(scan, starts, ends)) return notObject(scan, where)
  scan.skipSpace()
  if (scan.pos === scan.end) return { starts, ends, isArray }
  scan.refuseGrammar(EXPECTED.end)
  return broken(scan, where)
}

/** Adds the place of the object at the scan's position. False where there is none. */
function findEvent(scan: JsonScan, starts: number[], ends: number[]): boolean {
  const start = scan.pos
  const isObject = scan.bytes[start] === OPEN_OBJECT
  if (!scan.skipValue() || !isObject) return false
  starts.push(start)
  ends.push(scan.pos)
  return true
}

/** The document broke, or a value that should be an event is none. */
function notObject(scan: JsonScan, where: string): InferProblem {
  if (scan.document !== DOCUMENT.ok) return broken(scan, where)
  return problem(
    'not_object_or_array',
    `${where} holds a value that is no event: an event is a JSON object, and a sample is one or an array of them.`,
  )
}

function broken(scan: JsonScan, where: string): InferProblem {
  const at: BrokenAt | undefined =
    scan.stoppedAt < 0 ? undefined : { event: -1, word: scan.refusalWord(), byte: scan.stoppedAt }
  const { code, message } = describeDocument(scan.document, at)
  return problem(code, `${where} cannot be read: ${message}.`)
}

export function tooLarge(): InferProblem {
  return problem('samples_too_large', `The samples have more than ${INFER_BYTES_MAX} bytes: give fewer.`)
}

export function tooMany(): InferProblem {
  return problem('too_many_samples', `There are more than ${SAMPLES_MAX} samples: give fewer.`)
}

export function noSamples(): InferProblem {
  return problem('no_samples', 'There is no sample: give at least one event.')
}

function problem(code: string, message: string): InferProblem {
  return { problem: { code, message } }
}
