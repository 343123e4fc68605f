/** Everything that the clients know, over all restarts: pools, spaces, and deleted pools. */
import { below, type Random, randomFrom } from '../util/random.ts'
import type { TestPool, TestServer } from '../util/server.ts'
import { ask, type GraphqlAnswer, Violation } from './client.ts'
import { POOL_KINDS, type PoolKind } from './pools.ts'
import { FORM } from './senders.ts'
import { Space } from './space.ts'

/**
 * The number of clients. Each has a space of its own in each pool. One more space is shared by all.
 */
export const CLIENTS = 8
const SHARED = 's'

/** A pool under load. */
export interface LoadPool {
  readonly kind: PoolKind
  readonly poolId: string
  /** The path of its URL. The port changes with each start. */
  readonly path: string
  readonly spaces: readonly Space[]
}

/** A pool that is created and deleted during the load. */
export interface ShortLived {
  readonly name: string
  readonly poolId: string
  readonly sourceId: string
  readonly path: string
  readonly space: Space
}

/** Counts of a run. */
export interface Tally {
  requests: number
  unknown: number
  /** Checks that were made again, because their connection ended while the server ran. */
  checkedAgain: number
  created: number
  deleted: number
  /** Requested passes of retention. */
  retentions: number
  /** Backups that answered that they were done, and backups without an answer. */
  backups: number
  unansweredBackups: number
  /**
   * Folders that were checked as the kill left them, and those that other readers read after a
   * replay.
   */
  checked: number
  crossRead: number
  /** Rows of the pool of rejected events that were checked. */
  rejected: number
  /** Rows that tails have shown. */
  tailed: number
  /**
   * Kills right after a compaction commit, and the rows that it moved although they were updated or
   * deleted meanwhile.
   */
  compactionCommits: number
  changedMeanwhile: number
}

/** An event that a server refuses. */
interface Refused {
  readonly poolId: string
  readonly event: string
  readonly isForm: boolean
}

export class ClientState {
  readonly random: Random
  readonly pools: LoadPool[] = []
  readonly alive: ShortLived[] = []
  readonly deletedPools: ShortLived[] = []
  /** The name of the pool whose creation has no answer. */
  creating: string | undefined
  /** The pool whose deletion has no answer. */
  deleting: ShortLived | undefined
  /** Folders of backups without an answer. */
  readonly unansweredBackups: string[] = []
  readonly tally: Tally = {
    requests: 0,
    unknown: 0,
    checkedAgain: 0,
    created: 0,
    deleted: 0,
    retentions: 0,
    backups: 0,
    unansweredBackups: 0,
    checked: 0,
    crossRead: 0,
    rejected: 0,
    tailed: 0,
    compactionCommits: 0,
    changedMeanwhile: 0,
  }
  /** Unknown until the first start is ready. */
  rejectedPoolId: string | undefined
  /** The events that were sent in order to be refused, by their stamps. */
  readonly refused = new Map<string, Refused>()
  readonly #ids = new Set<string>()
  #stamp = 0
  #name = 0

  constructor(seed: number) {
    this.random = randomFrom(seed)
  }

  get hasAllPools(): boolean {
    return this.pools.length === POOL_KINDS.length
  }

  /**
   * Creates the pools under load. If the server dies meanwhile, the next start creates the rest.
   */
  async createPools(server: Pick<TestServer, 'createPool'>): Promise<void> {
    const names = [...Array.from({ length: CLIENTS }, (_, i) => `c${i}`), SHARED]
    for (const kind of POOL_KINDS.slice(this.pools.length)) {
      const made = await server.createPool(kind.spec)
      this.takeIds(made)
      const spaces = names.map(name => new Space(name))
      this.pools.push({ kind, poolId: made.poolId, path: new URL(made.url).pathname, spaces })
    }
  }

  /** A stamp that no row had before. Its random part keeps the sums of different rows apart. */
  nextStamp(): number {
    this.#stamp += 1
    return this.#stamp * 1_000_000 + below(this.random, 1_000_000)
  }

  /** Remembers events that are sent in order to be refused. */
  refuses({ poolId, kind }: LoadPool, events: readonly Record<string, unknown>[]): void {
    for (const event of events)
      this.refused.set(String(event['stamp']), {
        poolId,
        event: JSON.stringify(event),
        isForm: kind.sender === FORM,
      })
  }

  nextName(): string {
    this.#name += 1
    return `short-${this.#name}`
  }

