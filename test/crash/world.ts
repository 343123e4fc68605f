/** Everything that the clients know, over all restarts: pools, spaces, and what must be gone. */
import { below, type Random, randomFrom } from '../util/random.ts'
import type { TestPool, TestServer } from '../util/server.ts'
import { ask, type GraphqlAnswer, Violation } from './client.ts'
import { POOL_KINDS, type PoolKind } from './pools.ts'
import { Space } from './space.ts'

/** Clients with a space of their own in each pool; one more space is shared by all. */
export const CLIENTS = 8
const SHARED = 's'

/** A pool under load. */
export interface LoadPool {
  readonly kind: PoolKind
  readonly poolId: string
  /** Path of its URL: the port is another one after each start. */
  readonly path: string
  readonly spaces: readonly Space[]
}

/** A pool that comes and goes. */
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
  /** Checks that were made again: their connection ended, the server lived. */
  lost: number
  created: number
  deleted: number
  /** Passes of retention that were asked for. */
  retentions: number
  /** Backups that said that they are done, and those whose end was not heard and that were whole or were none. */
  backups: number
  cutBackups: number
  /** Folders looked at as the kill left them: checked, and also replayed and read by others. */
  checked: number
  crossRead: number
  /** Kills right after the transaction of a merge's swap; rows that it moved and that were updated or deleted meanwhile. */
  swaps: number
  changedMeanwhile: number
}

export class World {
  readonly random: Random
  readonly pools: LoadPool[] = []
  readonly alive: ShortLived[] = []
  readonly gone: ShortLived[] = []
  /** A creation without an answer. */
  creating: string | undefined
  /** A deletion without an answer. */
  deleting: ShortLived | undefined
  /** Folders of backups without an answer. */
  readonly cutBackups: string[] = []
  readonly tally: Tally = {
    requests: 0,
    unknown: 0,
    lost: 0,
    created: 0,
    deleted: 0,
    retentions: 0,
    backups: 0,
    cutBackups: 0,
    checked: 0,
    crossRead: 0,
    swaps: 0,
    changedMeanwhile: 0,
  }
  readonly #ids = new Set<string>()
  #mark = 0
  #name = 0

  constructor(seed: number) {
    this.random = randomFrom(seed)
  }

  get hasAllPools(): boolean {
    return this.pools.length === POOL_KINDS.length
  }

  /** Makes the pools under load, on the first start; a server that dies meanwhile leaves the rest to the next one. */
  async createPools(server: Pick<TestServer, 'createPool'>): Promise<void> {
    const names = [...Array.from({ length: CLIENTS }, (_, i) => `c${i}`), SHARED]
    for (const kind of POOL_KINDS.slice(this.pools.length)) {
      const made = await server.createPool(kind.spec)
      this.takeIds(made)
      const spaces = names.map(name => new Space(name))
      this.pools.push({ kind, poolId: made.poolId, path: new URL(made.url).pathname, spaces })
    }
  }

  /** A mark that no row had before; the random part keeps sums of different rows apart. */
  nextMark(): number {
    this.#mark += 1
    return this.#mark * 1_000_000 + below(this.random, 1_000_000)
  }

  nextName(): string {
    this.#name += 1
    return `short-${this.#name}`
  }

