/**
 * Runs attacks against a server beside the producer. Returns the producer's figures and the growth
 * of memory.
 */
import { execFileSync } from 'node:child_process'
import { type StartOptions, startServer, type TestServer } from '../util/server.ts'
import { type Attack, Attacker, pauseOf, type Target } from './attack.ts'
import { type Producer, startProducer } from './producer.ts'

export type FrontEnd = 'uws' | 'node'

const ATTACK_SECONDS = 5
/** The producer alone: the server warms up, and the acks without an attack are measured. */
const CALM_SECONDS = 2
/** The same on a server that is warm. */
const CALM_SECONDS_LATER = 0.5
/** After an attack: its late effects count too. */
const AFTER_SECONDS = 1
/** A probe that takes longer has failed. */
const PROBE_MS_MAX = 5_000
const PROBE_PAUSE_MS = 200

/** The effects of an attack. */
export interface Outcome {
  /** The slowest ack of the producer before the attack. */
  readonly calmMs: number
  /** The slowest ack during the attack and right after it. */
  readonly worstMs: number
  /** The longest delay of the server's event loop in the same times. */
  readonly calmLoopMs: number
  readonly worstLoopMs: number
  readonly requests: number
  /** The producer's requests that got no 200, by status. 0 counts closed connections. */
  readonly failed: Readonly<Record<string, number>>
  readonly growthMiB: number
  /** Connections that the attacker opened, and how many of them the server closed. */
  readonly opened: number
  readonly closed: number
  readonly probes: number
  /** The messages of failed probes. */
  readonly probesFailed: readonly string[]
  /** Set if the server ended by itself: its last lines. */
  readonly ended: string | undefined
}

/** Runs an attack against a fresh server. Rejects if the server does not start. */
export async function runAttack(
  attack: Attack,
  options: StartOptions = {},
  seconds?: number,
): Promise<Outcome> {
  const server = await AttackServer.start(attack, options)
  let last: Outcome['failed'] = {}
  let outcome: Outcome
  try {
    outcome = await server.run(attack, seconds ?? attack.seconds ?? ATTACK_SECONDS)
  } finally {
    last = await server.kill()
  }
  return { ...outcome, failed: { ...outcome.failed, ...last } }
}

/** A server and its producer, for one attack after the other. */
export class AttackServer {
  readonly #server: TestServer
  readonly #producer: Producer
  /** The producer alone, before the next attack. */
  #calmSeconds = CALM_SECONDS
  #ended: string | undefined

  private constructor(server: TestServer, producer: Producer) {
    this.#server = server
    this.#producer = producer
    void server.ended.then(({ code, signal, output }) => {
      this.#ended = `${code ?? signal}: ${output.trim().split('\n').slice(-3).join(' | ')}`
    })
  }

  /** Starts the server as an attack needs it. Rejects if it does not start. */
  static async start(
    { args = [], descriptorsMax }: Pick<Attack, 'args' | 'descriptorsMax'>,
    options: StartOptions = {},
  ): Promise<AttackServer> {
    const server = await startServer({
      ...options,
      ...(descriptorsMax === undefined ? {} : { descriptorsMax }),
      args: [...(options.args ?? []), ...args],
    })
    const { url } = await server.createPool({ columns: [column('id', 'STRING'), column('amount', 'DOUBLE')] })
    return new AttackServer(server, startProducer({ url, pid: server.child.pid! }))
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined
  }

  /** Runs an attack on a pool of its own. */
  async run(attack: Attack, seconds: number): Promise<Outcome> {
    const pool = await this.#server.createPool({ columns: [column('id', 'STRING')] })
    const attacked = new AttackedServer(this.#server, pool)
    try {
      await attack.prepare?.(attacked)
      await this.#producer.window()
      await this.#loopMs()
      await sleep(this.#calmSeconds * 1000)
      this.#calmSeconds = CALM_SECONDS_LATER
      const calm = await this.#producer.window()
      const calmLoopMs = await this.#loopMs()
      const probes = { count: 0, failed: [] as string[] }
      const probing = attack.probe === undefined ? undefined : probe(attack, attacked, probes)
      const timer = setTimeout(() => attacked.end(), seconds * 1000)
      const running = attack.run(attacked)
      await Promise.race([Promise.all([running, attacked.over]), this.#server.ended])
      clearTimeout(timer)
      attacked.end()
      await Promise.all([running, probing])
      await sleep(AFTER_SECONDS * 1000)
      const during = await this.#producer.window()
      const worstLoopMs = await this.#loopMs()
      return {
        calmMs: calm.worstMs,
        worstMs: during.worstMs,
        calmLoopMs,
        worstLoopMs,
        requests: during.requests,
        failed: during.failed,
        growthMiB: during.peakMiB - during.firstMiB,
        opened: attacked.opened,
        closed: attacked.closed,
        probes: probes.count,
        probesFailed: probes.failed,
        ended: this.#ended,
      }
    } finally {
      attacked.end()
    }
  }

  /** The longest delay since this was last asked; NaN where no page of metrics came. */
  async #loopMs(): Promise<number> {
    try {
      const page = await (
        await fetch(`${this.#server.base}/metrics`, { signal: AbortSignal.timeout(PROBE_MS_MAX) })
      ).text()
      return 1000 * Number(/^weir_event_loop_delay_seconds\{quantile="1"\} (\S+)$/m.exec(page)?.[1])
    } catch {
      return Number.NaN // the attack holds the server, or ended it
    }
  }

  /** Waits for the producer's requests, then ends both. Resolves with the producer's failures. */
  async kill(): Promise<Outcome['failed']> {
    const { failed } = await this.#producer.stop()
    await this.#server.kill()
    return failed
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

class AttackedServer implements Target {
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

/** The arguments that choose a front end; none if the build has only one. */
export function choosing(frontEnd: FrontEnd, all: readonly FrontEnd[]): readonly string[] {
  return all.length > 1 ? ['--http', frontEnd] : []
}
