/**
 * Power cuts at random moments. A server starts on a state that an earlier cut left, and runs under
 * a random load. While it runs, states are captured that a cut would leave at that moment. Each
 * captured state is recovered and compared with the acknowledged requests. The next server starts
 * on one of them.
 *
 *   W-1   Every acknowledged request is there. With durability `os`, every one that a sync covered.
 *   W-2   The requests that are there are all requests up to one sequence, with none missing.
 *   W-3   Power cuts come inside recoveries too, several times in a row.
 *   W-4   A state pairs the disk with the synced index of that moment, before and after each
 *         transaction.
 *   W-5   Every segment that the index names can be read whole.
 *   W-6   The index of some states is removed. The rebuild shows the same rows.
 *   W-7   One row per key.
 *   W-12  Requests are whole.
 *   W-13  The index is never ahead of the log.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { must } from '../../src/util/assert.ts'
import { type Disk, disk as real } from '../../src/util/disk.ts'
import { type CutState, materialise, PowerDisk } from '../util/power-disk.ts'
import { below, type Random, randomFrom } from '../util/random.ts'
import { Merging } from './merging.ts'
import { DAY_MS, difference, FIRST_MS, type Request, RequestMaker, rowsAfter, SCHEMAS } from './pools.ts'
import { visibleRows } from './read.ts'
import { openServer, type ServerOptions, type SingleThreadServer } from './single-thread-server.ts'

/** A request that was sent. Lists of them are in the order of their sequences. */
interface Sent {
  readonly sequence: number
  readonly request: Request
}

/** A state after a power cut, and the knowledge of the clients at that moment. */
interface Captured {
  readonly state: CutState
  readonly what: string
  /** Every request that was sent before the cut. */
  readonly sent: readonly Sent[]
  /** The number of them that were acknowledged and synced. */
  readonly acked: number
  /** Retention may have dropped rows with an earlier timestamp, in µs. */
  readonly expiredUs: number
}

/** The knowledge of the clients of a running server. */
interface Known {
  sent: Sent[]
  acked: number
  expiredUs: number
}

/** Counts of a run. */
export interface Tally {
  starts: number
  requests: number
  merges: number
  states: number
  /** States whose index was removed before the recovery. */
  rebuilt: number
  /**
   * Delete files without a segment. The rebuild cannot tell whether rows are lost; none ever are.
   */
  doubted: number
  /** The number of states by the disk change that would have come next. */
  readonly at: Map<string, number>
}

/** A state whose recovery breaks an invariant. */
class Violation extends Error {
  override readonly name = 'Violation'
}

const STEPS_PER_START = 30
/**
 * The least number of states of one server from random moments, without those around transactions.
 */
const STATES_PER_START = 24
const FILE_BYTES = 64 * 1024

