/**
 * Question: what ends and what goes on when queries, imports and ingest use up the memory of a
 * container, and is anything lost that was acknowledged?
 *
 *   The server runs in a memory cgroup of `--memory` MiB (Linux, as root; version 1 or 2). Beside
 *   four producers of full batches, attacks of readers and importers (readers-attacks.ts) run one
 *   after the other. A server that ends is started again, in the same cgroup.
 *
 * At the end every acknowledged batch is counted: it must have all of its rows.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestServer } from '../test/util/server.ts'
import { freePort } from '../test/util/server.ts'
import { benchFolder } from './leftovers.ts'
import { print, quantileOf, row, sleep } from './measure.ts'
import { numberOf } from './options.ts'
import { application, asked } from './readers.ts'
import { fillPools, READER_ATTACKS } from './readers-attacks.ts'
import { startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ContainerOptions {
  readonly memory?: string | undefined
  readonly seconds?: string | undefined
}

const MiB = 1024 ** 2
const PRODUCERS = 4
const BATCH_EVENTS = 500
/** A producer rests so long: the load is steady, and its batches fit in a few statements. */
const BATCH_PAUSE_MS = 40
/** A producer that got no answer tries the next batch after this. */
const AGAIN_MS = 200
/** Groups of a statement's answer. */
const GROUPS_MAX = 10_000
const ATTACKS = ['CROSS JOIN', '100 ×', 'spills', 'Parquet']

/** Attacks for `seconds` (20) each in a container of `memory` (1,100) MiB. */
export async function benchContainer(options: ContainerOptions): Promise<void> {
  const memory = numberOf('memory', options.memory, 1_100)
  const seconds = numberOf('seconds', options.seconds, 20)
  const group = createGroup(memory * MiB)
  if (group === undefined) return
  try {
    await inGroup(group, memory, seconds)
  } finally {
    group.remove()
  }
}

async function inGroup(group: Group, memory: number, seconds: number): Promise<void> {
  print(`container: ${memory} MiB, each attack for ${seconds} s beside ${PRODUCERS} producers`)
  const dataDir = join(benchFolder('weir-container-'), 'data')
  // The same port after a restart: producers and readers need not be told.
  const args = ['--port', await freePort()]
  const start = () => startWeir({ dataDir, args, under: group.under })
  const running = { server: await start(), starts: 1 }
  const pools = await fillPools(running.server)
  const pool = await running.server.createPool({
    uniqueName: 'acks',
    columns: [
      { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
      { name: 'batch', jsonProperty: 'batch', type: 'INT32', nullable: false },
    ],
    uniqueId: 'id',
  })
  const tokens = [await application(running.server), await application(running.server)] as const
  const reader = await application(running.server)
  const over = new AbortController()
  const keeping = keepRunning(running, start, over.signal)
  const sent = produce(pool.url, over.signal)
  for (const name of ATTACKS) {
    const attack = READER_ATTACKS.find(one => one.name.includes(name))
    if (attack === undefined) throw new Error(`there is no attack ${name}`)
    const end = new AbortController()
    const before = {
      starts: running.starts,
      kills: group.kills(),
      failures: sent.failures,
      at: sent.ms.length,
    }
    const attacking = attack.run({ server: running.server, tokens, pools, over: end.signal })
    const queries = await countsOf(running.server, reader, performance.now() + seconds * 1000)
    end.abort()
    await attacking
    const acks = sent.ms.slice(before.at)
    print(
      row(
        attack.name,
        `acks ${acks.length} batches, p99 ${quantileOf(acks, 0.99).toFixed(0)} ms, ${sent.failures - before.failures} failed; counters ${queries.ms.length}, p99 ${quantileOf(queries.ms, 0.99).toFixed(0)} ms, ${queries.failed} failed; ended by the kernel: ${group.kills() - before.kills} processes, the server ${running.starts - before.starts} times`,
      ),
    )
  }
  over.abort()
  await Promise.all([keeping, sent.done])
  const acknowledged = [...sent.acknowledged]
  const lost = await lostOf(running.server, acknowledged)
  print(row('acknowledged batches, and those not whole', `${acknowledged.length} and ${lost}`))
  if (lost > 0) {
    print(row('', 'ACKNOWLEDGED ROWS ARE LOST'))
    process.exitCode = 1
  }
  await running.server.stop()
}

/** Starts the server again whenever it ends, until `over`. */
async function keepRunning(
  running: { server: TestServer; starts: number },
  start: () => Promise<TestServer>,
  over: AbortSignal,
): Promise<void> {
  const isOver = new Promise<'over'>(resolve => {
    over.addEventListener('abort', () => resolve('over'), { once: true })
  })
  for (;;) {
    const ended = await Promise.race([running.server.ended, isOver])
    if (ended === 'over') return
    print(row('THE SERVER ENDED', `${ended.signal ?? ended.code}`))
    running.server = await start()
    running.starts += 1
  }
}

/** Producers in closed loops with rests. Its fields grow until `over`. */
function produce(url: string, over: AbortSignal) {
  const sent = { acknowledged: new Set<number>(), ms: [] as number[], failures: 0, done: Promise.resolve() }
  let batches = 0
  const one = async () => {
    while (!over.aborted) {
      batches += 1
      const batch = batches
      const events = Array.from({ length: BATCH_EVENTS }, (_, n) => ({ id: `${batch}-${n}`, batch }))
      const begin = performance.now()
      const status = await statusOf(url, JSON.stringify(events))
      if (status === 200) {
        sent.acknowledged.add(batch)
        sent.ms.push(performance.now() - begin)
      } else sent.failures += 1
      await sleep(status === 200 ? BATCH_PAUSE_MS : AGAIN_MS)
    }
  }
  sent.done = Promise.all(Array.from({ length: PRODUCERS }, one)).then(() => undefined)
  return sent
}

/** Resolves with 0 where there was no answer. */
async function statusOf(url: string, body: string): Promise<number> {
  try {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(60_000) })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}

