/**
 * Inflates a zstd body at once, as gunzip.ts does for gzip. Several frames make one body. Skippable
 * frames are passed over. A body without a frame, with a part of one or with other bytes behind the
 * last one is broken. Zeros are no padding here: RFC 8878 has skippable frames for that.
 *
 *   W-9  A body stops at one byte over BODY_BYTES_MAX. The decoder's memory is made once. It holds
 *        a body before and after inflating, and no window: libzstd decodes into the result itself.
 *
 * NOTE: Node 20 has no zstd. zstddec is libzstd as WebAssembly. Its own `decode` returns no bytes
 * for an error of any kind, and a body that is too large is 413, a broken one 400. So libzstd is
 * called here directly.
 */
import { ZSTDDecoder } from 'zstddec'
import { assert, must } from '../../util/errors.ts'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { type BodyRefusal, bodyTooLarge, refuseBody } from './body-error.ts'

/** Inflates a body. Its result is its caller's. */
export type Unzstd = (bytes: Uint8Array) => Uint8Array | BodyRefusal

/** The functions of libzstd that are used here. A pointer is an offset in `memory`. */
interface Libzstd {
  readonly memory: { readonly buffer: ArrayBuffer }
  malloc(bytes: number): number
  /** Returns the bytes that it wrote, or a negative error code. */
  ZSTD_decompress(into: number, intoBytes: number, from: number, fromBytes: number): number
}

/** ZSTD_error_dstSize_tooSmall of zstd_errors.h. */
const TOO_SMALL = -70

let loading: Promise<Unzstd> | undefined

/**
 * The thread's decoder. The first call compiles it, which takes some 50 ms. From then on it holds
 * memory for two bodies.
 */
export function loadUnzstd(): Promise<Unzstd> {
  loading ??= load().catch(error => {
    loading = undefined // the next call tries again
    throw error
  })
  return loading
}

async function load(): Promise<Unzstd> {
  const decoder = new ZSTDDecoder()
  const initialize = decoder._init
  let loaded: Libzstd | undefined
  decoder._init = result => {
    loaded = result.instance.exports as unknown as Libzstd
    initialize(result)
  }
  await decoder.init()
  const libzstd = must(loaded, 'the exports of libzstd')
  const from = libzstd.malloc(BODY_BYTES_MAX)
  const into = libzstd.malloc(BODY_BYTES_MAX + 1)
  assert(from !== 0 && into !== 0, 'libzstd has memory for a body')
  return bytes => {
    assert(bytes.length <= BODY_BYTES_MAX, 'a body that was received is within the limit')
    if (bytes.length === 0) return BROKEN
    // The memory may have grown since the last call, and a grown one has a new buffer.
    new Uint8Array(libzstd.memory.buffer, from).set(bytes)
    const inflated = libzstd.ZSTD_decompress(into, BODY_BYTES_MAX + 1, from, bytes.length)
    if (inflated === TOO_SMALL || inflated > BODY_BYTES_MAX) return bodyTooLarge('a decoded body')
    return inflated < 0 ? BROKEN : new Uint8Array(libzstd.memory.buffer, into, inflated).slice()
  }
}

const BROKEN = refuseBody('broken_zstd', 'the body is not a complete zstd stream, or its checksum is wrong')
