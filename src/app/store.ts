/**
 * What keeps catalog and rows, as the server sees it: a data folder (local-store.ts) or a cluster
 * (cluster-store.ts). start.ts chooses, and command.ts refuses commands that need a folder. No
 * request and no job asks which one runs.
 */
import type { ApiDeps, Health } from '../api/api-types.ts'
import type { StateOfServer } from '../api/graphql/parents.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Pool } from '../catalog/documents/model.ts'
import type { OpenedCatalog } from '../catalog/open-catalog.ts'
import type { Activity } from '../database/activity.ts'
import type { Metrics } from '../database/metrics.ts'
import type { JobRunner } from '../jobs/run-jobs.ts'
import type { startParseWorkers } from '../parse/parse-workers.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import type { QuestionDeps } from '../query/ask.ts'
import type { RowExports } from '../query/row-exports.ts'
import type { CopyStatement } from '../query/statement-copies.ts'
import type { OpenTail } from '../query/tail.ts'
import type { Backups } from '../tools/backup/backup-client.ts'
import type { ReceivedClocks } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'

/** The row of a queue in /metrics. */
export type Queue = readonly [name: string, depth: number, limit: number]

/** Rows on their way in. */
export interface RowStore {
  commit: ApiDeps['commit']
  /** A number below which are the sequences of everything acknowledged by now, and no later one. */
  boundary(): Promise<number>
}

/** What jobs need of the server above the store. */
export interface RunnerDeps {
  /** See addColumnRunner. */
  cutOver<T>(pool: Pool, change: (sequence: number) => Promise<T>): Promise<T>
}

export interface Store {
  readonly opened: OpenedCatalog
  readonly metrics: Metrics
  readonly parse: ReturnType<typeof startParseWorkers>
  readonly received: ReceivedClocks
  readonly rows: RowStore
  readonly reading: QuestionDeps
  /** A folder for files of one moment, absolute. */
  readonly temporaryFolder: string
  /** How rows leave as streams and files, with the thread that makes lines. */
  exports(exportThread: ExportClient): RowExports
  /** How answers of statements stream. Undefined where they do not. */
  readonly copyStatement: CopyStatement | undefined
  readonly openTail: OpenTail
  /** Backups of a running server; a refusal where they are taken otherwise. */
  readonly backups: Pick<Backups, 'begin'> | Refusal
  /** Where the id and secret of the first application are kept; undefined: nowhere but here. */
  readonly adminFile: string | undefined
  /** What runs, and what the start found: lines for the operator. */
  readonly notes: readonly string[]
  health(): Health
  /** Why no caller is answered now: this process may not know who may come in. */
  refusal(): Refusal | undefined
  /** True while a body of so many bytes may be taken. */
  room(bytes: number): boolean
  onRoom(listener: () => void): void
  /** A request without room waits for so long. Then it gets 429. */
  readonly waitMsMax: number
  /** The rows of a pool that are not deleted, and their bytes. */
  sizeOf(pool: Pool): Size | Promise<Size>
  /** What `serverStatus` tells of the store. */
  state(): Promise<StoreState>
  runners(deps: RunnerDeps): Readonly<Record<'ADD_COLUMN' | 'UPDATE_RECORDS' | 'DELETE_RECORDS', JobRunner>>
  /** The catalog for what one process does for all, such as jobs. Others' changes are refused. */
  readonly leaderCatalog: Pick<Catalog, 'change' | 'pool' | 'read'>
  /**
   * Calls `act` when this process is the one that runs jobs: at once, or each time that this node
   * of a cluster leads, until the signal.
   */
  lead(act: (ended?: AbortSignal) => void): void
  queues(): readonly Queue[]
  /** Registers the gauges of the store. */
  watch(activity: Activity): void
  /** The server listens: what waits for that begins. */
  ready(): void
  /** Ends what the store does by itself, beside requests that are still answered. */
  quiet(): Promise<void>
  /**
   * Stops, when no request is left. Resolves false where something is not in its place after so
   * long, and the next start has to recover it.
   */
  stop(msMax: number): Promise<boolean>
}

export interface Size {
  readonly rows: number
  readonly bytes: number
}

export type StoreState = Pick<
  StateOfServer,
  'unflushedRecords' | 'flushLagMs' | 'segments' | 'segmentBytes' | 'diskBytes' | 'diskFreeBytes'
>
