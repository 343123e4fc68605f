/**
 * Question: what does the whole path sustain on this machine, load generator included?
 *
 *   batches   Full 500-event bodies, distinct keys, 6 unpacked columns, durable, with flushes; then
 *             the time until a counter equals the acknowledged events. Against ClickHouse and
 *             PostgreSQL with the same events, in turn (path-batches.ts).
 *   paced     The same at 80 % of that rate: ack times, and the time until an acknowledged event is
 *             counted (path-paced.ts).
 *   singles   One event per request, 64 connections, against uWebSockets.js that drops the body
 *             (path-singles.ts).
 *   http      Full batches and single events over both HTTP libraries, in turn (path-http.ts).
 *
 * Each run has a server of its own on an empty folder, which is removed before the next run. Before
 * each run: `sync` and a quiet disk. Pairs go A B C, C B A, A B C. docs/figures/README.md has the
 * goals (P-1 …). Non-goals: several machines, TLS. Server and generator share the cores; the
 * generator's CPU is printed separately.
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
interface PathOptions {
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

/** Settings of all parts. */
export interface PathSettings {
  readonly seconds: number
  readonly pairs: number
  readonly connections: number
  readonly kernel: KernelChoice | undefined
  /** The HTTP library; undefined takes the default. */
  readonly http?: 'uws' | 'node'
  readonly generators: Generators
  readonly isWithPeers: boolean
  /** Time of a quiet disk before each run. */
  readonly pauseSeconds: number
}

/** The rate of the paced part, as a part of the highest (P-3). */
const PACED_PART = 0.8

/**
 * Runs the parts (`only` one of them) for `seconds` (60) each, with `pairs` (3) of Weir and its
 * peers. `rate`: events per second of the paced part, in place of 80 % of the highest rate.
 */
export async function benchPath(options: PathOptions): Promise<void> {
  const only = oneOf('only', options.only, ['batches', 'paced', 'singles', 'http'])
  const settings: PathSettings = {
    seconds: Math.max(0.1, numberOf('seconds', options.seconds, 60)),
    pairs: Math.max(1, numberOf('pairs', options.pairs, 3)),
    connections: Math.max(1, Math.floor(numberOf('connections', options.connections, 64))),
    kernel: oneOf('kernel', options.kernel, ['native', 'js']),
    generators: chooseGenerators(options.generator),
    isWithPeers: options['no-peers'] !== true,
    pauseSeconds: numberOf('pause', options.pause, 3),
  }
  let rate = options.rate === undefined ? undefined : numberOf('rate', options.rate, 0)
  print(`generator: ${settings.generators.words}`)
  if (only === undefined || only === 'batches') {
    const reached = await batches(settings)
    rate ??= reached * PACED_PART
  }
  if (only === undefined || only === 'paced') {
    if (rate === undefined) {
      print(`path, paced: first the highest rate, ${settings.seconds} s of full batches`)
      rate = (await weirBatches(settings, 0)).eventsPerSecond * PACED_PART
    }
    await paced(settings, Math.max(BATCH_EVENTS, rate))
  }
  if (only === undefined || only === 'singles')
    await singles({ ...settings, seconds: Math.min(settings.seconds, 20) })
  if (only === undefined || only === 'http')
    await bothLibraries({ ...settings, seconds: Math.min(settings.seconds, 20) })
}
