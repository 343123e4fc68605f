/** Messages between index-client.ts and the index thread (thread.ts). Calls are answered in their order, but
 *  for `dropPool` and `sweep`, which let others in between their steps. */
import type { WireError } from '../errors.ts'
import type { IndexOpened, KeyIndex, SealCommit, SealCommitted, SwapCommit } from './protocol.ts'
import type { RebuildPool } from './rebuild.ts'
import type { Swept } from './sweep.ts'

/** What the thread is started with. */
export interface IndexThreadData {
  /** Absolute: data/index. */
  readonly folder: string
  /** Absolute: data/segment. */
  readonly segmentFolder: string
  /** `native` takes the native key loop where it is built. */
  readonly kernel: 'native' | 'js'
  readonly crashAt: string
  /** Nice value of the thread; undefined: the process's. */
  readonly nice: number | undefined
}

/** What the catalog says of the index; the thread reads what is there until it comes. */
export interface IndexOwner {
  /** Random id of the data folder; an index with another one is foreign and rebuilt. */
  readonly identity: string
  /** Every pool that the catalog knows, with all plan versions: the rebuild needs them. */
  readonly pools: readonly RebuildPool[]
}

/** The first message. `leave`: there is no catalog to open the index for. */
export type IndexFirst = ({ readonly call: 'open' } & IndexOwner) | { readonly call: 'leave' }

/** Results by call. */
export interface IndexResults {
  commit: readonly SealCommitted[]
  swap: SealCommitted
  readMarks: Awaited<ReturnType<KeyIndex['readMarks']>>
  dropPool: undefined
  sweep: Swept
  stop: undefined
}

export type IndexCall =
  | { readonly id: number; readonly call: 'commit'; readonly seals: readonly SealCommit[] }
  | { readonly id: number; readonly call: 'swap'; readonly swap: SwapCommit }
  | { readonly id: number; readonly call: 'readMarks' | 'dropPool'; readonly pool: number }
  | { readonly id: number; readonly call: 'sweep'; readonly poolsByFolder: ReadonlyMap<string, number> }
  | { readonly id: number; readonly call: 'stop' }

export type IndexMessage =
  /** Of a rebuild: rows and deletes of all pools. */
  | { readonly kind: 'progress'; readonly done: number; readonly of: number; readonly pool: number }
  | { readonly kind: 'opened'; readonly opened: IndexOpened; readonly notes: IndexNotes }
  | { readonly kind: 'failed'; readonly error: WireError }
  | { readonly kind: 'done'; readonly id: number; readonly result: IndexResults[keyof IndexResults] }
  | { readonly kind: 'refused'; readonly id: number; readonly error: WireError }

/** Why an index was built that was never there: a new folder, a restored one, or one whose index was taken away. */
export const NEW_INDEX = 'it is new'

/** What opening found, for the operator. */
export interface IndexNotes {
  /** Why the index was rebuilt; undefined where it was whole. */
  readonly rebuiltBecause: string | undefined
  /** Files of seals that were never committed; removed. */
  readonly cleared: readonly string[]
  /** Folders of no known pool that the rebuild left alone. */
  readonly unknownFolders: readonly string[]
  /** Rows that the rebuild did not find any more, in words. */
  readonly lost: readonly string[]
}
