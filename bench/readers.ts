/**
 * Question: what do attacks of readers do to another application's queries, to acks, to the memory
 * of each process and to the disk? `--server` names the folder of another checkout that was set up,
 * such as an older commit's.
 *
 *   attackers   two applications with the smallest propeller (readers-attacks.ts)
 *   reader      another application with the smallest propeller: a counter each 100 ms, and each
 *               second the rows of a small pool as an Arrow stream
 *   producer    one event each 20 ms
 *
 * Memory is the largest resident set of a process of each name (RssAnon and RssShmem), read each
 * 50 ms. Goals: no query of the reader fails, p99 of its counters at most 2 s; each process takes
 * at most its propeller and 300 MB. The disk is that of TMPDIR.
 */
import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { TestServer } from '../test/util/server.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { print, quantileOf, sleep } from './measure.ts'
import { numberOf, Usage } from './options.ts'
import { fillPools, postEvent, READER_ATTACKS, type ReaderAttack } from './readers-attacks.ts'
import { startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ReadersOptions {
  readonly server?: string | undefined
  readonly seconds?: string | undefined
  readonly only?: string | undefined
}

const COUNTER_PAUSE_MS = 100
const ARROW_PAUSE_MS = 1_000
const EVENT_PAUSE_MS = 20
const MEMORY_PAUSE_MS = 50
/** A query that has no answer by then has failed. */
export const ANSWER_MS_MAX = 60_000
const MiB = 1024 ** 2

/** Runs each attack for `seconds` (60), `only` those with a text in their name. */
export async function benchReaders(options: ReadersOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 60)
  const attacks = READER_ATTACKS.filter(({ name }) => name.includes(options.only ?? ''))
  if (attacks.length === 0)
    throw new Usage(
      `--only ${options.only}: no attack has this in its name:\n${READER_ATTACKS.map(one => one.name).join('\n')}`,
    )
  const main = mainOf(options.server)
  print(`${main ?? 'this build'}; each attack for ${seconds} s; goals: 0 failed, p99 of counters <= 2000 ms`)
  print(line('attack', 'counters', 'p50', 'p99', 'max', 'failed', 'arrow p99', 'failed', 'ack p99', 'failed'))
  for (const attack of attacks) await underAttack(attack, main, seconds)
}

/** The main.js of another build, if an option names its folder. */
export function mainOf(folder: string | undefined): string | undefined {
  if (folder === undefined) return undefined
  const main = join(resolve(folder), 'dist', 'src', 'app', 'main.js')
  if (existsSync(main)) return main
  throw new Usage(`--server ${folder}: it has no dist/src/app/main.js; run its set-up first`)
}

async function underAttack(attack: ReaderAttack, main: string | undefined, seconds: number): Promise<void> {
  const folder = benchFolder('weir-readers-')
  const server = await startWeir({ dataDir: join(folder, 'data'), ...(main === undefined ? {} : { main }) })
  try {
    const pools = await fillPools(server)
    const small = await server.createPool({ uniqueName: 'small' })
    await postEvent(small, { a: 1 })
    const tokens = [await application(server), await application(server)] as const
    const reader = await application(server)
    const over = new AbortController()
    const usage = watch(server.child.pid!, server.dataDir, over.signal)
    const attacking = attack.run({ server, tokens, pools, over: over.signal })
    const end = performance.now() + seconds * 1000
    // Without a filter the manifest answers, and no query runs.
    const filters = [{ column: '_service_received_at', operator: 'IS_NOT_NULL' }]
    const count = { counter: { metric: { count: { dataPool: { name: 'small' } } }, filters } }
    const [counters, arrow, acks] = await Promise.all([
      repeat(end, COUNTER_PAUSE_MS, () => asked(server, reader, '/v1/query', count)),
      repeat(end, ARROW_PAUSE_MS, () => asked(server, reader, '/v1/pools/small/arrow')),
      repeat(end, EVENT_PAUSE_MS, () => postEvent(small, { a: 1 })),
    ])
    over.abort()
    await attacking
    print(
      line(
        attack.name,
        String(counters.ms.length),
        ...[0.5, 0.99, 1].map(quantile => quantileOf(counters.ms, quantile).toFixed(0)),
        failures(counters),
        quantileOf(arrow.ms, 0.99).toFixed(0),
        failures(arrow),
        quantileOf(acks.ms, 0.99).toFixed(0),
        failures(acks),
      ),
    )
    for (const text of [...counters.errors.keys(), ...arrow.errors.keys(), ...acks.errors.keys()])
      print(`    ${text.slice(0, 160)}`)
    print(`    ${usage()}`)
  } finally {
    await server.kill()
    removeFolder(folder)
  }
}

