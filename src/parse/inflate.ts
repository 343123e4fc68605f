/** gzip bodies: inflated on a parse worker's thread, one step, stopped at the limit. */
import { constants, gunzipSync } from 'node:zlib'
import { BODY_BYTES_MAX } from '../util/limits.ts'
import { DOCUMENT } from './event-error.ts'

const OPTIONS = { maxOutputLength: BODY_BYTES_MAX, finishFlush: constants.Z_FINISH, info: true }

/** What gunzipSync answers with `info`; its types leave it out. `bytesWritten` is what it read. */
interface Inflated {
  readonly buffer: Buffer
  readonly engine: { readonly bytesWritten: number }
}

/**
 * The inflated bytes, or the document's fault (DOCUMENT.…). Stops at one byte over BODY_BYTES_MAX. Several members are one
 * body, and zeros may follow them as padding.
 *
 * NOTE: behind a member zlib's wrapper stops at a zero byte and says nothing of what follows it, another member even.
 */
export function inflate(bytes: Uint8Array): Uint8Array | number {
  try {
    const { buffer, engine } = gunzipSync(bytes, OPTIONS) as unknown as Inflated
    const padding = bytes.subarray(engine.bytesWritten)
    return padding.every(byte => byte === 0) ? buffer : DOCUMENT.broken_gzip
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ERR_BUFFER_TOO_LARGE' ? DOCUMENT.body_too_large : DOCUMENT.broken_gzip
  }
}
