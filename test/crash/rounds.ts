/**
 * Rounds of kills: start on the folder that the last kill left, check everything, load, kill.
 *
 * A round begins with the check, so every start after a kill is checked before it is loaded. After
 * some kills the folder itself is audited, as the kill left it (audit.ts).
 */
import { readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { must } from '../../src/util/errors.ts'
import { createPool, fetchToken, type PoolSpec, spawnServer, type TestPool } from '../util/server.ts'
import { verifyFolder } from '../util/verify.ts'
import { auditCopy, changedMeanwhile, crossCheck } from './audit.ts'
import { checkUnansweredBackups } from './backups.ts'
import { ask, ConnectionLost, Violation } from './client.ts'
import { ClientState, findPool, verifyRows } from './client-state.ts'
import { runLoad } from './load.ts'
import { findRejectedPool } from './rejected.ts'
import type { Target } from './requests.ts'
import { mustExpire } from './retention.ts'
import { verifyShortLived } from './short-lived.ts'

/** The way in which a server is killed. */
export type Kill =
  /** `afterMs` after it is ready and checked, under load. */
  | { readonly at: 'moment'; readonly afterMs: number }
  /** `afterMs` after the process began: during its start-up, or just after it. */
  | { readonly at: 'start'; readonly afterMs: number }
  /** `afterMs` after a SIGTERM under load. The server may be faster and end by itself. */
  | { readonly at: 'stop'; readonly afterMs: number }
  /** When the crash point is passed for the nth time, during start-up, check or load. */
  | { readonly at: 'point'; readonly point: string; readonly nth: number }
  /** As `start`, after `data/index` was removed: it is rebuilt. */
  | { readonly at: 'rebuild'; readonly afterMs: number }
  /** As `point`, after `data/index` was removed. */
  | { readonly at: 'rebuild point'; readonly point: string; readonly nth: number }

/** Log files are so small that the load fills a few of them a second. Compaction never pauses. */
const ARGS = ['--log-file-bytes', String(4 * 1024 * 1024), '--compact-tick-ms', '5']
/**
 * A server that is not ready, or does not reach its crash point, by then hangs. A machine with an
 * eighth of a core needs a tenth of it.
 */
const PATIENCE_MS = 300_000
const LOAD_BEFORE_STOP_MS = 300
/** The end of a killed server is reported by then. */
const LOST_MS = 5_000
/** The number of checks of a server that runs and lost its connections. */
const CHECKS_MAX = 4

/** The share of rounds with backups, apart from the rounds that are killed inside one. */
const BACKUPS_SHARE = 0.15

/**
 * A log file is released once all pools are flushed, which their age takes a minute to bring. A
 * compaction commit moves rows that were changed meanwhile where a flush comes during its merge.
 */
const FLUSHED_POINTS = new Set(['log.released', 'log.recycled', 'index.changed-rows-moved'])

/**
 * The folder is checked after every so many kills, and replayed and read by others after every so
 * many.
 */
export interface AuditIntervals {
  readonly checkEvery: number
  readonly crossReadEvery: number
}

/**
 * A data folder, the knowledge of its clients, and its kills. Backups are written beside `dataDir`.
 */
export class Rounds {
  readonly state: ClientState
  readonly dataDir: string
  /** The number of kills by point, or by `moment`, `start` and `stop`. */
  readonly kills = new Map<string, number>()
  /** The number of starts. */
  rounds = 0
  readonly #random: () => number
  readonly #audits: AuditIntervals
  #child: ReturnType<typeof spawnServer> | undefined

  constructor(dataDir: string, seed: number, audits: AuditIntervals) {
    this.dataDir = dataDir
    this.#audits = audits
    this.state = new ClientState(seed)
    this.#random = this.state.random
  }

  get killCount(): number {
    return [...this.kills.values()].reduce((sum, count) => sum + count, 0)
  }

  /** One start and one kill. Rejects with Violation. */
  async kill(kill: Kill): Promise<void> {
    const isArmed = kill.at === 'point' || kill.at === 'rebuild point'
    if (kill.at === 'rebuild' || kill.at === 'rebuild point') this.#removeIndex()
    const child = this.#spawn(isArmed ? ['--crash-at', `${kill.point}:${kill.nth}`] : [])
    const killAfterMs = kill.at === 'start' || kill.at === 'rebuild' ? kill.afterMs : undefined
    const timer =
      killAfterMs === undefined ? undefined : setTimeout(() => child.child.kill('SIGKILL'), killAfterMs)
    try {
      await this.#run(child, kill, isArmed || killAfterMs !== undefined)
    } finally {
      clearTimeout(timer)
      child.child.kill('SIGKILL')
    }
    const { signal, code, output } = await child.ended
    await checkUnansweredBackups(this.state)
    if (kill.at === 'stop' && code === 0) return
    if (signal !== 'SIGKILL')
      throw new Violation(`the server ended with ${signal ?? code}, not by its kill:\n${output}`)
    const name = kill.at === 'point' ? kill.point : isArmed ? `rebuild ${kill.point}` : kill.at
    this.kills.set(name, (this.kills.get(name) ?? 0) + 1)
    await this.#audit(name)
  }

  #removeIndex(): void {
    rmSync(join(this.dataDir, 'index'), { recursive: true, force: true })
    for (const { spaces } of this.state.pools) for (const { old } of spaces) old.indexRemoved()
  }

  /** Audits the folder as the kill left it. */
  async #audit(name: string): Promise<void> {
    const { state, dataDir, killCount } = this
    const { checkEvery, crossReadEvery } = this.#audits
    if (!state.hasAllPools) return
    if (name === 'index.compaction-committed' || name === 'index.changed-rows-moved') {
      state.tally.compactionCommits += 1
      state.tally.changedMeanwhile += await changedMeanwhile(dataDir)
    }
    if (killCount % checkEvery === 0) {
      await verifyFolder(dataDir)
      state.tally.checked += 1
    }
    if (killCount % crossReadEvery === 0) await auditCopy(state, dataDir)
  }

  /**
   * Starts and checks, stops by SIGTERM under load, starts and checks again, stops without load,
   * and audits the folder. A clean stop leaves nothing to replay and no files of deleted pools, and
   * retention leaves no old rows. Other readers read every segment.
   */
  async finish(): Promise<void> {
    const first = this.#spawn([])
    const target = await this.#ready(first, false)
    await this.#check(target)
    const load = runLoad(this.state, target)
    load.catch(() => undefined)
    await delay(LOAD_BEFORE_STOP_MS)
    target.isStopping = true
    await stopped(first)
    target.isOver = true
    await load
    const second = this.#spawn([])
    const quiet = await this.#ready(second, false)
    await this.#check(quiet)
    if (second.output().includes('replayed')) throw new Violation(`after a clean stop: ${second.output()}`)
    await this.#swept()
    await mustExpire(this.state, quiet)
    await stopped(second)
    await this.#checkCatalog()
    await verifyFolder(this.dataDir)
    await crossCheck(this.state, this.dataDir)
  }

  /** Waits until the sweep has removed the files of deleted pools. */
  async #swept(): Promise<void> {
    const living = new Set([...this.state.pools, ...this.state.alive].map(pool => pool.poolId))
    living.add(must(this.state.rejectedPoolId, 'the pool of rejected events'))
    const folder = join(this.dataDir, 'segment')
    // A pool that was deleted in this run may leave its empty folder to the next start.
    const left = () =>
      readdirSync(folder).filter(name => !living.has(name) && readdirSync(join(folder, name)).length > 0)
    for (let time = 0; left().length > 0 && time < 100; time++) await delay(100)
    if (left().length > 0) throw new Violation(`folders of deleted pools are left: ${left()}`)
  }

  /** Ends the server after a failure. */
  async end(): Promise<void> {
    this.#child?.child.kill('SIGKILL')
    await this.#child?.ended
  }

  /**
   * Some starts take the other kernel and index store, or acknowledge after the write. All use the
   * same folder.
   */
  #spawn(args: readonly string[]) {
    this.rounds += 1
    const kernel = this.#random() < 0.2 ? ['--kernel', 'js'] : []
    const durability = this.#random() < 0.2 ? ['--durability', 'os'] : []
    this.#child = spawnServer({ dataDir: this.dataDir, args: [...ARGS, ...kernel, ...durability, ...args] })
    return this.#child
  }

  /** Runs a round from the start to the kill. Returns when the process has ended. */
  async #run(child: ReturnType<typeof spawnServer>, kill: Kill, isArmed: boolean): Promise<void> {
    const checked = await this.#checked(child, isArmed)
    // It died before everything was checked; nothing was loaded, and the next start is checked.
    if (checked === undefined) return
    const isInBackup = 'point' in kill && kill.point.startsWith('backup.')
    const hasBackups = isInBackup || this.#random() < BACKUPS_SHARE
    const target = {
      ...checked,
      backups: hasBackups ? dirname(this.dataDir) : undefined,
      isFlushed: 'point' in kill && FLUSHED_POINTS.has(kill.point),
    }
    const load = runLoad(this.state, target)
    load.catch(() => undefined)
    await Promise.race([this.#killed(child, kill, target), load.then(() => delay(LOST_MS))])
    target.isOver = true
    await load
    if (isArmed && child.child.exitCode === null && child.child.signalCode === null)
      throw new Violation(`point ${'point' in kill ? kill.point : ''} was not reached`)
  }

  /**
   * Waits until the server is ready and checks it; undefined where it was killed before. A busy
   * machine closes idle connections: where a connection ended and the server runs, the check is
   * made again.
   */
  async #checked(child: ReturnType<typeof spawnServer>, isArmed: boolean): Promise<Target | undefined> {
    for (let tries = 1; ; tries++) {
      try {
        const target = await this.#ready(child, isArmed)
        await this.#check(target)
        return target
      } catch (error) {
        if (!isArmed || error instanceof Violation) throw error
        const end = await Promise.race([child.ended, delay(LOST_MS)])
        if (end?.signal === 'SIGKILL') return undefined
        if (end !== undefined) throw error
        this.state.tally.checkedAgain += 1
        if (tries === CHECKS_MAX)
          throw new Violation(
            `the server runs and its connections end: ${(error as Error).message}\n${child.output()}`,
          )
      }
    }
  }

  async #killed(child: ReturnType<typeof spawnServer>, kill: Kill, target: Target): Promise<void> {
    if (kill.at === 'stop') {
      await delay(LOAD_BEFORE_STOP_MS)
      target.isStopping = true
      child.child.kill('SIGTERM')
      await Promise.race([child.ended, delay(kill.afterMs)])
    } else if (kill.at === 'moment') await delay(kill.afterMs)
    else await beforeTimeout(child.ended, `the end at ${'point' in kill ? kill.point : 'start'}`)
    target.isOver = true
    child.child.kill('SIGKILL')
    await child.ended
  }

  async #ready(child: ReturnType<typeof spawnServer>, isArmed: boolean): Promise<Target> {
    const base = await beforeTimeout(child.ready, 'the start')
    let token: string
    try {
      token = await fetchToken(base, this.dataDir)
    } catch (error) {
      throw new ConnectionLost((error as Error).message)
    }
    return { base, token, isOver: false, isStopping: false, isArmed }
  }

  async #check(target: Target): Promise<void> {
    const { state } = this
    if (!state.hasAllPools) await state.createPools({ createPool: spec => createdPool(target, spec) })
    await findRejectedPool(state, target)
    await verifyShortLived(state, target)
    await verifyRows(state, target.base, target.token)
  }

  /** No pool number is given twice, not even one of a pool whose creation had no answer. */
  async #checkCatalog(): Promise<void> {
    const store = await openStore(join(this.dataDir, 'catalog'))
    const numbers = new Map<number, string>()
    for (const [key, value] of store.entries) {
      if (!/^(pool|tombstone)\//.test(key)) continue
      const { number } = value as { number: number }
      if (numbers.has(number)) throw new Violation(`pool number ${number}: ${numbers.get(number)} and ${key}`)
      numbers.set(number, key)
    }
    await store.close()
    const alive = this.state.alive.length + this.state.pools.length
    if (numbers.size < alive + this.state.deletedPools.length)
      throw new Violation(`the catalog knows ${numbers.size} pools and tombstones`)
  }

  /** A kill of any kind. */
  randomKill(): Kill {
    const choice = this.#random()
    if (choice < 0.12) return { at: 'start', afterMs: 100 + this.#random() * 1200 }
    if (choice < 0.22) return { at: 'stop', afterMs: this.#random() * 400 }
    if (choice < 0.27) return { at: 'rebuild', afterMs: this.#random() * 1500 }
    return { at: 'moment', afterMs: 20 + this.#random() ** 2 * 2500 }
  }
}

/** Creates a pool, or finds it where a server created it and died before its answer. */
async function createdPool({ base, token }: Target, spec: PoolSpec): Promise<TestPool> {
  const graphql = async (query: string, variables?: unknown) =>
    (await ask(base, token, query, variables as object)) as never
  return (await findPool(base, token, spec.uniqueName ?? '')) ?? (await createPool(graphql, spec))
}

/** Sends SIGTERM. The server must exit with 0 within 10 s. */
async function stopped(child: ReturnType<typeof spawnServer>): Promise<void> {
  const begin = performance.now()
  child.child.kill('SIGTERM')
  const { code, signal, output } = await beforeTimeout(child.ended, 'the stop')
  const ms = performance.now() - begin
  if (code !== 0 || ms > 10_500)
    throw new Violation(`stop: ${signal ?? code} after ${Math.round(ms)} ms:\n${output}`)
}

async function beforeTimeout<T>(work: Promise<T>, what: string): Promise<T> {
  const timer = new AbortController()
  const late = delay(PATIENCE_MS, undefined, { signal: timer.signal }).then(() => {
    throw new Violation(`${what} did not come within ${PATIENCE_MS} ms`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}
