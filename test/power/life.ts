/**
 * The stages of one server's life, joined in one thread over a given Disk: ingest, log, tails, seals, index, manifest,
 * unlinking of replaced files, release of log files. The pieces are the product's own; only threads and HTTP are missing.
 */
import { basename, dirname } from 'node:path'
import { createJobRunner } from '../../src/batch/job.ts'
import {
  OUTCOME_ACCEPTED,
  OUTCOME_WORDS,
  REQUEST_BITS,
  REQUEST_BYTES,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from '../../src/batch/kernel.ts'
import { chooseKernels } from '../../src/batch/kernels.ts'
import type { Job, JobGroup, JobResult } from '../../src/batch/protocol.ts'
import { heldSequences } from '../../src/commit/held.ts'
import type { Commit, Span } from '../../src/commit/protocol.ts'
import { RECORD_HEADER_BYTES, recordBytes } from '../../src/commit/record.ts'
import type { RecoveredSummary } from '../../src/commit/recover.ts'
import { joinIngest } from '../../src/ingest.ts'
import { createManifest, type Manifest } from '../../src/keys/manifest.ts'
import { type Opened, openIndexFolder } from '../../src/keys/open.ts'
import type { SwapCommit } from '../../src/keys/protocol.ts'
import { sweep } from '../../src/keys/sweep.ts'
import { numberOfFile, type Paths, pathsOf, poolFolder } from '../../src/paths.ts'
import { replayChunk } from '../../src/replay.ts'
import { assemblerJs, tryAssemblerNative } from '../../src/segment/assembler.ts'
import { readDeleteFile } from '../../src/segment/deletes.ts'
import { tryEncoderNative } from '../../src/segment/encoder.ts'
import { encoderJs } from '../../src/segment/encoder-js.ts'
import { ENTRY_WORDS, type SegmentWriter } from '../../src/segment/protocol.ts'
import { unlinkSegments } from '../../src/segment/publish.ts'
import { Sealer } from '../../src/segment/sealer.ts'
import type { SealClock } from '../../src/segment/sealer-calls.ts'
import { Writer } from '../../src/segment/write.ts'
import { must } from '../../src/util/assert.ts'
import type { Disk } from '../../src/util/disk.ts'
import { openOn } from '../commit/log.ts'
import { PLANS, poolIdOf, type Request } from './pools.ts'

export interface LifeOptions {
  /** The data folder. */
  readonly root: string
  readonly disk: Disk
  readonly kernel: 'native' | 'js'
  readonly durability: 'fsync' | 'os'
  /** Small, so that a few requests change log files. */
  readonly fileBytes: number
  /** Rows at which a tail is sealed by itself. */
  readonly sealRows: number
  /** Called around each transaction of the index: between the two it is flushed. */
  readonly onTransaction: (what: string) => void
}

/** No timer: seals come when a tail is full or somebody asks. */
const NO_CLOCK: SealClock = { nowMs: () => 1, after: () => () => undefined }

const SHARED_PLANS = new Map(PLANS.map(plan => [plan.pool, shared(JSON.stringify(plan))]))

/** Opens the folder and replays its log. */
export async function openLife(options: LifeOptions): Promise<Life> {
  const { root, disk, kernel } = options
  const paths = pathsOf(root)
  const opened = await openIndexFolder({
    disk,
    folder: paths.index,
    segmentFolder: paths.segment,
    identity: 'power',
    pools: PLANS.map(plan => ({ pool: plan.pool, poolId: poolIdOf(plan.pool), plans: [plan] })),
    kernel,
    parseDeletes: readDeleteFile,
    heldSequences: pools => heldSequences(disk, paths.log, pools),
    onProgress: () => undefined,
  })
  const life = new Life(options, paths, opened)
  try {
    await Promise.race([life.openLog(), life.failed])
  } catch (error) {
    opened.index.close()
    throw error
  }
  return life
}

export class Life {
  readonly manifest: Manifest
  readonly sealer: Sealer
  readonly opened: Opened
  readonly paths: Paths
  summary: RecoveredSummary | undefined
  readonly #options: LifeOptions
  readonly #run: (job: Job) => JobResult
  #commit: Commit | undefined
  #ingest: ReturnType<typeof joinIngest> | undefined
  #onLog: (commit: Commit) => void = () => {}
  readonly #logJoined = new Promise<Commit>(resolve => {
    this.#onLog = resolve
  })
  /** Rejects with the first failure of anything that runs beside. */
  readonly failed: Promise<never>
  #onFailed: (error: Error) => void = () => {}

  constructor(options: LifeOptions, paths: Paths, opened: Opened) {
    const { disk, kernel, sealRows } = options
    this.#options = options
    this.opened = opened
    this.paths = paths
    this.#run = createJobRunner(chooseKernels(kernel))
    this.failed = new Promise((_, reject) => {
      this.#onFailed = reject
    })
    this.failed.catch(() => undefined)
    this.manifest = createManifest({
      pools: opened.pools,
      lastCommit: opened.lastCommit,
      readMarks: async pool => opened.index.readMarks(pool),
      folderOf: pool => poolFolder(paths, poolIdOf(pool)),
      onUnpinned: files => {
        for (const file of files)
          unlinkSegments(disk, dirname(file), [must(numberOfFile(basename(file)), 'a segment')])
      },
    })
    this.sealer = new Sealer({
      writer: this.#writer(),
      commit: async seals => this.#transact('seal', () => opened.index.commit(seals)),
      syncLog: async () => (await this.#logJoined).syncAll(),
      onCommitted: seals => {
        this.manifest.apply(
          seals.map(seal => seal.commit),
          seals.map(seal => seal.committed),
        )
        must(this.#commit, 'the log').release(this.sealer.lowestUnsealedSequence())
      },
      onFailed: (_, error) => this.#failed(error),
      onFatal: error => this.#failed(error),
      clock: NO_CLOCK,
      limits: { rows: sealRows, bytes: 1e9, entries: 50 },
    })
    for (const { pool } of PLANS) {
      const nextSegment = this.manifest.pool(pool)?.nextSegment ?? 1
      this.sealer.addPool({
        pool,
        poolId: poolIdOf(pool),
        folder: poolFolder(paths, poolIdOf(pool)),
        nextSegment,
      })
    }
  }

  /** Recovers the log into the tails, as start.ts does. */
  async openLog(): Promise<void> {
    const { disk, durability, fileBytes } = this.#options
    const states = new Map(this.opened.pools.map(state => [state.pool, state.sealedSequence]))
    const sealed = new Map(PLANS.map(({ pool }) => [pool, states.get(pool) ?? 0]))
    const services = {
      plan: (pool: number) => {
        const plan = PLANS.find(each => each.pool === pool)
        return plan === undefined ? undefined : { plan, shared: must(SHARED_PLANS.get(pool), 'a plan') }
      },
      parse: async (job: Job) => this.#run(job),
      append: this.sealer.append.bind(this.sealer),
    }
    const { summary, commit } = await openOn(
      disk,
      { folder: this.paths.log, fileBytes, durability, sealed },
      chunk => replayChunk(chunk, services),
    )
    this.summary = summary
    this.#commit = commit
    this.#ingest = joinIngest({
      catalog: { plan: (pool: number) => PLANS.find(each => each.pool === pool) } as never,
      commit,
      append: services.append,
    })
    this.#onLog(commit)
  }

  /** Sends requests as one append; resolves when they are acknowledged. Returns their first sequence at once. */
  send(requests: readonly Request[]): { readonly firstSequence: number; readonly acked: Promise<void> } {
    const commit = must(this.#commit, 'the log')
    const firstSequence = commit.stats().lastSequence + 1
    const { spans, parts } = this.#cut(requests)
    const bytes = spans.reduce((sum, span) => sum + span.bytes, 0)
    const acked = must(this.#ingest, 'the ingest').commit({ spans, records: requests.length, bytes, parts })
    return { firstSequence, acked }
  }

  /** Swaps a merge in, as the scheduler does. */
  swap(swap: SwapCommit): void {
    const committed = this.#transact('swap', () => this.opened.index.swap(swap))
    this.manifest.applySwap(swap, committed)
  }

  /** Removes what nothing names, as after every start. */
  async sweep(): Promise<void> {
    const { pools, folders, rebuiltBecause, index } = this.opened
    const found = await sweep({
      disk: this.#options.disk,
      parseDeletes: readDeleteFile,
      segmentFolder: this.paths.segment,
      opened: pools,
      now: index.state().pools,
      folders,
      poolsByFolder: new Map(PLANS.map(({ pool }) => [poolIdOf(pool), pool])),
      indexWasWhole: rebuiltBecause === undefined,
      mayGoOn: () => undefined,
    })
    for (const pool of found.stale) this.manifest.keepEmptied(pool)
    if (found.missing.length > 0) this.#failed(new Error(`named and missing: ${found.missing.join()}`))
  }

  /** Syncs the log, in either mode: what was sent before outlives any cut from then on. */
  sync(): Promise<void> {
    return must(this.#commit, 'the log').syncAll()
  }

  /** Stops the log with its mark and closes the index. */
  async stop(): Promise<void> {
    this.sealer.stop()
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

  /** The segment thread's half, here. */
  #writer(): SegmentWriter {
    const { disk, kernel } = this.#options
    const isNative = kernel === 'native'
    const writer = new Writer(
      (isNative ? tryAssemblerNative() : undefined) ?? assemblerJs,
      (isNative ? tryEncoderNative() : undefined) ?? encoderJs,
      disk,
    )
    return {
      seal: async job => {
        await new Promise(resolve => setImmediate(resolve))
        return writer.write(job)
      },
      unlink: async (folder, segments) => unlinkSegments(disk, folder, segments),
      stop: async () => undefined,
    }
  }

  /** What the parse workers and the front end do: a span and a part for each request. */
  #cut(requests: readonly Request[]) {
    const spans: Span[] = []
    const parts = requests.map((request, place) => {
      const { pool, kind, body, receivedAtMs } = request
      const offset = RECORD_HEADER_BYTES
      const slab = new SharedArrayBuffer(recordBytes(body.length) + 64)
      new Uint8Array(slab).set(body, offset)
      const table = new Float64Array(REQUEST_WORDS)
      table[REQUEST_OFFSET] = offset
      table[REQUEST_BYTES] = body.length
      table[REQUEST_RECEIVED_AT] = receivedAtMs
      table[REQUEST_BITS] = -1
      const plan = must(SHARED_PLANS.get(pool), 'a plan')
      const group: JobGroup = { kind, pool, version: 1, plan, from: 0, to: 1 }
      const result = this.#run({ slab, table, groups: [group] })
      const bits = result.bits[0]?.bytes
      const span = { slab, offset: 0, bytes: result.recordBytes[0]!, records: 1 }
      spans.push(bits === undefined ? span : { ...span, bits })
      const accepted = result.outcomes[OUTCOME_ACCEPTED]!
      if (accepted !== request.mutations.length || result.outcomes.length !== OUTCOME_WORDS)
        throw new Error(`${accepted} events accepted, not ${request.mutations.length}: ${Buffer.from(body)}`)
      return result.parts.map(part => {
        const entry = new Float64Array(ENTRY_WORDS)
        entry.set([place, receivedAtMs, accepted])
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
