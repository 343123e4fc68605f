/**
 * Lives and power cuts: a life begins on a state that a cut left, is loaded at random, and leaves states of its own; each
 * of them is recovered and compared with what was acknowledged, and one begins the next life.
 *
 *   W-1   Every acknowledged request is there (durability `os`: every one that a sync covered).
 *   W-2   What is there is the requests up to some sequence, none missing between.
 *   W-3   The cut comes inside recoveries too, again and again.
 *   W-4   A state pairs the disk with the index as it was flushed by then, before and after each transaction.
 *   W-5   Every segment that the index names can be read whole.
 *   W-6   Of some states the index is removed: the rebuild shows the same rows.
 *   W-7   One row per key. W-12: requests are whole. W-13: the index is never ahead of the log.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { must } from '../../src/util/assert.ts'
import { type Disk, disk as real } from '../../src/util/disk.ts'
import { type CutState, materialise, PowerDisk } from '../util/power-disk.ts'
import { below, type Random, randomFrom } from '../util/random.ts'
import { type Life, type LifeOptions, openLife } from './life.ts'
import { Merging } from './merging.ts'
import { DAY_MS, difference, FIRST_MS, type Request, RequestMaker, rowsAfter, SCHEMAS } from './pools.ts'
import { visibleRows } from './read.ts'

/** A request that was sent, in the order of sequences. */
interface Sent {
  readonly sequence: number
  readonly request: Request
}

/** A state after a cut, and what is known of it. */
interface Captured {
  readonly state: CutState
  readonly what: string
  /** All that was sent by then; what came later is not in there. */
  readonly sent: readonly Sent[]
  /** So many of them were acknowledged and synced. */
  readonly acked: number
  /** Rows below may have been dropped by retention, µs. */
  readonly expiredUs: number
}

/** What a life's clients know. */
interface Known {
  sent: Sent[]
  acked: number
  expiredUs: number
}

/** Counts of a run. */
export interface Tally {
  lives: number
  requests: number
  merges: number
  states: number
  /** States whose index was removed before the recovery. */
  rebuilt: number
  /** Delete files alone of which the rebuild could not tell whether something is lost; nothing ever is. */
  doubted: number
  /** States by the change that the cut came before. */
  readonly at: Map<string, number>
}

/** A cut state that is not recovered as it must be. */
class Violation extends Error {
  override readonly name = 'Violation'
}

const STEPS_PER_LIFE = 30
/** States of one life: so many at least come from random moments, besides those of transactions. */
const STATES_PER_LIFE = 24
const FILE_BYTES = 64 * 1024

