/**
 * What a cluster does besides inserts and counts while its parts fail: jobs, imports, replays,
 * tails, retention and changes of the catalog. Each is in a pool of its own, with a model of its
 * own, and asks any node.
 */
import { must } from '../../src/util/errors.ts'
import { createJob, ended } from '../jobs/rewrite-jobs.ts'
import { createSource, type Source } from '../util/senders.ts'
import { fetchToken, send, type TestClient, type TestPool } from '../util/server.ts'
import { TailReader } from '../util/tail-reader.ts'
import { atNode, POOL } from './nodes.ts'

/** No fault lasts as long, and what waits for its end. */
const TRY_MS_MAX = 150_000
const RETRY_MS = 200
/** Between two rounds of the same work: a table is dear, and the machine is small. */
const REST_MS = 4_000
const AT = '2026-01-01T00:00:00Z'
const ROWS = 40

class WrongWork extends Error {}

export class FaultWork {
  /** Rounds of each work. */
  readonly rounds = new Map<string, number>()
  readonly #nodes: readonly TestClient[]
  readonly #random: () => number
  readonly #pools = new Map<string, TestPool>()
  #isOver = false
  #loops: Promise<void>[] = []
  #names = 0
  #kept = 0
  #replayed: { readonly from: Source; readonly into: Source } | undefined
  #accepted = 0

  /** @param nodes the present ones */
  constructor(nodes: readonly TestClient[], random: () => number) {
    this.#nodes = nodes
    this.#random = random
  }

