/**
 * A server in one thread over a given Disk: ingest, log, memtables, flushes, index, manifest,
 * removal of replaced files, release of log files. The parts are the product's own; only threads
 * and HTTP are missing.
 */

import { basename, dirname } from 'node:path'
import { wireIngest } from '../../src/app/ingest-wiring.ts'
import { replayChunk } from '../../src/engine/replay.ts'
import { RECORD_HEADER_BYTES, recordBytes } from '../../src/format/log-record.ts'
import { KEY_RECEIVED_AT, type PoolSchema } from '../../src/format/schema.ts'
import type { CompactionCommit } from '../../src/index/index-types.ts'
import { createManifest, type Manifest } from '../../src/index/manifest.ts'
import { type Opened, openIndexFolder } from '../../src/index/open-index.ts'
import { sweep } from '../../src/index/sweep-orphans.ts'
import type { Commit, Span } from '../../src/log/log-types.ts'
import { heldSequences } from '../../src/log/read-log.ts'
import type { RecoveredSummary } from '../../src/log/recover-log.ts'
import {
  FLAG_RISES,
  OUTCOME_ACCEPTED,
  OUTCOME_WORDS,
  REQUEST_BITS,
  REQUEST_BYTES,
  REQUEST_FLAGS,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask, ParseTaskGroup } from '../../src/parse/parse-task.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import type { FlushClock } from '../../src/store/flush/flusher.ts'
