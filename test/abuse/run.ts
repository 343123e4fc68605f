/** One attack against one server, beside the producer: what the producer and the server's memory saw of it. */
import { execFileSync } from 'node:child_process'
import { type StartOptions, startServer } from '../util/server.ts'
import { type Attack, Attacker, pauseOf, type Target } from './attack.ts'
import { startProducer } from './producer.ts'

export type FrontEnd = 'uws' | 'node'

const ATTACK_SECONDS = 5
/** The producer alone: what is made at the first requests is there, and says how late acks are without an attack. */
const CALM_SECONDS = 2
/** After an attack: what it left behind hurts now. */
const AFTER_SECONDS = 1
/** A probe that takes longer has failed. */
const PROBE_MS_MAX = 5_000
const PROBE_PAUSE_MS = 200

/** What an attack did. */
export interface Outcome {
  /** Worst ack of the producer without the attack. */
  readonly calmMs: number
  /** … and during it and right after it. */
  readonly worstMs: number
  readonly requests: number
  /** The producer's requests that got no 200, by status (0: the connection closed). */
  readonly failed: Readonly<Record<string, number>>
  readonly growthMiB: number
  /** Connections that the attacker opened, and how many of them the server closed. */
  readonly opened: number
  readonly closed: number
  readonly probes: number
  /** What was wrong with probes. */
  readonly probesFailed: readonly string[]
  /** The server ended by itself: what it printed last. */
  readonly ended: string | undefined
}

/** Runs an attack against a fresh server. Rejects where the server does not start. */
export async function runAttack(
  attack: Attack,
  options: StartOptions = {},
  seconds?: number,
): Promise<Outcome> {
  const { args = [], descriptorsMax } = attack
  const server = await startServer({
    ...options,
    ...(descriptorsMax === undefined ? {} : { descriptorsMax }),
    args: [...(options.args ?? []), ...args],
  })
  let ended: string | undefined
  void server.ended.then(({ code, signal, output }) => {
    ended = `${code ?? signal}: ${output.trim().split('\n').slice(-3).join(' | ')}`
  })
  const own = await server.createPool({ columns: [column('id', 'STRING'), column('amount', 'DOUBLE')] })
  const pool = await server.createPool({ columns: [column('id', 'STRING')] })
  const field = new Field(server, pool)
  try {
    await attack.prepare?.(field)
    const producer = startProducer({ url: own.url, pid: server.child.pid! })
    await sleep(CALM_SECONDS * 1000)
    const calm = await producer.mark()
    const probes = { count: 0, failed: [] as string[] }
    const probing = attack.probe === undefined ? undefined : probe(attack, field, probes)
    const timer = setTimeout(() => field.end(), (seconds ?? attack.seconds ?? ATTACK_SECONDS) * 1000)
    const running = attack.run(field)
    await Promise.race([Promise.all([running, field.over]), server.ended])
    clearTimeout(timer)
    field.end()
    await Promise.all([running, probing])
    await sleep(AFTER_SECONDS * 1000)
    const during = await producer.stop()
    return {
      calmMs: calm.worstMs,
      worstMs: during.worstMs,
      requests: during.requests,
      failed: during.failed,
      growthMiB: during.peakMiB - during.firstMiB,
      opened: field.opened,
      closed: field.closed,
      probes: probes.count,
      probesFailed: probes.failed,
      ended,
    }
  } finally {
    field.end()
    await server.kill()
  }
}

/** Probes one after the other until the attack is over. */
async function probe(
  attack: Attack,
  target: Target,
  into: { count: number; failed: string[] },
): Promise<void> {
  while (!target.isOver()) {
    into.count += 1
    const late = sleep(PROBE_MS_MAX).then(() => {
      throw new Error(`a probe takes more than ${PROBE_MS_MAX} ms`)
    })
    try {
      await Promise.race([attack.probe?.(target), late])
    } catch (error) {
      into.failed.push((error as Error).message)
    }
    late.catch(() => undefined)
    await pauseOf(target, PROBE_PAUSE_MS)
  }
}

class Field implements Target {
  readonly server: Target['server']
  readonly pool: Target['pool']
  readonly port: number
  readonly path: string
  readonly over: Promise<void>
  opened = 0
  closed = 0
  readonly #sockets = new Set<Attacker>()
  #isOver = false
  #end: () => void = () => {}

  constructor(server: Target['server'], pool: Target['pool']) {
    this.server = server
    this.pool = pool
    this.port = Number(new URL(server.base).port)
    this.path = new URL(pool.url).pathname
    this.over = new Promise(resolve => {
      this.#end = resolve
    })
  }

  isOver(): boolean {
    return this.#isOver
  }

  open(): Attacker {
    const attacker = new Attacker(this.port)
    this.opened += 1
    this.#sockets.add(attacker)
    void attacker.closed.then(() => {
      this.#sockets.delete(attacker)
      if (!this.#isOver) this.closed += 1
    })
    if (this.#isOver) attacker.close()
    return attacker
  }

  end(): void {
    this.#isOver = true
    this.#end()
    for (const attacker of this.#sockets) attacker.close()
  }
}

function column(name: string, type: string) {
  return { name, jsonProperty: name, type, nullable: true }
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** The front ends that a build has. One without `--http` has uWebSockets.js alone. */
export function frontEndsOf(main: string): readonly FrontEnd[] {
  const help = execFileSync(process.execPath, [main, '--help'], { encoding: 'utf8' })
  return help.includes('--http ') ? ['uws', 'node'] : ['uws']
}

/** The arguments that choose a front end, none where there is no choice. */
export function choosing(frontEnd: FrontEnd, all: readonly FrontEnd[]): readonly string[] {
  return all.length > 1 ? ['--http', frontEnd] : []
}
