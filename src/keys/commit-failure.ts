/**
 * A transaction's commit failed, and nobody knows whether it is on disk.
 *
 *   W-4  LMDB writes data pages, syncs them, and writes one meta page last. What fails before that page (a full disk) leaves
 *        nothing of the transaction: no page that counts was touched, and the next try writes and syncs its own. Where the
 *        meta page itself failed, a power cut may leave the state before or after. Then nothing may be unlinked, answered or
 *        committed on top: the process ends, as where a thread is lost; the next start reads, and syncs, what is there.
 */

/** No call on the store may follow. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'

  /** @param cause the write that failed */
  constructor(cause: string) {
    super(`a commit of the index failed at its last write (${cause}): nobody knows whether it is on disk`)
  }
}
