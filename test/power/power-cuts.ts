/**
 * Power cuts at random moments. A server starts on a state that an earlier cut left, and runs under
 * a random load: requests, flushes, merges, jobs, and pools that are created and deleted. While it
 * runs, states are captured that a cut would leave at that moment, most of them around commits of
 * merges and jobs, changes of the catalog and the recycling of log files. Each captured state is
 * recovered, its jobs run to their end, and its rows are compared with the acknowledged requests
 * and jobs. The next server starts on one of the states.
 *
 *   W-1   Every acknowledged request, job and change of pools is there. With durability `os`, every
 *         request that a sync covered.
 *   W-2   The requests that are there are all requests up to one sequence, with none missing.
 *   W-3   Power cuts come inside recoveries too, several times in a row.
 *   W-4   A state pairs the disk with the synced index and catalog of that moment, before and after
 *         each transaction.
 *   W-5   Every segment that the index names can be read whole.
 *   W-6   The index of some states is removed. The rebuild shows the same rows.
 *   W-7   One row per key, and a job changes each row once.
 *   W-12  Requests are whole.
 *   W-13  The index and the jobs are never ahead of the log.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { deletePool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { type Disk, disk as real } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import type { KernelChoice } from '../../src/util/native.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { type CutState, materialise, PowerDisk } from '../util/power-disk.ts'
import { below, type Random, randomFrom } from '../util/random.ts'
import { openCatalogFolder } from './catalog.ts'
import { JobLife } from './jobs.ts'
import { Merging } from './merging.ts'
import { difference, namesOf, rowsAfter, type Sent } from './model.ts'
import { DAY_MS, FIRST_MS, FORMS, formOf, RequestMaker, sourceOf } from './pools.ts'
import { visibleRows } from './read.ts'
import { openServer, type SingleThreadServer } from './single-thread-server.ts'

/** The knowledge of the clients. */
interface Known {
  /** Every request that was sent. */
  sent: Sent[]
  /** The number of them that were acknowledged and synced. */
  acked: number
  /** Retention may have dropped rows with an earlier timestamp, in µs. */
  expiredUs: number
  /** Ids of pools whose creation was answered, whose deletion began or ended. */
  readonly made: Set<string>
  readonly deleting: Set<string>
  readonly deleted: Set<string>
  /** Ids of jobs whose creation was answered. */
  readonly jobs: Set<string>
}

/** A state after a power cut, and the knowledge of the clients at that moment. */
interface Captured extends Readonly<Known> {
  readonly state: CutState
  readonly what: string
}

/** Counts of a run. */
export interface Tally {
  starts: number
  requests: number
  merges: number
  /** Segments that jobs rewrote. */
  rewrites: number
  jobs: number
  poolsMade: number
  poolsDeleted: number
  states: number
  /** States whose index was removed before the recovery. */
  rebuilt: number
  /** States in which a job was under way. */
  resumed: number
  /**
   * Delete files without a segment. The rebuild cannot tell whether rows are lost; none ever are.
   */
  doubted: number
  /** The number of states by the disk change that would have come next. */
  readonly at: Map<string, number>
  /** The number of states around each of AROUND. */
  readonly around: Map<string, number>
}

/** A state whose recovery breaks an invariant. */
class Violation extends Error {
  override readonly name = 'Violation'
}

/**
 * The kinds of moments that are captured more often than others: the change that comes next, and
 * the chance of a state.
 */