import { Flusher } from '../../src/store/flush/flusher.ts'
import { ENTRY_WORDS } from '../../src/store/flush/memtable.ts'
import type { SegmentWriter } from '../../src/store/flush/segment-writer.ts'
import { tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import { FlushWriter } from '../../src/store/segment/write-segment.ts'
import { must } from '../../src/util/assert.ts'
import { ReceivedClocks } from '../../src/util/clock.ts'
import type { Disk } from '../../src/util/disk.ts'
import type { KernelChoice } from '../../src/util/native.ts'
import { numberOfFile, type Paths, pathsOf, poolFolder } from '../../src/util/paths.ts'
import { openOn } from '../log/log.ts'
import { poolIdOf, type Request, SCHEMAS } from './pools.ts'

export interface ServerOptions {
  /** The data folder. */
  readonly root: string
  readonly disk: Disk
  readonly kernel: KernelChoice
  readonly durability: 'fsync' | 'os'
  /** Small, so that a few requests fill a log file. */
  readonly fileBytes: number
  /** The number of rows at which a memtable is flushed. */
  readonly flushRows: number
  /** Called before and after each transaction of the index, which syncs in between. */
  readonly onTransaction: (what: string) => void
  /** One of each pool. Those of the power-cut runs if absent. */
  readonly schemas?: readonly PoolSchema[]
}

/** Without timers: a flush comes when a memtable is full or the test asks for it. */
const NO_CLOCK: FlushClock = { nowMs: () => 1, after: () => () => undefined }

/** Opens the folder and replays its log. */
export async function openServer(options: ServerOptions): Promise<SingleThreadServer> {
  const { root, disk, kernel, schemas = SCHEMAS } = options
  const paths = pathsOf(root)
  const opened = await openIndexFolder({
    disk,
    folder: paths.index,
    segmentFolder: paths.segment,
    identity: 'power',
    pools: schemas.map(schema => ({ pool: schema.pool, poolId: poolIdOf(schema.pool), schemas: [schema] })),
    kernel,
    heldSequences: pools => heldSequences(disk, paths.log, pools),
    onProgress: () => undefined,
  })
  const server = new SingleThreadServer(options, paths, opened)
  try {
    await Promise.race([server.openLog(), server.failed])
  } catch (error) {
    opened.index.close()
    throw error
  }
  return server
}

export class SingleThreadServer {
  readonly manifest: Manifest
  readonly flusher: Flusher
  readonly opened: Opened
  readonly paths: Paths
  readonly schemas: readonly PoolSchema[]
  summary: RecoveredSummary | undefined
  readonly #options: ServerOptions
  readonly #sharedSchemas: ReadonlyMap<number, SharedArrayBuffer>
  readonly #run: (task: ParseTask) => ParseResult
  readonly #clocks = new ReceivedClocks()
  #commit: Commit | undefined
  #ingest: ReturnType<typeof wireIngest> | undefined
  #onLogOpened: (commit: Commit) => void = () => {}
  readonly #logOpened = new Promise<Commit>(resolve => {
    this.#onLogOpened = resolve
  })
  /** Rejects with the first failure of a flush or of the sweep. */
  readonly failed: Promise<never>
  #onFailed: (error: Error) => void = () => {}

  constructor(options: ServerOptions, paths: Paths, opened: Opened) {
    const { disk, kernel, flushRows, schemas = SCHEMAS } = options
    this.#options = options
    this.opened = opened
    this.paths = paths
    this.schemas = schemas
    this.#sharedSchemas = new Map(schemas.map(schema => [schema.pool, shared(JSON.stringify(schema))]))
    this.#run = createTaskRunner(kernel)
    this.failed = new Promise((_, reject) => {
      this.#onFailed = reject
    })
    this.failed.catch(() => undefined)
    this.manifest = createManifest({
      pools: opened.pools,
      lastCommit: opened.lastCommit,
      readDeletionVectors: async pool => opened.index.readDeletionVectors(pool),
      folderOf: pool => poolFolder(paths, poolIdOf(pool)),
      onUnpinned: files => {
        for (const file of files)
          unlinkSegments(disk, dirname(file), [must(numberOfFile(basename(file)), 'a segment')])
      },
    })
    this.flusher = new Flusher({
      writer: this.#writer(),
      commit: async flushes => this.#transact('flush', () => opened.index.commit(flushes)),
      syncLog: async () => (await this.#logOpened).syncAll(),
      onCommitted: flushes => {
        this.manifest.apply(
          flushes.map(flush => flush.commit),
          flushes.map(flush => flush.committed),
        )
        must(this.#commit, 'the log').release(this.flusher.lowestUnflushedSequence())
      },
      onFailed: (_, error) => this.#failed(error),
      onFatal: error => this.#failed(error),
      clock: NO_CLOCK,
      limits: { rows: flushRows, bytes: 1e9, entries: 50 },
    })
    for (const { pool, receivedToUs } of opened.pools) this.#clocks.of(pool).raise(receivedToUs)
    for (const { pool } of schemas) {
      const nextSegment = this.manifest.pool(pool)?.nextSegment ?? 1
      this.flusher.addPool({
        pool,
        poolId: poolIdOf(pool),
        folder: poolFolder(paths, poolIdOf(pool)),
        nextSegment,
      })
    }
  }

  /** Recovers the log into the memtables, as start.ts does. */
  async openLog(): Promise<void> {
    const { disk, durability, fileBytes } = this.#options
    const states = new Map(this.opened.pools.map(state => [state.pool, state.flushedSequence]))
    const flushed = new Map(this.schemas.map(({ pool }) => [pool, states.get(pool) ?? 0]))
    const deps = {
      schema: (pool: number) => {
        const schema = this.schemas.find(each => each.pool === pool)
        return schema === undefined
          ? undefined
          : { schema, shared: must(this.#sharedSchemas.get(pool), 'a schema') }
      },
      parse: async (task: ParseTask) => this.#run(task),
      append: this.flusher.append.bind(this.flusher),
      received: (pool: number, us: number) => this.#clocks.of(pool).raise(us),
    }
    const { summary, commit } = await openOn(
      disk,
      { folder: this.paths.log, fileBytes, durability, flushed },
      chunk => replayChunk(chunk, deps),
    )
    this.summary = summary
    this.#commit = commit
    this.#ingest = wireIngest({
      catalog: { schema: (pool: number) => this.schemas.find(each => each.pool === pool) } as never,
      commit,
      received: this.#clocks,
      append: deps.append,
    })
    this.#onLogOpened(commit)
  }

  /**
   * Sends requests as one append. Returns their first sequence at once; `acked` resolves when they
   * are acknowledged.
   */
  send(requests: readonly Request[]): { readonly firstSequence: number; readonly acked: Promise<void> } {
    const commit = must(this.#commit, 'the log')
    const firstSequence = commit.stats().lastSequence + 1
    const { spans, parts } = this.#parse(requests)
    const bytes = spans.reduce((sum, span) => sum + span.bytes, 0)
    const acked = must(this.#ingest, 'the ingest').commit({ spans, records: requests.length, bytes, parts })
    return { firstSequence, acked }
  }

  /** Commits a compaction, as the scheduler does. */
  commitCompaction(compaction: CompactionCommit): void {
    const commit = () => this.opened.index.commitCompaction(compaction)
    const committed = this.#transact('compaction commit', commit)
    this.manifest.applyCompaction(compaction, committed)
  }

  /** Removes files that no transaction names, as after every start. */
  async sweep(): Promise<void> {
    const { pools, folders, rebuiltBecause, index } = this.opened
    const found = await sweep({
      disk: this.#options.disk,
      segmentFolder: this.paths.segment,
      opened: pools,
      now: index.state().pools,
      folders,
      poolsByFolder: new Map(this.schemas.map(({ pool }) => [poolIdOf(pool), pool])),
      indexWasWhole: rebuiltBecause === undefined,
      mayGoOn: () => undefined,
    })
    for (const pool of found.poolsWithOrphans) this.manifest.keepUncovered(pool)
    if (found.missing.length > 0) this.#failed(new Error(`named and missing: ${found.missing.join()}`))
  }

  /** Syncs the log, with either durability. Earlier requests survive every later power cut. */
  sync(): Promise<void> {
    return must(this.#commit, 'the log').syncAll()
  }

  /** Stops the log with its clean-stop mark and closes the index. */
  async stop(): Promise<void> {
    this.flusher.stop()
    await must(this.#commit, 'the log').stop()
    this.opened.index.close()
  }

  #transact<T>(what: string, work: () => T): T {
    this.#options.onTransaction(`before ${what}`)
    const result = work()
    this.#options.onTransaction(`after ${what}`)
    return result
  }

  #failed(error: Error): void {
    this.#onFailed(error)
  }

  /** Does the work of the segment thread. */
  #writer(): SegmentWriter {
    const { disk, kernel } = this.#options
    const writer = new FlushWriter(
      tryAssemblerNative(kernel) ?? assemblerJs,
      tryEncoderNative(kernel) ?? encoderJs,
      disk,
    )
    return {
      flush: async task => {
        await new Promise(resolve => setImmediate(resolve))
        return writer.write(task)
      },
      unlink: async (folder, segments) => unlinkSegments(disk, folder, segments),
      stop: async () => undefined,
    }
  }

  /**
   * Does the work of the parse workers and the front end: makes a span and a part for each request.
   */
  #parse(requests: readonly Request[]) {
    const spans: Span[] = []
    const parts = requests.map((request, place) => {
      const { pool, kind, body, receivedAtUs } = request
      const offset = RECORD_HEADER_BYTES
      const slab = new SharedArrayBuffer(recordBytes(body.length) + 64)
      new Uint8Array(slab).set(body, offset)
      const table = new Float64Array(REQUEST_WORDS)
      table[REQUEST_OFFSET] = offset
      table[REQUEST_BYTES] = body.length
      table[REQUEST_RECEIVED_AT] = receivedAtUs
      table[REQUEST_BITS] = -1
      const schema = must(this.#sharedSchemas.get(pool), 'a schema')
      const { key } = must(
        this.schemas.find(each => each.pool === pool),
        'a schema',
      )
      const hasEventTimes = kind === 'post' && key?.columns.includes(KEY_RECEIVED_AT) === true
      if (hasEventTimes) table[REQUEST_FLAGS] = FLAG_RISES
      const clock = hasEventTimes ? { clock: this.#clocks.of(pool).share() } : {}
      const group: ParseTaskGroup = { kind, pool, version: 1, schema, from: 0, to: 1, ...clock }
      const result = this.#run({ slab, table, groups: [group] })
      const bits = result.bits[0]?.bytes
      const span = { slab, offset: 0, bytes: result.recordBytes[0]!, records: 1 }
      spans.push(bits === undefined ? span : { ...span, bits })
      const accepted = result.outcomes[OUTCOME_ACCEPTED]!
      if (accepted !== request.mutations.length || result.outcomes.length !== OUTCOME_WORDS)
        throw new Error(`${accepted} events accepted, not ${request.mutations.length}: ${Buffer.from(body)}`)
      return result.batches.map(part => {
        const entry = new Float64Array(ENTRY_WORDS)
        const firstUs = part.receivedAtUs?.[0]
        entry.set([place, firstUs ?? receivedAtUs, accepted, firstUs === undefined ? 0 : 1])
        return { kind, pool, version: 1, batch: part.batch, requests: entry }
      })
    })
    return { spans, parts: parts.flat() }
  }
}

function shared(text: string): SharedArrayBuffer {
  const bytes = Buffer.from(text)
  const memory = new SharedArrayBuffer(bytes.length)
  new Uint8Array(memory).set(bytes)
  return memory
}