  /** Throws Violation where an id was given before. */
  takeIds({ poolId, sourceId, url }: TestPool): void {
    for (const id of [poolId, sourceId, new URL(url).pathname]) {
      if (this.#ids.has(id)) throw new Violation(`the id ${id} was given twice`)
      this.#ids.add(id)
    }
  }

  created(name: string, made: TestPool): ShortLived {
    this.takeIds(made)
    const { poolId, sourceId } = made
    const one = { name, poolId, sourceId, path: new URL(made.url).pathname, space: new Space('a') }
    this.alive.push(one)
    return one
  }

  deleted(one: ShortLived): void {
    this.alive.splice(this.alive.indexOf(one), 1)
    this.deletedPools.push(one)
    this.deleting = undefined
  }
}

/** One counter field of a GraphQL document. */
export function counterField(alias: string, poolId: string, isSum: boolean, space?: Space): string {
  const pool = `dataPool: {id: "${poolId}"}`
  const metric = isSum ? `{sum: {${pool}, measure: {columnName: "stamp"}}}` : `{count: {${pool}}}`
  const filters =
    space === undefined ? '' : `, filters: [{column: "client", operator: EQUALS, value: "${space.name}"}]`
  return `${alias}: counter(input: {metric: ${metric}${filters}}) { value }`
}

/** The number of rows of a pool. Throws ConnectionLost or Violation. */
export async function askCount(base: string, token: string, poolId: string): Promise<bigint> {
  return (await askCounters(base, token, [counterField('count', poolId, false)]))('count')
}

/** The sum of a space's stamps, as the server answers it. Throws ConnectionLost or Violation. */
export async function askSum(base: string, token: string, poolId: string, space: Space): Promise<bigint> {
  return (await askCounters(base, token, [counterField('sum', poolId, true, space)]))('sum')
}

/** The sums that the spaces of all pools under load may have now. */
export function spacesNow(state: ClientState): SpaceNow[] {
  return state.pools.flatMap(({ poolId, spaces }) =>
    spaces.map(space => ({ poolId, space, sums: space.candidates() })),
  )
}

export interface SpaceNow {
  readonly poolId: string
  readonly space: Space
  readonly sums: readonly bigint[]
}

/** The pools that exist for certain, with their spaces. */
export function poolsNow(
  state: ClientState,
): { readonly poolId: string; readonly spaces: readonly Space[] }[] {
  const living = state.alive.filter(one => one !== state.deleting)
  return [...state.pools, ...living.map(({ poolId, space }) => ({ poolId, spaces: [space] }))]
}

/** Compares a server with an earlier result of `spacesNow`. Throws Violation or ConnectionLost. */
export async function verifySpaces(now: readonly SpaceNow[], base: string, token: string): Promise<void> {
  const fields = now.map(({ poolId, space }, i) => counterField(`s${i}`, poolId, true, space))
  const value = await askCounters(base, token, fields)
  const wrong = now.flatMap(({ poolId, space, sums }, i) => {
    const found = value(`s${i}`)
    return sums.includes(found)
      ? []
      : [`pool ${poolId}: stamps of ${space.name} sum to ${found}, not ${sums[0]} or ${sums[1]}`]
  })
  if (wrong.length > 0) throw new Violation(wrong.join('\n'))
}

/** The values of counter fields, asked in one document. */
async function askCounters(
  base: string,
  token: string,
  fields: readonly string[],
): Promise<(alias: string) => bigint> {
  const answer = await ask(base, token, `{ ${fields.join(' ')} }`)
  const data = dataOf(answer)
  return alias => BigInt((data[alias] as { value: string | null } | null)?.value ?? 0)
}

function dataOf({ data, errors }: GraphqlAnswer): Record<string, unknown> {
  const first = errors?.[0]
  if (first !== undefined || data === null)
    throw new Violation(`a query failed: ${first?.extensions?.code} ${first?.message}`)
  return data
}

/**
 * Compares every space, and the number of rows of every pool, with the server. Throws Violation or
 * ConnectionLost.
 */
export async function verifyRows(state: ClientState, base: string, token: string): Promise<void> {
  const pools = poolsNow(state)
  const found = await askGroups(
    base,
    token,
    pools.map(({ poolId }) => poolId),
  )
  const wrong: string[] = []
  for (const [p, { poolId, spaces }] of pools.entries()) {
    const { sums, count } = found[p]!
    for (const space of spaces) {
      const problem = space.check(sums.get(space.name) ?? 0n)
      if (problem !== undefined)
        wrong.push(`pool ${poolId}: ${problem}${await explain(base, token, poolId, space)}`)
    }
    const rows = spaces.reduce((sum, space) => sum + space.rows, 0)
    const old = spaces.reduce((sum, space) => sum + space.old.rowsMax, 0)
    if (count < rows || count > rows + old)
      wrong.push(`pool ${poolId} has ${count} rows, not ${rows}${old > 0 ? ` to ${rows + old}` : ''}`)
    if (count === rows) for (const space of spaces) space.old.allRemoved()
  }
  if (wrong.length > 0) throw new Violation(wrong.join('\n'))
}

interface Groups {
  /** The sum of stamps by the name of the space. */
  readonly sums: ReadonlyMap<string | null, bigint>
  /** The number of rows of the pool. */
  readonly count: number
}

/**
 * The rows of each pool by their space: one statement a pool takes far less than a counter a space.
 */
async function askGroups(base: string, token: string, poolIds: readonly string[]): Promise<Groups[]> {
  const statement = (poolId: string) =>
    `SELECT client, SUM(stamp), COUNT(*) FROM \\"${poolId}\\" GROUP BY client`
  const fields = poolIds.map((poolId, p) => `p${p}: sqlV1(input: {query: "${statement(poolId)}"}) { rows }`)
  const data = dataOf(await ask(base, token, `{ ${fields.join(' ')} }`)) as Record<
    string,
    { readonly rows: readonly (readonly (string | null)[])[] }
  >
  return poolIds.map((_, p) => {
    const { rows } = data[`p${p}`]!
    return {
      sums: new Map(rows.map(([client, sum]) => [client!, BigInt(sum ?? 0)])),
      count: rows.reduce((count, [, , more]) => count + Number(more), 0),
    }
  })
}

/** Names the rows that are missing or doubled, by their stamps. */
async function explain(base: string, token: string, poolId: string, space: Space): Promise<string> {
  const rows = space.entries()
  const lines: string[] = []
  for (let from = 0; from < rows.length; from += 200) {
    const part = rows.slice(from, from + 200)
    const fields = part.map(
      ([, stamp], i) =>
        `r${i}: counter(input: {metric: {count: {dataPool: {id: "${poolId}"}}}, filters: [{column: "stamp", operator: EQUALS, value: "${stamp}"}]}) { value }`,
    )
    const value = await askCounters(base, token, fields).catch(() => undefined)
    for (const [i, [key, stamp]] of part.entries()) {
      const found = value?.(`r${i}`)
      if (found !== 1n) lines.push(`\n  key ${key}, stamp ${stamp}: ${found} rows`)
    }
  }
  return lines.slice(0, 20).join('')
}

const FIND = `query ($name: String!) { dataPoolByName(uniqueName: $name) { id dataSource {
  id connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } } }`
const FIND_SOURCE = 'query ($name: String!) { dataSourceByName(uniqueName: $name) { id } }'
const FIND_ID = 'query ($id: ID!) { dataPool(id: $id) { id } }'
const FIND_SOURCE_ID = 'query ($id: ID!) { dataSource(id: $id) { id } }'

/**
 * The pool of this name; undefined where neither it nor its source exists. Throws Violation where
 * one of them exists.
 */
export async function findPool(base: string, token: string, name: string): Promise<TestPool | undefined> {
  const answer = await ask(base, token, FIND, { name })
  if (answer.errors === undefined) {
    const pool = (answer.data as { dataPoolByName: FoundPool }).dataPoolByName
    const { id, connectionSettings } = pool.dataSource
    return { poolId: pool.id, sourceId: id, url: connectionSettings.webhookUrl }
  }
  mustBeMissing(answer, `pool ${name}`)
  mustBeMissing(
    await ask(base, token, FIND_SOURCE, { name }),
    `the source of pool ${name}, which is not there,`,
  )
  return undefined
}

interface FoundPool {
  readonly id: string
  readonly dataSource: { readonly id: string; readonly connectionSettings: { readonly webhookUrl: string } }
}

/**
 * True where a webhook source and its pool exist. Throws ConnectionLost, or Violation for an error
 * other than NOT_FOUND and where one of the two exists.
 */
export async function pairExists(
  base: string,
  token: string,
  { poolId, sourceId }: Pick<ShortLived, 'poolId' | 'sourceId'>,
): Promise<boolean> {
  const pool = await ask(base, token, FIND_ID, { id: poolId })
  const source = await ask(base, token, FIND_SOURCE_ID, { id: sourceId })
  if (pool.errors === undefined && source.errors === undefined) return true
  mustBeMissing(pool, `pool ${poolId}`)
  mustBeMissing(source, `source ${sourceId}`)
  return false
}

function mustBeMissing(answer: GraphqlAnswer, what: string): void {
  const code = answer.errors?.[0]?.extensions?.code
  if (code !== 'NOT_FOUND') throw new Violation(`${what}: expected NOT_FOUND, got ${JSON.stringify(answer)}`)
}
