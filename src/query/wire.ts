/** Messages between engine-client.ts (main thread) and workers/query.ts. */
import type { WireError } from '../errors.ts'
import type { QueryDone, QueryJob } from './protocol.ts'

/** What the query worker is started with. */
export interface EngineSettings {
  /** Absolute folder of all segments: the only one that queries may read, besides the temporary one. */
  readonly segmentFolder: string
  /** Absolute folder that DuckDB spills to. */
  readonly temporaryFolder: string
  /** Absolute folder that copies may be written to besides. */
  readonly outputFolder?: string | undefined
  /** `js`: TypeScript alone, even where the native module is there. */
  readonly kernel?: 'native' | 'js' | undefined
  readonly threads: number
  readonly memoryBytes: number
  /** A query is interrupted after this. */
  readonly queryMsMax: number
}

export type EngineWorkerData = EngineSettings & { readonly crashAt: string }

export type ToEngine =
  | { readonly kind: 'run'; readonly id: number; readonly job: QueryJob }
  | { readonly kind: 'stop' }

export type FromEngine =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly id: number; readonly done: QueryDone }
  | { readonly kind: 'failed'; readonly id: number; readonly error: WireError }
