/**
 * Messages between the main thread and the two threads of the commit stage: the log worker, which does nothing
 * but write and sync, and the spare worker, which makes and removes files so that no ack waits for that.
 */
import type { WireError } from '../util/errors.ts'
import type { LogHeader } from './log-folder.ts'
import type { Durability, GenerationFile, Group, Written } from './log-writer.ts'
import type { RecoveredSummary } from './recover-log.ts'
import type { ReplayChunk } from './replay-chunk.ts'

/** workerData of both threads. */
export interface ThreadData {
  readonly folder: string
  readonly fileBytes: number
  readonly durability: Durability
  readonly crashAt: string
}

/** What the main thread needs to know of a recovered log. */
export interface RecoveredState {
  readonly summary: RecoveredSummary
  readonly files: readonly GenerationFile[]
  readonly spares: readonly string[]
  readonly old: readonly string[]
}

export type ToLog =
  /** Before the first message of all: the log is read and checked, while its flushed sequences are not known yet. */
  | { readonly kind: 'read' }
  | { readonly kind: 'recover'; readonly flushed: ReadonlyMap<number, number> }
  /** The chunk was taken: the next may come. */
  | { readonly kind: 'replayed' }
  | { readonly kind: 'group'; readonly group: Group }
  | { readonly kind: 'spare'; readonly name: string }
  | { readonly kind: 'stop' }

export type FromLog =
  | { readonly kind: 'replay'; readonly chunk: ReplayChunk }
  | { readonly kind: 'recovered'; readonly state: RecoveredState }
  | { readonly kind: 'written'; readonly ms: number; readonly written: Written }
  /** The group does not fit and there is no empty file. It was not written and may come again. */
  | { readonly kind: 'no_spare' }
  /** The next file cannot be opened, for want of descriptors. The group was not written and may come again. */
  | { readonly kind: 'no_file'; readonly what: string }
  /** After no_file: it can be opened again. */
  | { readonly kind: 'file_again' }
  | { readonly kind: 'stopped' }
  /** Recovery failed, or the log is poisoned. */
  | { readonly kind: 'failed'; readonly error: WireError }

export type ToSpare =
  | { readonly kind: 'begin'; readonly spares: readonly string[]; readonly old: readonly string[] }
  | { readonly kind: 'taken'; readonly name: string }
  | { readonly kind: 'release'; readonly header: LogHeader; readonly names: readonly string[] }
  | { readonly kind: 'end' }

export type FromSpare =
  | { readonly kind: 'ready'; readonly name: string }
  /** No file could be made; it is tried again each DISK_RETRY_MS. */
  | { readonly kind: 'full'; readonly what: string }
  /** Old files could not be removed; they are no part of the log and cost room only. */
  | { readonly kind: 'trouble'; readonly what: string }
  | { readonly kind: 'ended' }

/** One end of a thread's channel. */
export interface Port<To, From> {
  post(message: To): void
  onMessage: (message: From) => void
  /** The thread ended by itself: a bug there. */
  onDeath: (error: Error) => void
  end(): Promise<void>
}
