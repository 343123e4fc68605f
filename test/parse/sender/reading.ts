/** For tests of body formats: a document as text, or why the body was refused. */
import { type BodyFormat, toJsonDocument } from '../../../src/parse/sender/body-format.ts'
import { BODY_BYTES_MAX } from '../../../src/util/limits.ts'

type Body = string | Uint8Array

/** Like a slab: in shared memory, with other bytes around the body. */
export function shared(body: Body): Uint8Array {
  const bytes = Buffer.from(body as string)
  const slab = new Uint8Array(new SharedArrayBuffer(bytes.length + 100)).fill(0x22)
  slab.set(bytes, 50)
  return slab.subarray(50, 50 + bytes.length)
}

const schemaAt = (eventsPath: string | null) =>
  eventsPath === null ? null : { columns: [], key: null, eventsPath }

/** The document, or the error's code. */
export function documentOf(format: BodyFormat, body: Body, eventsPath: string | null = null): string {
  const made = toJsonDocument(format, shared(body), schemaAt(eventsPath))
  if (!('document' in made)) return made.code
  if (made.document.length > BODY_BYTES_MAX) throw new Error('a document is longer than a body may be')
  return Buffer.from(made.document).toString()
}

/** The error as `status code: message`; the document where there is none. */
export function errorOf(format: BodyFormat, body: Body, eventsPath: string | null = null): string {
  const made = toJsonDocument(format, shared(body), schemaAt(eventsPath))
  if ('document' in made) return Buffer.from(made.document).toString()
  return `${made.status} ${made.code}: ${made.message}`
}
