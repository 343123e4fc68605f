/** Main thread ↔ merge thread, as they are posted. */
import type { WireError } from '../errors.ts'
import type { MergeDone, MergeJob, Pace } from './protocol.ts'

export type ToMerger =
  | { readonly do: 'merge'; readonly job: MergeJob }
  | { readonly do: 'pace'; readonly pace: Pace }
  | { readonly do: 'stop' }

/** The answer to the one merge that runs. Keys are moved. */
export type FromMerger = { readonly done: MergeDone } | { readonly error: WireError }

/** What the thread is started with. */
export interface MergeThreadData {
  readonly crashAt: string
  /** Nice value of the thread; 0 leaves it. */
  readonly nice: number
  readonly pace: Pace
  /** Absolute folder for what is not durable yet: its own, and emptied. */
  readonly temporary: string
}