  /** Makes the pools, and begins. */
  async start(): Promise<void> {
    for (const name of ['changed', 'imported', 'tailed', 'kept'])
      this.#pools.set(name, await this.#newPool(name))
    await this.#posted(this.#pool('changed'), events(ROWS, 'row', 0))
    await this.#keepDays(30)
    this.#replayed = { from: await this.#source(false), into: await this.#source(true) }
    const works = {
      jobs: (round: number) => this.#jobs(round),
      imports: (round: number) => this.#imports(round),
      tails: (round: number) => this.#tails(round),
      catalog: () => this.#catalog(),
      replays: (round: number) => this.#replays(round),
      retention: (round: number) => this.#retention(round),
    }
    this.#loops = Object.entries(works).map(async ([name, work]) => {
      for (let round = 1; !this.#isOver; round += 1) {
        await work(round).catch((error: Error) => {
          throw new WrongWork(`${name}, round ${round}: ${error.message}`)
        })
        this.rounds.set(name, round)
        await new Promise(resolve => setTimeout(resolve, REST_MS))
      }
    })
    for (const loop of this.#loops) loop.catch(() => {}) // stop() tells
  }

  /** Resolves when every work has ended its round. Rejects where one went wrong. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
    // The pool is looked at once a day, and now.
    await this.#keepDays(31)
    await this.#holds('records that are too old go', async node => {
      const { poolId } = this.#pool('kept')
      return (await node.count(poolId)) === String(this.#kept)
    })
  }

  /** Changes all rows and deletes further ones. */
  async #jobs(round: number): Promise<void> {
    const pool = this.#pool('changed')
    await this.#posted(pool, events(5, `gone${round}`, -1))
    await this.#job('deletion', { dataPool: pool.poolId, filterSql: 'n < 0' })
    const set = [{ column: 'n', expression: String(round) }]
    await this.#job('update', { dataPool: pool.poolId, filterSql: 'n >= 0', set })
    const found = await this.#tried(async node => [
      await node.count(pool.poolId),
      await node.sum(pool.poolId, 'n'),
    ])
    mustBe(found.join(' '), `${ROWS} ${ROWS * round}`)
  }

  async #job(kind: 'deletion' | 'update', input: Readonly<Record<string, unknown>>): Promise<void> {
    const job = await this.#tried(node => createJob(node, kind, input))
    const state = await this.#tried(node => ended(node, job))
    mustBe(`${kind} ${state.status}`, `${kind} SUCCEEDED`)
  }

  /** Rows with a unique id, sent again until all are there. */
  async #imports(round: number): Promise<void> {
    const { poolId } = this.#pool('imported')
    const body = events(100, `import${round}`, round)
      .map(event => JSON.stringify(event))
      .join('\n')
    await this.#tried(async ({ base, dataDir }) => {
      const authorization = `Bearer ${await fetchToken(base, dataDir)}`
      const url = `${base}/v1/pools/${poolId}/import?format=ndjson`
      const answer = await fetch(url, { method: 'POST', headers: { authorization }, body })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`${answer.status} ${text}`)
    })
    mustBe(String(await this.#tried(node => node.count(poolId))), String(100 * round))
  }

  /** A tail that stays open has all that is acknowledged after its begin, once. */
  async #tails(round: number): Promise<void> {
    const pool = this.#pool('tailed')
    const tail = await this.#tried(async ({ base, dataDir }) => {
      const authorization = `Bearer ${await fetchToken(base, dataDir)}`
      const answer = await fetch(`${base}/v1/pools/${pool.poolId}/tail`, { headers: { authorization } })
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
      return { reader: new TailReader(answer), cancel: () => answer.body?.cancel() }
    })
    const sent = events(5, `tail${round}`, round)
    await this.#posted(pool, sent)
    const { reader } = tail
    const idsOf = () =>
      reader.rows.map(({ id }) => must(id, 'an id')).filter(id => id.startsWith(`tail${round}/`))
    const isWhole = () => new Set(idsOf()).size === sent.length || reader.missed > 0
    const late = new Promise((_, reject) =>
      setTimeout(() => reject(new Error(`a tail has ${idsOf()} of ${sent.length} rows`)), TRY_MS_MAX).unref(),
    )
    // A node that dies takes its tails along.
    await Promise.race([late, reader.until(isWhole).catch(() => {})])
    void tail.cancel()?.catch(() => {})
  }

  /** A pool is on all nodes when it is made, and on none when it is deleted. */
  async #catalog(): Promise<void> {
    const pool = await this.#newPool('short')
    const statusAt = async (node: TestClient) =>
      await send(atNode(pool.url, node), [{ at: AT, id: 'a', n: 1 }]).then(
        ({ status }) => status,
        () => 0,
      )
    for (const status of await Promise.all(this.#nodes.map(statusAt)))
      if (status === 404) throw new Error('a created pool is unknown')
    const { errors } = await this.#anyNode()
      .graphql(`mutation { deleteDataPool(id: "${pool.poolId}") }`)
      .catch(() => ({ errors: [{}] }))
    if (errors !== undefined) return
    for (const status of await Promise.all(this.#nodes.map(statusAt)))
      if (status === 200) throw new Error('a deleted pool takes events')
  }

  /** What a strict pool refuses comes into one that takes it. */
  async #replays(round: number): Promise<void> {
    const { from, into } = must(this.#replayed, 'the pools of replays')
    const first = 3 * round
    const ids = [first, first + 1, first + 2]
    await this.#tried(async node => {
      const answer = await send(
        atNode(from.url, node),
        ids.map(id => ({ id, n: String(id) })),
      )
      if (answer.status !== 400) throw new Error(`${answer.status} for events that do not fit`)
    })
    // Rejected events are kept a little later, and those of a node that dies not at all.
    const create =
      'mutation ($input: CreateReplayRejectedEventsJobInput!) { createReplayRejectedEventsJob(input: $input) { job { id } } }'
    const input = { dataPool: into.poolId, rejectedBy: from.poolId }
    const { createReplayRejectedEventsJob } = await this.#ask<{
      createReplayRejectedEventsJob: { job: { id: string } }
    }>(create, { input })
    const { id } = createReplayRejectedEventsJob.job
    const state =
      'query ($id: ID!) { replayRejectedEventsJob(id: $id) { status accepted error { message } } }'
    let job = { status: '', accepted: 0, error: null as null | { readonly message: string } }
    await this.#holds('a replay ends', async node => {
      const { data, errors } = await node.graphql<{ replayRejectedEventsJob: typeof job }>(state, { id })
      if (errors !== undefined) return false
      job = data.replayRejectedEventsJob
      return /SUCCEEDED|FAILED/.test(job.status)
    })
    mustBe(`${job.status} ${job.error?.message}`, 'SUCCEEDED undefined')
    const count = Number(await this.#tried(node => node.count(into.poolId)))
    this.#accepted += job.accepted
    if (count < this.#accepted || count > ids.length * round)
      throw new Error(`replays accepted ${this.#accepted}, and ${count} are there`)
  }

  async #keepDays(dataRetentionInDays: number): Promise<void> {
    const modify = 'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }'
    const { poolId } = this.#pool('kept')
    await this.#ask(modify, { input: { idOrUniqueName: { id: poolId }, dataRetentionInDays } })
  }

  async #retention(round: number): Promise<void> {
    const pool = this.#pool('kept')
    await this.#posted(pool, [{ at: '2020-01-01T00:00:00Z', id: `old${round}`, n: 1 }])
    await this.#posted(pool, [{ at: new Date().toISOString(), id: `new${round}`, n: 1 }])
    this.#kept += 1
  }

  // ── any node, until it answers ────────────────────────────────────────────────────────────────

  #pool(name: string): TestPool {
    return must(this.#pools.get(name), 'a pool')
  }

  /** A webhook whose column takes integers, and with `coerce` texts that hold them. */
  #source(coerce: boolean): Promise<Source> {
    const columnOf = (name: string, more = {}) => ({
      ...{ name, jsonProperty: name, type: 'INT64', nullable: name === 'n' },
      ...more,
    })
    const columns = [columnOf('id'), columnOf('n', { coerce })]
    return this.#tried(({ graphql }) =>
      createSource(graphql, { columns, tableSettings: { orderBy: ['id'] } }),
    )
  }

  #newPool(name: string): Promise<TestPool> {
    return this.#tried(node => node.createPool({ ...POOL, uniqueName: `${name}${++this.#names}` }))
  }

  async #posted(pool: TestPool, some: readonly object[]): Promise<void> {
    await this.#tried(async node => {
      const { status } = await send(atNode(pool.url, node), some)
      if (status !== 200) throw new Error(`${status}`)
    })
  }

  async #ask<T>(query: string, variables: object): Promise<T> {
    return await this.#tried(async node => {
      const { data, errors } = await node.graphql(query, variables)
      if (errors !== undefined) throw new Error(errors[0]?.message)
      return data as T
    })
  }

  #anyNode(): TestClient {
    return must(this.#nodes[Math.floor(this.#random() * this.#nodes.length)], 'a node')
  }

  async #tried<T>(act: (node: TestClient) => Promise<T>): Promise<T> {
    for (const endMs = performance.now() + TRY_MS_MAX; ; )
      try {
        return await act(this.#anyNode())
      } catch (error) {
        if (performance.now() > endMs) throw error
        await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      }
  }

  async #holds(what: string, isSo: (node: TestClient) => Promise<boolean>): Promise<void> {
    for (const endMs = performance.now() + TRY_MS_MAX; ; ) {
      if (await isSo(this.#anyNode()).catch(() => false)) return
      if (performance.now() > endMs) throw new WrongWork(`waited too long until ${what}`)
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    }
  }
}

function events(count: number, name: string, n: number) {
  return Array.from({ length: count }, (_, index) => ({ at: AT, id: `${name}/${index}`, n }))
}

function mustBe(found: string, expected: string): void {
  if (found !== expected) throw new Error(`${found}, and not ${expected}`)
}