export class PowerRun {
  readonly tally: Tally = {
    lives: 0,
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
  /** Changes of the disk that the last life made: how often to look in the next one. */
  #changesPerLife = 400

  /** @param folder where the states become files; removed by `end` */
  constructor(seed: number, folder: string) {
    this.#random = randomFrom(seed)
    this.#maker = new RequestMaker(this.#random)
    this.folder = mkdtempSync(join(folder, 'weir-power-'))
  }

  /** Lives until `states` states were tried. Rejects with Violation. */
  async run(states: number): Promise<void> {
    while (this.tally.states < states) {
      const captured = await this.#life()
      for (const one of captured) await this.#check(one)
      this.#begin = captured[below(this.#random, captured.length)] ?? this.#begin
    }
  }

  end(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** One life on the state that the last one left; returns states of cuts during it. */
  async #life(): Promise<Captured[]> {
    this.tally.lives += 1
    const random = this.#random
    const root = join(this.folder, 'life')
    materialise(this.#begin.state, root)
    const disk = new PowerDisk(root)
    const { acked, expiredUs } = this.#begin
    const log: Known = { sent: [...this.#begin.sent], acked, expiredUs }
    const captured: Captured[] = []
    let changes = 0
    const chance = STATES_PER_LIFE / this.#changesPerLife
    const capture = (what: string) => {
      const state = disk.cut(random, [join(root, 'index')])
      captured.push({ state, what, ...log, sent: [...log.sent] })
    }
    disk.onChange = what => {
      changes += 1
      if (captured.length < 4 * STATES_PER_LIFE && random() < chance) capture(what.replace(root, ''))
    }
    const options: LifeOptions = {
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
    const life = await openLife(options)
    this.#settle(life, log)
    await Promise.race([this.#load(life, options, log), life.failed])
    await life.stop()
    disk.verify()
    capture('the end')
    this.#changesPerLife = Math.max(50, changes)
    rmSync(root, { recursive: true, force: true })
    return captured
  }

  /** What recovery found is what there is from now on: requests above its last sequence are lost, as nobody was told of them. */
  #settle(life: Life, log: Known): void {
    const { lastSequence } = must(life.summary, 'a recovered log')
    log.sent = log.sent.filter(({ sequence }) => sequence <= lastSequence)
    log.acked = log.sent.length
  }

  async #load(life: Life, { durability, disk }: LifeOptions, log: Known): Promise<void> {
    const random = this.#random
    // Merges begin after the sweep; a life that does not come to its sweep makes none.
    const isSwept = random() < 0.8
    const cutoffUs = random() < 0.2 ? (FIRST_MS + below(random, 3) * DAY_MS) * 1000 : undefined
    const merging = new Merging(life, disk, random)
    const waiting: Promise<unknown>[] = []
    for (let step = 0; step < STEPS_PER_LIFE; step++) {
      if (isSwept && step === 3) await life.sweep()
      const choice = random()
      if (choice < 0.7) waiting.push(this.#send(life, durability, log))
      else if (choice < 0.87) waiting.push(life.flusher.flushNow(1 + below(random, SCHEMAS.length)))
      else if (choice < 0.9) await this.#sync(life, log)
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
    if (random() < 0.5) await life.flusher.flushAll()
  }

  async #send(life: Life, durability: 'fsync' | 'os', log: Known): Promise<void> {
    const requests = Array.from({ length: 1 + below(this.#random, 4) }, () => this.#maker.next())
    this.tally.requests += requests.length
    const { firstSequence, acked } = life.send(requests)
    for (const [index, request] of requests.entries())
      log.sent.push({ sequence: firstSequence + index, request })
    const upTo = log.sent.length
    await acked
    if (durability === 'fsync') log.acked = Math.max(log.acked, upTo)
  }

  async #sync(life: Life, log: Known): Promise<void> {
    const upTo = log.sent.length
    await life.sync()
    log.acked = Math.max(log.acked, upTo)
  }

  /** Recovers a state with other hands, flushes what was replayed, and compares all rows. */
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
        `life ${this.tally.lives}, cut before "${one.what}"${how}: ${(error as Error).stack}`,
      )
    }
    rmSync(root, { recursive: true, force: true })
  }
}

/** The real disk without its syncs: nothing is cut while a state is checked. */
const UNSYNCED: Disk = { ...real, fsync: () => undefined, fdatasync: () => undefined }

/** Returns how many delete files the rebuild was in doubt of. */
async function checkState(
  { sent, acked, expiredUs }: Captured,
  isRebuilt: boolean,
  options: LifeOptions,
): Promise<number> {
  const life = await openLife(options)
  try {
    const { lastSequence } = must(life.summary, 'a recovered log')
    const there = sent.filter(({ sequence }) => sequence <= lastSequence)
    if (there.length < acked)
      throw new Error(`W-1: ${acked} requests were acknowledged, ${there.length} are there`)
    const rows = async () => {
      await life.flusher.flushAll()
      await life.sweep()
      return await visibleRows(life)
    }
    const found = await Promise.race([rows(), life.failed])
    const expected = rowsAfter(there.map(({ request }) => request))
    const wrong = difference(found, expected, expiredUs, isRebuilt)
    if (wrong !== undefined) throw new Error(wrong)
    return life.opened.lost.length
  } finally {
    await life.stop()
  }
}
