/**
 * Question: what does the whole path sustain on this machine, load generator included?
 *
 *   batches   full 500-event bodies, every key distinct, 6 unpacked columns, durable, flushing as it goes; then how long until a
 *             counter equals what was acknowledged. Against ClickHouse and PostgreSQL with the same events, in turn (path-batches.ts)
 *   paced     the same at 80 % of that rate: ack times, and how long until an acknowledged event is counted (path-paced.ts)
 *   singles   one event a request, 64 connections. Against uWebSockets.js that drops the body (path-singles.ts)
 *   http      full batches and single events over both HTTP libraries, in turn (path-http.ts)
 *
 * Each run has a server of its own on an empty folder, which is gone before the next one begins; before each, `sync` and a quiet
 * disk. Pairs go A B C, C B A, A B C: neither is always the one after the other.
 * Non-goals: several machines, TLS. Server and generator share the cores; the generator's CPU is reported apart.
 */
import type { KernelChoice } from '../src/util/native.ts'
import { BATCH_EVENTS } from './events.ts'
import { chooseGenerators, type Generators } from './load.ts'
import { print } from './measure.ts'
import { numberOf, oneOf } from './options.ts'
import { batches, weirBatches } from './path-batches.ts'
import { bothLibraries } from './path-http.ts'
import { paced } from './path-paced.ts'
import { singles } from './path-singles.ts'

/** Options of the command line, as text. */
export interface PathOptions {
  readonly seconds?: string | undefined
  readonly rate?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
  readonly kernel?: string | undefined
  readonly generator?: string | undefined
  readonly pause?: string | undefined
  readonly 'no-peers'?: boolean | undefined
  readonly only?: string | undefined
}

/** What all parts share. */
export interface PathPlan {
  readonly seconds: number
  readonly pairs: number
  readonly connections: number
  readonly kernel: KernelChoice | undefined
  /** The HTTP library; undefined takes the default. */
  readonly http?: 'uws' | 'node'
  readonly generators: Generators
  readonly isWithPeers: boolean
  /** Of quiet before each run. */
  readonly pauseSeconds: number
}

/** P-3 asks for the ack times at this part of the highest rate. */
const PACED_PART = 0.8

/**
 * Runs the parts (`only` one of them) for `seconds` (60) each, with `pairs` (3) of Weir and its peers. `rate`: of the part
 * `paced`, events a second, instead of 80 % of what the batches reached.
 */
export async function benchPath(options: PathOptions): Promise<void> {
  const only = oneOf('only', options.only, ['batches', 'paced', 'singles', 'http'])
  const plan: PathPlan = {
    seconds: Math.max(0.1, numberOf('seconds', options.seconds, 60)),
    pairs: Math.max(1, numberOf('pairs', options.pairs, 3)),
    connections: Math.max(1, Math.floor(numberOf('connections', options.connections, 64))),
    kernel: oneOf('kernel', options.kernel, ['native', 'js']),
    generators: chooseGenerators(options.generator),
    isWithPeers: options['no-peers'] !== true,
    pauseSeconds: numberOf('pause', options.pause, 3),
  }
  let rate = options.rate === undefined ? undefined : numberOf('rate', options.rate, 0)
  print(`generator: ${plan.generators.words}`)
  if (only === undefined || only === 'batches') {
    const reached = await batches(plan)
    rate ??= reached * PACED_PART
  }
  if (only === undefined || only === 'paced') {
    if (rate === undefined) {
      print(`path, paced: first the highest rate, ${plan.seconds} s of full batches`)
      rate = (await weirBatches(plan, 0)).eventsPerSecond * PACED_PART
    }
    await paced(plan, Math.max(BATCH_EVENTS, rate))
  }
  if (only === undefined || only === 'singles')
    await singles({ ...plan, seconds: Math.min(plan.seconds, 20) })
  if (only === undefined || only === 'http')
    await bothLibraries({ ...plan, seconds: Math.min(plan.seconds, 20) })
}