export interface Repeated {
  readonly ms: number[]
  /** Number of failures by message. */
  readonly errors: Map<string, number>
}

/** Does something again and again, one after the other, until `end`. */
async function repeat(end: number, pauseMs: number, work: () => Promise<void>): Promise<Repeated> {
  const done: Repeated = { ms: [], errors: new Map() }
  while (performance.now() < end) {
    const begin = performance.now()
    try {
      await work()
      done.ms.push(performance.now() - begin)
    } catch (error) {
      const { message } = error as Error
      done.errors.set(message, (done.errors.get(message) ?? 0) + 1)
    }
    await sleep(pauseMs)
  }
  return done
}

export function failures({ errors }: Repeated): string {
  return String([...errors.values()].reduce((sum, count) => sum + count, 0))
}

/** Asks, and rejects unless the answer is 200. */
export async function asked(server: TestServer, token: string, path: string, body?: unknown): Promise<void> {
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const answer = await fetch(`${server.base}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text}`)
}

/** A token of a new application, with the smallest propeller where nothing else is said. */
export async function application(server: TestServer, propeller = 'P1_X_SMALL'): Promise<string> {
  const { data } = await server.graphql<{
    createApplication: { application: { clientId: string; secret: string } }
  }>(
    `mutation { createApplication(input: { propeller: ${propeller}, scopes: [DATA_POOL_QUERY, DATA_POOL_WRITE] }) {
       ... on ApplicationResponse { application { clientId secret } } } }`,
  )
  const { clientId, secret } = data.createApplication.application
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: secret,
  })
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body })
  return ((await answer.json()) as { access_token: string }).access_token
}

/** Reads memory and disk until `over`. Returns what tells the largest figures. */
function watch(pid: number, dataDir: string, over: AbortSignal): () => string {
  const peaks = new Map<string, number>()
  const free = () => {
    const { bavail, bsize } = statfsSync(dataDir)
    return bavail * bsize
  }
  const [atFirst, least] = [free(), { bytes: Number.POSITIVE_INFINITY }]
  const read = () => {
    for (const [name, bytes] of processes(pid)) peaks.set(name, Math.max(peaks.get(name) ?? 0, bytes))
    least.bytes = Math.min(least.bytes, free())
  }
  const timer = setInterval(read, MEMORY_PAUSE_MS)
  over.addEventListener('abort', () => clearInterval(timer), { once: true })
  return () => {
    const memory = [...peaks].map(([name, bytes]) => `${name} ${(bytes / MiB).toFixed(0)} MiB`)
    const disk = `${(atFirst / MiB).toFixed(0)} MiB free before, ${(least.bytes / MiB).toFixed(0)} at least`
    return `memory at most: ${memory.join(', ')}; disk: ${disk}`
  }
}

/** Name and resident bytes of the server and its processes; of those with one name the largest. */
function processes(pid: number): readonly (readonly [string, number])[] {
  const found: [string, number][] = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const text = readFileSync(`/proc/${name}/status`, 'utf8')
      const field = (of: string) => new RegExp(`^${of}:\\s+(\\S+)`, 'm').exec(text)?.[1] ?? ''
      if (Number(name) !== pid && Number(field('PPid')) !== pid) continue
      const bytes = (Number(field('RssAnon')) + Number(field('RssShmem'))) * 1024
      found.push([Number(name) === pid ? 'server' : field('Name'), bytes])
    } catch {} // it has ended
  }
  return found
}

const WIDTHS = [44, 9, 6, 6, 6, 7, 10, 7, 8, 7]

function line(...cells: readonly string[]): string {
  return cells.map((cell, at) => (at === 0 ? cell.padEnd(WIDTHS[0]!) : cell.padStart(WIDTHS[at]!))).join(' ')
}
