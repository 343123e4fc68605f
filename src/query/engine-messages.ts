/** The protocol of the query thread (engine-client.ts, workers/query.ts). */
import type { QueryDone, QueryTask } from './query-types.ts'

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

/** What the main thread asks of the query thread. A stop interrupts what runs. */
export interface EngineCalls {
  /** The first call. */
  open(): void
  run(task: QueryTask): QueryDone
  /** No manifest names these files any more. */
  forget(files: readonly string[]): void
}
