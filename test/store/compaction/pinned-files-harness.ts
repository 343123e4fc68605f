/**
 * A pool whose index may be lost at any moment, while queries pin files that merges made obsolete.
 * The flushes, merges, jobs' rewrites, index and rebuild are real, and the scheduler's code picks
 * the merges. Timers, threads and the syncs of files are left out.
 */
import { cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { ROW_NUMBER } from '../../../src/format/row-changes.ts'
import type { PoolSchema, SchemaColumn } from '../../../src/format/schema.ts'
import type { PoolSegment, QuerySegment } from '../../../src/index/index-types.ts'
import type { Merger } from '../../../src/store/compaction/compaction-types.ts'
import { MergeWriter } from '../../../src/store/compaction/merge.ts'
import { MergeThrottle } from '../../../src/store/compaction/merge-throttle.ts'
import type { PickInput } from '../../../src/store/compaction/pick-compaction.ts'
import { CompactionRunner } from '../../../src/store/compaction/run-compaction.ts'
import { unlinkSegments } from '../../../src/store/segment/publish-segment.ts'
import { type Disk, disk } from '../../../src/util/disk.ts'
import { DuckDBInstance } from '../../../src/util/duckdb.ts'
import { poolFolder } from '../../../src/util/paths.ts'
import { fixedCatalog } from '../../power/catalog.ts'
import { DAY_MS, FIRST_MS, poolIdOf } from '../../power/pools.ts'
import { visibleRows } from '../../power/read.ts'
import { openServer, type SingleThreadServer } from '../../power/single-thread-server.ts'
import { temporaryFolder } from '../../util/server.ts'

const POOL = 1
const NO_CLOCK = { cpuMs: () => 0, nowMs: () => 0, after: () => () => undefined }
/** No test of this harness cuts the power. */
const UNSYNCED: Disk = { ...disk, fdatasync: () => undefined, fsync: () => undefined }

const column = (name: string, type: SchemaColumn['type']): SchemaColumn => ({
  name,
  type,
  jsonProperty: name,
  required: true,
})

/** Places of the columns of `schemaWith`. */
export const COLUMN = { ts: 0, id: 1, version: 2, stamp: 3 } as const

/** A pool with this key; without a key every event is a row of its own. */
export function schemaWith(key: PoolSchema['key']): PoolSchema {
  const columns = [
    column('ts', 'TIMESTAMP'),
    column('id', 'STRING'),
    column('version', 'INT64'),
    column('stamp', 'INT64'),
  ]
  return { pool: POOL, version: 1, columns, timestamp: COLUMN.ts, tenant: -1, key }
}

/** An event, or the key of a row to delete. */
export interface Event {
  readonly id: string
  /** Days after the first timestamp. */
  readonly day?: number
  readonly version?: number
  readonly stamp?: number
}

/** Key → stamp of the visible rows. */
export type VisibleRows = ReadonlyMap<string, number>

export class PinnedFilesHarness {
  server!: SingleThreadServer
  readonly #schema: PoolSchema
  readonly #root = temporaryFolder('weir-pinned-')
  readonly #data = join(this.#root, 'data')
  readonly #writer = new MergeWriter(new MergeThrottle(NO_CLOCK, 'full'), join(this.#root, 'merge'), UNSYNCED)
  #runner!: CompactionRunner
  #duckdb: DuckDBInstance | undefined

  constructor(schema: PoolSchema) {
    this.#schema = schema
  }

  /** Opens the server, and removes files that no transaction names, as every start does. */
  async open(): Promise<void> {
    this.server = await this.#openServer(this.#data)
    await this.server.sweep()
    this.#runner = this.#openRunner()
  }

  /** Stops the server, removes these folders of its data, and opens it again. Pins are lost. */
  async restart(without: readonly ('index' | 'log')[] = []): Promise<void> {
    await this.server.stop()
    for (const folder of without) rmSync(join(this.#data, folder), { recursive: true })
    await this.open()
  }

  async close(): Promise<void> {
    this.#writer.close()
    this.#duckdb?.closeSync()
    await this.server.stop()
    rmSync(this.#root, { recursive: true })
  }

  /** The folder of the pool's segments. */
  get folder(): string {
    return poolFolder(this.server.paths, poolIdOf(POOL))
  }

  segments() {
    return this.server.manifest.pool(POOL)?.segments ?? []
  }

  /** What a query pins. */
  snapshot() {
    return this.server.manifest.snapshot(POOL)
  }

  /** The key of a row or event. A row without a key is named by its stamp. */
  readonly keyOf = (row: Readonly<Record<string, unknown>>): string => {
    const { columns, key } = this.#schema
    const names = key === null ? ['stamp'] : key.columns.map(index => columns[index]!.name)
    return names.map(name => String(row[name])).join(' ')
  }

  /** The row that an event becomes, as a reader of the file has it. */
  rowOf({ id, day = 0, version = 0, stamp = 0 }: Event) {
    return { ts: 1000 * (FIRST_MS + day * DAY_MS), id, version, stamp }
  }

  /** Posts or deletes rows. They stay in the memtable. */
  async send(events: readonly Event[], kind: 'post' | 'delete' = 'post'): Promise<void> {
    const rows = events.map(event => this.rowOf(event))
    const body = Buffer.from(
      JSON.stringify(rows.map(row => ({ ...row, ts: new Date(row.ts / 1000).toISOString() }))),
    )
    const mutations = rows.map(row => ({ key: this.keyOf(row), stamp: kind === 'post' ? row.stamp : null }))
    await this.server.send([
      { pool: POOL, kind, context: Buffer.alloc(0), body, receivedAtUs: 1000 * FIRST_MS, mutations },
    ]).acked
  }

  /** Sends rows like `send`, and flushes the memtable; returns the number of the newest segment. */
  async flush(events: readonly Event[], kind: 'post' | 'delete' = 'post'): Promise<number> {
    await this.send(events, kind)
    await this.server.flush(POOL)
    return Math.max(...this.segments().map(({ segment }) => segment))
  }

  /** The next flush makes a segment of its own, and merges and jobs may take the earlier ones. */
  forgetRecent(): void {
    this.server.flusher.forgetRecent(POOL)
  }

  /**
   * Runs all compactions that the scheduler would run now; returns their number.
   * @param kept segments that no merge takes, as if they were large
   */
  async merge(...kept: readonly number[]): Promise<number> {
    const { flusher, manifest } = this.server
    const inputOf = (segments: readonly PoolSegment[]): PickInput => ({
      segments,
      obsolete: manifest.uncovered(POOL),
      isExcluded: segment => flusher.replaceableSegments(POOL).has(segment) || kept.includes(segment),
      expireBeforeUs: undefined,
    })
    let merges = 0
    for (; await this.#runner.runNext(POOL, inputOf); merges++) expect(merges).toBeLessThan(20)
    return merges
  }

  /** Removes these rows of a segment, and those that are dead already, as a deletion job does. */
  async deleteRows({ meta: { segment } }: QuerySegment, rows: readonly number[]): Promise<void> {
    const file = join(this.#root, 'changes.parquet')
    this.#duckdb ??= await DuckDBInstance.create(':memory:', { threads: '1' })
    const connection = await this.#duckdb.connect()
    const numbers = `SELECT unnest([${rows.join()}]::BIGINT[]) AS ${ROW_NUMBER}`
    await connection.run(`COPY (${numbers}) TO '${file}' (FORMAT parquet)`)
    connection.closeSync()
    const rewrite = { segment, schemaVersion: this.#schema.version, changes: { file, set: [] } }
    expect(await this.#runner.rewrite(POOL, rewrite, 0)).toBe('done')
  }

  /**
   * The rows that a query sees. A rebuild of the index, with or without the log, shows the same.
   */
  async visible(withLog = false): Promise<VisibleRows> {
    const now = await this.#rowsOf(this.server)
    const copy = join(this.#root, 'copy')
    for (const folder of withLog ? ['segment', 'log'] : ['segment'])
      if (existsSync(join(this.#data, folder)))
        cpSync(join(this.#data, folder), join(copy, folder), { recursive: true })
    const other = await this.#openServer(copy)
    const rebuilt = await this.#rowsOf(other)
    await other.stop()
    rmSync(copy, { recursive: true })
    expect(rebuilt, `after a rebuild ${withLog ? 'with' : 'without'} the log`).toEqual(now)
    return now
  }

  async #rowsOf(server: SingleThreadServer): Promise<VisibleRows> {
    await server.flush(POOL) // rows that a recovery took from the log
    return await visibleRows(server.manifest, POOL, {
      keyOf: this.keyOf,
      contentOf: row => Number(row['stamp']),
    })
  }

  #openServer(root: string): Promise<SingleThreadServer> {
    return openServer({
      root,
      disk: UNSYNCED,
      kernel: 'native',
      durability: 'os',
      fileBytes: 64 * 1024,
      flushRows: 1000,
      onTransaction: () => undefined,
      catalog: fixedCatalog([this.#schema]),
      identity: 'pinned',
    })
  }

  #openRunner(): CompactionRunner {
    const { manifest, opened } = this.server
    const merger: Merger = {
      merge: task => this.#writer.merge(task),
      problemOf: async () => undefined,
      setSpeed: () => undefined,
      stop: async () => undefined,
    }
    const pool = { poolId: poolIdOf(POOL), folder: this.folder, retentionDays: 0, schema: () => this.#schema }
    return new CompactionRunner({
      merger,
      clock: { nowMs: () => 0, wallMs: () => FIRST_MS, after: () => () => undefined },
      pool: () => pool,
      obsolete: number => manifest.uncovered(number),
      takeSegmentNumber: number => this.server.takeSegmentNumber(number),
      pin: number => manifest.snapshot(number),
      commit: async commit => opened.index.commitCompaction(commit),
      apply: (commit, committed) => manifest.applyCompaction(commit, committed),
      unlink: async (from, segments) => unlinkSegments(UNSYNCED, from, segments),
      onMerged: () => undefined,
    })
  }
}