export class PowerCuts {
  readonly tally: Tally = {
    starts: 0,
    requests: 0,
    merges: 0,
    states: 0,
    rebuilt: 0,
    doubted: 0,
    at: new Map(),
  }
  readonly folder: string
  readonly #random: Random
  readonly #maker: RequestMaker
  #begin: Captured = {
    state: { folders: [], files: new Map() },
    what: 'nothing',
    sent: [],
    acked: 0,
    expiredUs: 0,
  }
  /** The disk changes of the last server: they decide how often the next one is captured. */
  #changesPerStart = 400

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
    const { acked, expiredUs } = this.#begin
    const log: Known = { sent: [...this.#begin.sent], acked, expiredUs }
    const captured: Captured[] = []
    let changes = 0
    const chance = STATES_PER_START / this.#changesPerStart
    const capture = (what: string) => {
      const state = disk.cut(random, [join(root, 'index')])
      captured.push({ state, what, ...log, sent: [...log.sent] })
    }
    disk.onChange = what => {
      changes += 1
      if (captured.length < 4 * STATES_PER_START && random() < chance) capture(what.replace(root, ''))
    }
    const options: ServerOptions = {
      root,
      disk,
      kernel: random() < 0.3 ? 'js' : 'native',
      durability: random() < 0.25 ? 'os' : 'fsync',
      fileBytes: FILE_BYTES,
      flushRows: 60 + below(random, 200),
      onTransaction: what => {
        if (random() < 0.25) capture(`transaction ${what}`)
      },
    }
    const server = await openServer(options)
    this.#settle(server, log)
    await Promise.race([this.#load(server, options, log), server.failed])
    await server.stop()
    disk.verify()
    capture('the end')
    this.#changesPerStart = Math.max(50, changes)
    rmSync(root, { recursive: true, force: true })
    return captured
  }

  /**
   * Forgets the requests above the last recovered sequence: nobody was told that they are there.
   */
  #settle(server: SingleThreadServer, log: Known): void {
    const { lastSequence } = must(server.summary, 'a recovered log')
    log.sent = log.sent.filter(({ sequence }) => sequence <= lastSequence)
    log.acked = log.sent.length
  }

  async #load(server: SingleThreadServer, { durability, disk }: ServerOptions, log: Known): Promise<void> {
    const random = this.#random
    // Merges begin after the sweep. A server without a sweep makes none.
    const isSwept = random() < 0.8
    const cutoffUs = random() < 0.2 ? (FIRST_MS + below(random, 3) * DAY_MS) * 1000 : undefined
    const merging = new Merging(server, disk, random)
    const waiting: Promise<unknown>[] = []
    for (let step = 0; step < STEPS_PER_START; step++) {
      if (isSwept && step === 3) await server.sweep()
      const choice = random()
      if (choice < 0.7) waiting.push(this.#send(server, durability, log))
      else if (choice < 0.87) waiting.push(server.flusher.flushNow(1 + below(random, SCHEMAS.length)))
      else if (choice < 0.9) await this.#sync(server, log)
      else if (isSwept && step > 3) {
        log.expiredUs = Math.max(log.expiredUs, cutoffUs ?? 0)
        waiting.push(merging.one(cutoffUs))
      }
      if (random() < 0.5) await Promise.all(waiting.splice(0))
      else await new Promise(resolve => setImmediate(resolve))
    }
    await Promise.all(waiting)
    await merging.end()
    this.tally.merges += merging.merges
    if (random() < 0.5) await server.flusher.flushAll()
  }

  async #send(server: SingleThreadServer, durability: 'fsync' | 'os', log: Known): Promise<void> {
    const requests = Array.from({ length: 1 + below(this.#random, 4) }, () => this.#maker.next())
    this.tally.requests += requests.length
    const { firstSequence, acked } = server.send(requests)
    for (const [index, request] of requests.entries())
      log.sent.push({ sequence: firstSequence + index, request })
    const upTo = log.sent.length
    await acked
    if (durability === 'fsync') log.acked = Math.max(log.acked, upTo)
  }

  async #sync(server: SingleThreadServer, log: Known): Promise<void> {
    const upTo = log.sent.length
    await server.sync()
    log.acked = Math.max(log.acked, upTo)
  }

  /** Recovers a state with new options, flushes the replayed rows, and compares all rows. */
  async #check(one: Captured): Promise<void> {
    this.tally.states += 1
    const kind = one.what.replace(/[^ ]*\/(\d+\.|[^ /]*)/g, '$1').replace(/\d+/g, 'n')
    this.tally.at.set(kind, (this.tally.at.get(kind) ?? 0) + 1)
    const root = join(this.folder, 'check')
    materialise(one.state, root)
    const isRebuilt = this.#random() < 0.15
    if (isRebuilt) {
      rmSync(join(root, 'index'), { recursive: true, force: true })
      this.tally.rebuilt += 1
    }
    try {
      this.tally.doubted += await checkState(one, isRebuilt, {
        root,
        disk: UNSYNCED,
        kernel: this.#random() < 0.3 ? 'js' : 'native',
        durability: 'fsync',
        fileBytes: FILE_BYTES,
        flushRows: 1000,
        onTransaction: () => undefined,
      })
    } catch (error) {
      const how = isRebuilt ? ', index removed' : ''
      throw new Violation(
        `start ${this.tally.starts}, power cut before "${one.what}"${how}: ${(error as Error).stack}`,
      )
    }
    rmSync(root, { recursive: true, force: true })
  }
}

/** The real disk without its syncs: the power stays on while a state is checked. */
const UNSYNCED: Disk = { ...real, fsync: () => undefined, fdatasync: () => undefined }

/** Returns the number of delete files that the rebuild was in doubt of. */
async function checkState(
  { sent, acked, expiredUs }: Captured,
  isRebuilt: boolean,
  options: ServerOptions,
): Promise<number> {
  const server = await openServer(options)
  try {
    const { lastSequence } = must(server.summary, 'a recovered log')
    const there = sent.filter(({ sequence }) => sequence <= lastSequence)
    if (there.length < acked)
      throw new Error(`W-1: ${acked} requests were acknowledged, ${there.length} are there`)
    const rows = async () => {
      await server.flusher.flushAll()
      await server.sweep()
      return await visibleRows(server)
    }
    const found = await Promise.race([rows(), server.failed])
    const expected = rowsAfter(there.map(({ request }) => request))
    const wrong = difference(found, expected, expiredUs, isRebuilt)
    if (wrong !== undefined) throw new Error(wrong)
    return server.opened.possibleLosses.length
  } finally {
    await server.stop()
  }
}