const AROUND: readonly (readonly [string, RegExp, number])[] = [
  ['compaction commits', /^transaction (before|after) compaction commit/, 0.9],
  ['rewrites of jobs', /^transaction (before|after) rewrite of a job/, 0.6],
  ['catalog changes', /^transaction (before|after) catalog change/, 0.3],
  ['removals of pools', /^(transaction (before|after) removal of a pool|rmdir )/, 0.5],
  [
    'log recycling',
    /^((rename|unlink) \S*\/log\/\d|(open|write|fdatasync|rename) \S*\/log\/head|fsync \S*\/log$)/,
    0.15,
  ],
  ['removals of replaced files', /^unlink \S*\/segment\//, 0.1],
]
const OTHER_TRANSACTION_CHANCE = 0.15
/** The most states of one server around one kind of moment. */
const AROUND_EACH_MAX = 6

const STEPS_PER_START = 40
/** The states of one server from random moments. */
const STATES_PER_START = 12
const FILE_BYTES = 64 * 1024
const POOLS_MIN = 3
const POOLS_MAX = 5

const nothingKnown = (): Known => ({
  sent: [],
  acked: 0,
  expiredUs: 0,
  made: new Set(),
  deleting: new Set(),
  deleted: new Set(),
  jobs: new Set(),
})

function copyOf(known: Known): Known {
  const { sent, made, deleting, deleted, jobs } = known
  return {
    ...known,
    sent: [...sent],
    made: new Set(made),
    deleting: new Set(deleting),
    deleted: new Set(deleted),
    jobs: new Set(jobs),
  }
}

/** How a folder is opened. */
interface OpenOptions {
  readonly root: string
  readonly disk: Disk
  readonly kernel: KernelChoice
  readonly durability: 'fsync' | 'os'
  readonly flushRows: number
  readonly onTransaction: (what: string) => void
}

interface Opened {
  readonly server: SingleThreadServer
  readonly catalog: Catalog
  stop(): Promise<void>
}

/** Opens folder, catalog, index and log, and replays the log. */
async function open(options: OpenOptions): Promise<Opened> {
  const { root, disk, onTransaction } = options
  let server: SingleThreadServer | undefined
  const folder = await openCatalogFolder({
    paths: pathsOf(root),
    disk,
    onTransaction,
    poolDeleted: pool => server?.drop(pool),
  })
  const { catalog } = folder
  try {
    const identity = catalog.read.meta().folderId
    server = await openServer({ ...options, catalog, identity, fileBytes: FILE_BYTES })
  } catch (error) {
    await folder.close()
    throw error
  }
  const opened = server
  return {
    server: opened,
    catalog,
    stop: async () => {
      await opened.stop()
      await folder.close()
    },
  }
}

export class PowerCuts {
  readonly tally: Tally = {
    starts: 0,
    requests: 0,
    merges: 0,
    rewrites: 0,
    jobs: 0,
    poolsMade: 0,
    poolsDeleted: 0,
    states: 0,
    rebuilt: 0,
    resumed: 0,
    doubted: 0,
    at: new Map(),
    around: new Map(),
  }
  readonly folder: string
  readonly #random: Random
  readonly #maker: RequestMaker
  #begin: Captured = { state: { folders: [], files: new Map() }, what: 'nothing', ...nothingKnown() }
  /** The disk changes of the last server: they decide how often the next one is captured. */
  #changesPerStart = 400
  #poolNumber = 0

  /** @param folder the folder in which states become files; `end` removes them */
  constructor(seed: number, folder: string) {
    this.#random = randomFrom(seed)
    this.#maker = new RequestMaker(this.#random)
    this.folder = mkdtempSync(join(folder, 'weir-power-'))
  }

  /** Starts servers until `states` states were checked. Rejects with Violation. */
  async run(states: number): Promise<void> {
    while (this.tally.states < states) {
      const captured = await this.#runServer()
      for (const one of captured) await this.#check(one)
      this.#begin = captured[below(this.#random, captured.length)] ?? this.#begin
    }
  }

  end(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Runs one server on the state that the last one left. Returns the states that were captured. */
  async #runServer(): Promise<Captured[]> {
    this.tally.starts += 1
    const random = this.#random
    const root = join(this.folder, 'server')
    materialise(this.#begin.state, root)
    const disk = new PowerDisk(root)
    const known = copyOf(this.#begin)
    const captured: Captured[] = []
    const byKind = new Map<string, number>()
    let changes = 0
    const chance = STATES_PER_START / this.#changesPerStart
    const capture = (what: string) => {
      const state = disk.cut(random, [join(root, 'index'), join(root, 'catalog')])
      captured.push({ ...copyOf(known), state, what })
    }
    const captureBefore = (what: string, otherwise: number) => {
      const [kind = '', , wanted = 0] = kindOf(what) ?? []
      if (random() >= ((byKind.get(kind) ?? 0) < AROUND_EACH_MAX ? Math.max(wanted, otherwise) : otherwise))
        return
      count(byKind, kind)
      capture(what)
    }
    disk.onChange = what => {
      changes += 1
      captureBefore(what.replaceAll(root, ''), captured.length < 8 * STATES_PER_START ? chance : 0)
    }
    const options: OpenOptions = {
      root,
      disk,
      kernel: random() < 0.3 ? 'js' : 'native',
      durability: random() < 0.25 ? 'os' : 'fsync',
      flushRows: 60 + below(random, 200),
      onTransaction: what => captureBefore(`transaction ${what}`, OTHER_TRANSACTION_CHANCE),
    }
    const opened = await open(options)
    this.#settle(opened, known)
    await Promise.race([this.#load(opened, options, known), opened.server.failed])
    await opened.stop()
    disk.verify()
    capture('the end')
    this.#changesPerStart = Math.max(50, changes)
    rmSync(root, { recursive: true, force: true })
    return captured
  }

  /**
   * Forgets the requests above the last recovered sequence, because nobody was told that they are
   * there, and learns the changes of the catalog that had no answer.
   */
  #settle({ server, catalog }: Opened, known: Known): void {
    const { lastSequence } = must(server.summary, 'a recovered log')
    known.sent = known.sent.filter(({ sequence }) => sequence <= lastSequence)
    known.acked = known.sent.length
    for (const { id } of poolsOf(catalog)) {
      known.made.add(id)
      known.deleting.delete(id)
    }
    for (const id of known.deleting) known.deleted.add(id)
    for (const { id } of catalog.read.jobs.all()) known.jobs.add(id)
  }

  async #load(opened: Opened, { durability, disk }: OpenOptions, known: Known): Promise<void> {
    const { server, catalog } = opened
    const random = this.#random
    // Merges and jobs begin after the sweep. A server without a sweep makes none.
    const isSwept = random() < 0.85
    const cutoffUs = random() < 0.2 ? (FIRST_MS + below(random, 3) * DAY_MS) * 1000 : undefined
    const merging = new Merging(server, disk, random)
    const jobs = new JobLife(server, catalog, merging)
    const waiting: Promise<unknown>[] = []
    for (let step = 0; step < STEPS_PER_START; step++) {
      if (isSwept && step === 3) {
        await server.sweep()
        waiting.push(jobs.resume())
      }
      const mayRewrite = isSwept && step > 3
      const pool = this.#anyPool(catalog)
      const choice = random()
      if (pool === undefined || choice < 0.06) waiting.push(this.#changePools(catalog, known))
      else if (choice < 0.58) waiting.push(this.#send(server, pool, durability, known))
      else if (choice < 0.72) waiting.push(server.flush(pool.number))
      else if (choice < 0.75) await this.#sync(server, known)
      else if (choice < 0.93 && mayRewrite) {
        known.expiredUs = Math.max(known.expiredUs, cutoffUs ?? 0)
        waiting.push(merging.one(cutoffUs))
      } else if (choice >= 0.93 && mayRewrite) {
        this.tally.jobs += 1
        waiting.push(jobs.create(pool, random, id => known.jobs.add(id)))
      }
      if (random() < 0.5) await Promise.all(waiting.splice(0))
      else await new Promise(resolve => setImmediate(resolve))
    }
    await Promise.all(waiting)
    await jobs.end()
    await merging.end()
    this.tally.merges += merging.merges
    this.tally.rewrites += merging.rewrites
    if (random() < 0.5) await server.flusher.flushAll()
  }

  #anyPool(catalog: Catalog): Pool | undefined {
    const pools = poolsOf(catalog)
    return pools[below(this.#random, pools.length)]
  }

  /** Creates a pool, or deletes one. */
  async #changePools(catalog: Catalog, known: Known): Promise<void> {
    const random = this.#random
    const pools = poolsOf(catalog).filter(({ id }) => !known.deleting.has(id))
    const mayCreate = pools.length < POOLS_MAX
    if (pools.length < POOLS_MIN || (mayCreate && random() < 0.5)) {
      const form = must(FORMS[below(random, FORMS.length)], 'a form')
      this.#poolNumber += 1
      const made = await catalog.change(createWebhookSource(sourceOf(form, this.#poolNumber), 'APP'))
      if ('badRequest' in made) throw new Violation(made.badRequest)
      known.made.add(made.pool.id)
      this.tally.poolsMade += 1
      return
    }
    const pool = must(pools[below(random, pools.length)], 'a pool')
    known.deleting.add(pool.id)
    await catalog.change(deletePool({ id: pool.id }))
    known.deleted.add(pool.id)
    this.tally.poolsDeleted += 1
  }

  async #send(
    server: SingleThreadServer,
    { number, ...pool }: Pool,
    durability: 'fsync' | 'os',
    known: Known,
  ): Promise<void> {
    if (!server.maySend(number) || known.deleting.has(pool.id)) return
    const form = must(formOf(pool), 'a form')
    const requests = Array.from({ length: 1 + below(this.#random, 4) }, () => this.#maker.next(number, form))
    this.tally.requests += requests.length
    const { firstSequence, acked } = server.send(requests)
    for (const [index, request] of requests.entries())
      known.sent.push({ sequence: firstSequence + index, request })
    const upTo = known.sent.length
    await acked
    if (durability === 'fsync') known.acked = Math.max(known.acked, upTo)
  }

  async #sync(server: SingleThreadServer, known: Known): Promise<void> {
    const upTo = known.sent.length
    await server.sync()
    known.acked = Math.max(known.acked, upTo)
  }

  /** Recovers a state with new options, ends its jobs, and compares all rows. */
  async #check(one: Captured): Promise<void> {
    this.tally.states += 1
    const kind = one.what.replace(/[^ ]*\/(\d+\.|[^ /]*)/g, '$1').replace(/\d+/g, 'n')
    count(this.tally.at, kind.replace(/\b[A-Z]{3}[\dA-Z]{20,}|\bDPOn\w*/g, 'POOL'))
    const [around] = kindOf(one.what) ?? []
    if (around !== undefined) count(this.tally.around, around)
    const root = join(this.folder, 'check')
    materialise(one.state, root)
    const isRebuilt = this.#random() < 0.15
    if (isRebuilt) {
      rmSync(join(root, 'index'), { recursive: true, force: true })
      this.tally.rebuilt += 1
    }
    try {
      const { doubted, hasResumed } = await checkState(one, isRebuilt, this.#random, {
        root,
        disk: UNSYNCED,
        kernel: this.#random() < 0.3 ? 'js' : 'native',
        durability: 'fsync',
        flushRows: 1000,
        onTransaction: () => undefined,
      })
      this.tally.doubted += doubted
      if (hasResumed) this.tally.resumed += 1
    } catch (error) {
      const how = isRebuilt ? ', index removed' : ''
      throw new Violation(
        `start ${this.tally.starts}, power cut before "${one.what}"${how}: ${(error as Error).stack}`,
      )
    }
    rmSync(root, { recursive: true, force: true })
  }
}

function kindOf(what: string): (typeof AROUND)[number] | undefined {
  return AROUND.find(([, changes]) => changes.test(what))
}

function count(into: Map<string, number>, what: string): void {
  into.set(what, (into.get(what) ?? 0) + 1)
}

/** The pools of the run: those that `sourceOf` made. */
function poolsOf(catalog: Catalog): readonly Pool[] {
  return catalog.pools().filter(pool => formOf(pool) !== undefined)
}

/** The real disk without its syncs: the power stays on while a state is checked. */
const UNSYNCED: Disk = { ...real, fsync: () => undefined, fdatasync: () => undefined }

async function checkState(one: Captured, isRebuilt: boolean, random: Random, options: OpenOptions) {
  const opened = await open(options)
  const { server, catalog } = opened
  try {
    const there = requestsThere(one, server)
    checkChanges(one, server, catalog)
    const resume = async () => {
      await server.sweep()
      const merging = new Merging(server, options.disk, random)
      const jobs = new JobLife(server, catalog, merging)
      const hasJobs = catalog.read.jobs.all().some(({ status }) => status === 'IN_PROGRESS')
      await jobs.resume()
      await jobs.end()
      await merging.end()
      await server.flusher.flushAll()
      return hasJobs
    }
    const hasResumed = await Promise.race([resume(), server.failed])
    for (const pool of poolsOf(catalog)) await checkPool(one, there, pool, isRebuilt, opened)
    return { doubted: server.opened.possibleLosses.length, hasResumed }
  } finally {
    await opened.stop()
  }
}

function requestsThere({ sent, acked }: Captured, server: SingleThreadServer): readonly Sent[] {
  const { lastSequence } = must(server.summary, 'a recovered log')
  const there = sent.filter(({ sequence }) => sequence <= lastSequence)
  if (there.length < acked)
    throw new Error(`W-1: ${acked} requests were acknowledged, ${there.length} are there`)
  return there
}

/** Every answered change of the catalog is there, and none is ahead of the log. */
function checkChanges(one: Captured, server: SingleThreadServer, catalog: Catalog): void {
  const { lastSequence } = must(server.summary, 'a recovered log')
  for (const id of one.made)
    if (catalog.pool(id) === undefined && !one.deleting.has(id)) throw new Error(`pool ${id} is missing`)
  for (const id of one.deleted) if (catalog.pool(id) !== undefined) throw new Error(`pool ${id} is back`)
  for (const id of one.jobs)
    if (catalog.read.jobs.get(id) === undefined) throw new Error(`job ${id} is missing`)
  for (const job of catalog.read.jobs.all()) {
    if (job.kind === 'IMPORT' || job.kind === 'REPLAY_REJECTED') continue
    const boundary = job.kind === 'ADD_COLUMN' ? job.cutOverSequence : job.beforeSequence
    if ((boundary ?? 0) > lastSequence + 1)
      throw new Error(`W-13: job ${job.id} is of sequence ${boundary}, the log ends at ${lastSequence}`)
  }
}

async function checkPool(
  { expiredUs }: Captured,
  there: readonly Sent[],
  pool: Pool,
  isRebuilt: boolean,
  { server, catalog }: Opened,
): Promise<void> {
  const form = must(formOf(pool), 'a form')
  const jobs = catalog.read.jobs.all().filter(({ poolId }) => poolId === pool.id)
  const unfinished = jobs.find(({ status }) => status !== 'SUCCEEDED')
  if (unfinished !== undefined) throw new Error(`a job has not succeeded: ${JSON.stringify(unfinished)}`)
  const schema = must(catalog.schema(pool.number, pool.planVersion), 'a schema')
  const found = await visibleRows(server.manifest, pool.number, namesOf(form, schema.columns))
  const wrong = difference(form, found, rowsAfter(pool.number, there, jobs), expiredUs, isRebuilt)
  if (wrong !== undefined) throw new Error(`pool ${pool.uniqueName}, ${wrong}`)
}