/** Counters of a reader until `end`. */
async function countsOf(server: TestServer, token: string, end: number) {
  const done = { ms: [] as number[], failed: 0 }
  const filters = [{ column: 'batch', operator: 'EQUALS', value: '1' }]
  const counter = { metric: { count: { dataPool: { name: 'acks' } } }, filters }
  while (performance.now() < end) {
    const begin = performance.now()
    try {
      await asked(server, token, '/v1/query', { counter })
      done.ms.push(performance.now() - begin)
    } catch {
      done.failed += 1
    }
    await sleep(100)
  }
  return done
}

/** The number of batches of which a row is missing. */
async function lostOf(server: TestServer, acknowledged: readonly number[]): Promise<number> {
  const whole = new Set<number>()
  const last = Math.max(0, ...acknowledged)
  for (let from = 0; from <= last; from += GROUPS_MAX) {
    const query = `SELECT batch, count(*) AS n FROM acks WHERE batch >= ${from} AND batch < ${from + GROUPS_MAX} GROUP BY batch`
    const { data, errors } = await server.graphql<{ sqlV1: { rows: [string, string][] } }>(
      'query ($input: SqlV1Input!) { sqlV1(input: $input) { rows } }',
      { input: { query } },
    )
    if (errors !== undefined) throw new Error(errors[0]?.message)
    for (const [batch, rows] of data.sqlV1.rows) if (Number(rows) === BATCH_EVENTS) whole.add(Number(batch))
  }
  return acknowledged.filter(batch => !whole.has(batch)).length
}

/** A memory cgroup. */
interface Group {
  /** Runs a command in it. */
  readonly under: readonly string[]
  /** Processes that the kernel has ended in it. */
  kills(): number
  remove(): void
}

/** undefined where the system has no memory cgroups, or the user may not make one. */
function createGroup(bytes: number): Group | undefined {
  const isVersion1 = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes')
  const folder = join(isVersion1 ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup', `weir-bench-${process.pid}`)
  const events = join(folder, isVersion1 ? 'memory.oom_control' : 'memory.events')
  try {
    mkdirSync(folder)
    writeFileSync(join(folder, isVersion1 ? 'memory.limit_in_bytes' : 'memory.max'), String(bytes))
  } catch (error) {
    print(row('no memory cgroup can be made', (error as Error).message))
    return undefined
  }
  return {
    under: ['sh', '-c', `echo $$ > ${folder}/cgroup.procs && exec "$@"`, 'sh'],
    kills: () => Number(/^oom_kill (\d+)/m.exec(readFileSync(events, 'utf8'))?.[1] ?? 0),
    remove: () => rmdirSync(folder),
  }
}
