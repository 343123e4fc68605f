/**
 * Inflates gzip: the body of a request at once, that of an import in pieces. Several members make
 * one body, and zeros may follow them as padding.
 *
 *   W-9  A body stops at one byte over BODY_BYTES_MAX. A decoded piece has at most
 *        INFLATED_PIECE_BYTES, whatever the ratio of the compression.
 *
 * NOTE: zlib's wrapper stops at a zero byte behind a member and ignores all that follows it, even
 * another member. So the bytes that it did not read are inspected here.
 */
import { constants, createGunzip, type Gunzip, gunzipSync } from 'node:zlib'
import { BodyBroken } from '../util/errors.ts'
import { BODY_BYTES_MAX, KiB } from '../util/limits.ts'
import { DOCUMENT, describeDocument } from './event-error.ts'

/** Decoded bytes that the thread of an import makes at once. */
export const INFLATED_PIECE_BYTES = 128 * KiB

/** The pieces of a body, each valid until the next one is asked for. */
export type Pieces = AsyncIterable<Uint8Array>

const GUNZIP_OPTIONS = { maxOutputLength: BODY_BYTES_MAX, finishFlush: constants.Z_FINISH, info: true }

/** The answer of gunzipSync with `info`. `bytesWritten` counts the bytes read. */
interface Inflated {
  readonly buffer: Buffer
  readonly engine: { readonly bytesWritten: number }
}

/** Inflates a body. Returns a value of DOCUMENT where the bytes are refused. */
export function gunzipBody(bytes: Uint8Array): Uint8Array | number {
  try {
    const { buffer, engine } = gunzipSync(bytes, GUNZIP_OPTIONS) as unknown as Inflated
    return isPadding(bytes.subarray(engine.bytesWritten)) ? buffer : DOCUMENT.broken_gzip
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ERR_BUFFER_TOO_LARGE' ? DOCUMENT.body_too_large : DOCUMENT.broken_gzip
  }
}

/** Inflates a body in pieces. Throws BodyBroken where they cannot be inflated. */
export async function* gunzipPieces(pieces: Pieces): AsyncGenerator<Uint8Array, void, void> {
  const zip = createGunzip({ chunkSize: INFLATED_PIECE_BYTES })
  const fed = feed(zip, pieces)
  fed.catch(error => zip.destroy(error as Error)) // the loop below throws it
  try {
    for await (const piece of zip) yield piece as Uint8Array
    await fed
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw code.startsWith('Z_') ? broken() : error
  } finally {
    zip.destroy()
  }
}

/** Writes all pieces. Rejects with BodyBroken where other bytes than padding follow the end. */
async function feed(zip: Gunzip, pieces: Pieces): Promise<void> {
  let given = 0
  for await (const piece of pieces) {
    let padding = piece
    if (zip.bytesWritten === given) {
      given += piece.byteLength
      await new Promise(resolve => zip.write(piece, resolve)) // the reader sees its errors
      if (zip.destroyed) return
      padding = piece.subarray(piece.byteLength - (given - zip.bytesWritten))
    }
    if (!isPadding(padding)) throw broken()
  }
  if (given === 0) throw broken()
  zip.end()
}

function isPadding(bytes: Uint8Array): boolean {
  return bytes.every(byte => byte === 0)
}

function broken(): BodyBroken {
  const { code, message } = describeDocument(DOCUMENT.broken_gzip)
  return new BodyBroken(code, message)
}
