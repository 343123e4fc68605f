/**
 * A transaction's commit failed: is it known that nothing of it is there?
 *
 *   W-4  LMDB writes its data pages, syncs them, and writes one meta page last. A disk that is full refuses before that page:
 *        nothing of the transaction is there, and it may be tried again. Once the meta page was begun, or the disk failed in
 *        another way, nobody knows which state a power cut leaves. Then nothing may be unlinked, acknowledged or committed on
 *        top: the process ends, as it does when a thread is lost, and the next start reads, and syncs, what is there.
 */
import { getSystemErrorName } from 'node:util'

/** Nobody knows whether the transaction is on disk. No call on the index may follow. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'

  constructor(cause: string) {
    super(`a commit failed while it was written (${cause}), so nobody knows whether it is on disk`)
  }
}

/** What a disk that is full says, whatever sets its limit, and memory that is. LMDB's own refusals come before it writes, too. */
const REFUSALS = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'ENOMEM'])
/** LMDB's MDB_PANIC, as lmdb-js gives it. */
const PANIC = -30_795

/**
 * What to throw for a commit that failed with `error`: itself where nothing of the transaction is there, else OutcomeUnknown.
 * @param isBroken LMDB takes no further transaction: the meta page was begun
 */
export function commitFailure(error: unknown, isBroken: boolean): unknown {
  const code = codeOf(error)
  const isKnown = REFUSALS.has(code) || (code.startsWith('MDB_') && code !== 'MDB_PANIC')
  if (isKnown && !isBroken) return error
  return new OutcomeUnknown(`${code}: ${error instanceof Error ? error.message : String(error)}`)
}

/** `ENOSPC`, `MDB_PANIC`, …: the native store gives names, lmdb-js numbers. */
export function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'string') return code
  if (typeof code !== 'number') return 'UNKNOWN'
  if (code > 0) return getSystemErrorName(-code)
  return code === PANIC ? 'MDB_PANIC' : 'MDB_ERROR'
}