  /** Ids are never given twice. */
  takeIds({ poolId, sourceId, url }: TestPool): void {
    for (const id of [poolId, sourceId, new URL(url).pathname]) {
      if (this.#ids.has(id)) throw new Violation(`the id ${id} was given twice`)
      this.#ids.add(id)
    }
  }

  born(name: string, made: TestPool): ShortLived {
    this.takeIds(made)
    const { poolId, sourceId } = made
    const one = { name, poolId, sourceId, path: new URL(made.url).pathname, space: new Space('a') }
    this.alive.push(one)
    return one
  }

  died(one: ShortLived): void {
    this.alive.splice(this.alive.indexOf(one), 1)
    this.gone.push(one)
    this.deleting = undefined
  }
}

/** One counter of a document. */
function counterField(alias: string, poolId: string, isSum: boolean, space?: Space): string {
  const pool = `dataPool: {id: "${poolId}"}`
  const metric = isSum ? `{sum: {${pool}, measure: {columnName: "mark"}}}` : `{count: {${pool}}}`
  const filters =
    space === undefined ? '' : `, filters: [{column: "client", operator: EQUALS, value: "${space.name}"}]`
  return `${alias}: counter(input: {metric: ${metric}${filters}}) { value }`
}

/** All rows of a pool. Throws ConnectionLost, Violation. */
export async function askCount(base: string, token: string, poolId: string): Promise<bigint> {
  return (await askCounters(base, token, [counterField('count', poolId, false)]))('count')
}

/** The sum of a space's marks as the server answers it. Throws ConnectionLost; Violation for an error. */
export async function askSum(base: string, token: string, poolId: string, space: Space): Promise<bigint> {
  return (await askCounters(base, token, [counterField('sum', poolId, true, space)]))('sum')
}

/** What the spaces of all pools under load may sum to now. */
export function spacesNow(world: World): SpaceNow[] {
  return world.pools.flatMap(({ poolId, spaces }) =>
    spaces.map(space => ({ poolId, space, sums: space.candidates() })),
  )
}

export interface SpaceNow {
  readonly poolId: string
  readonly space: Space
  readonly sums: readonly bigint[]
}

/** Pools that are there for certain, with all spaces that were ever written to. */
export function poolsNow(world: World): { readonly poolId: string; readonly spaces: readonly Space[] }[] {
  const living = world.alive.filter(one => one !== world.deleting)
  return [...world.pools, ...living.map(({ poolId, space }) => ({ poolId, spaces: [space] }))]
}

/** Compares a server with what `spacesNow` once said. Throws Violation, ConnectionLost. */
export async function verifySpaces(now: readonly SpaceNow[], base: string, token: string): Promise<void> {
  const fields = now.map(({ poolId, space }, i) => counterField(`s${i}`, poolId, true, space))
  const value = await askCounters(base, token, fields)
  const wrong = now.flatMap(({ poolId, space, sums }, i) => {
    const found = value(`s${i}`)
    return sums.includes(found)
      ? []
      : [`pool ${poolId}: marks of ${space.name} sum to ${found}, not ${sums[0]} or ${sums[1]}`]
  })
  if (wrong.length > 0) throw new Violation(wrong.join('\n'))
}

/** All rows of a pool, and each space's sum of marks, in one document. */
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

/** Every space and every pool's number of rows against the server. Throws Violation, ConnectionLost. */
export async function verifyRows(world: World, base: string, token: string): Promise<void> {
  const pools = poolsNow(world)
  const fields = pools.flatMap(({ poolId, spaces }, p) => [
    counterField(`p${p}`, poolId, false),
    ...spaces.map((space, s) => counterField(`p${p}s${s}`, poolId, true, space)),
  ])
  const value = await askCounters(base, token, fields)
  const wrong: string[] = []
  for (const [p, { poolId, spaces }] of pools.entries()) {
    for (const [s, space] of spaces.entries()) {
      const fault = space.judge(value(`p${p}s${s}`))
      if (fault !== undefined)
        wrong.push(`pool ${poolId}: ${fault}${await explain(base, token, poolId, space)}`)
    }
    const rows = spaces.reduce((sum, space) => sum + space.rows, 0)
    const old = spaces.reduce((sum, space) => sum + space.old.rowsMax, 0)
    const found = value(`p${p}`)
    if (found < BigInt(rows) || found > BigInt(rows + old))
      wrong.push(`pool ${poolId} has ${found} rows, not ${rows}${old > 0 ? ` to ${rows + old}` : ''}`)
    if (found === BigInt(rows)) for (const space of spaces) space.old.noneLeft()
  }
  if (wrong.length > 0) throw new Violation(wrong.join('\n'))
}

/** Which rows are not as the last candidate state says; by their marks. */
async function explain(base: string, token: string, poolId: string, space: Space): Promise<string> {
  const rows = space.entries()
  const lines: string[] = []
  for (let from = 0; from < rows.length; from += 200) {
    const part = rows.slice(from, from + 200)
    const fields = part.map(
      ([, mark], i) =>
        `r${i}: counter(input: {metric: {count: {dataPool: {id: "${poolId}"}}}, filters: [{column: "mark", operator: EQUALS, value: "${mark}"}]}) { value }`,
    )
    const value = await askCounters(base, token, fields).catch(() => undefined)
    for (const [i, [key, mark]] of part.entries()) {
      const found = value?.(`r${i}`)
      if (found !== 1n) lines.push(`\n  key ${key}, mark ${mark}: ${found} rows`)
    }
  }
  return lines.slice(0, 20).join('')
}

const FIND = `query ($name: String!) { dataPoolByName(uniqueName: $name) { id dataSource {
  id connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } } }`
const FIND_SOURCE = 'query ($name: String!) { dataSourceByName(uniqueName: $name) { id } }'
const FIND_ID = 'query ($id: ID!) { dataPool(id: $id) { id } }'

/** The pool by its name, undefined where neither it nor its source is there. Throws Violation for half of it. */
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

/** Is the pool there? Throws ConnectionLost, or Violation for another error than NOT_FOUND. */
export async function poolIsThere(base: string, token: string, poolId: string): Promise<boolean> {
  const answer = await ask(base, token, FIND_ID, { id: poolId })
  if (answer.errors === undefined) return true
  mustBeMissing(answer, `pool ${poolId}`)
  return false
}

function mustBeMissing(answer: GraphqlAnswer, what: string): void {
  const code = answer.errors?.[0]?.extensions?.code
  if (code !== 'NOT_FOUND') throw new Violation(`${what}: expected NOT_FOUND, got ${JSON.stringify(answer)}`)
}
