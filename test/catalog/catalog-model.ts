/**
 * A plain model of the catalog, and its comparison with a real one. The model knows names,
 * relations and states, and which changes must be refused.
 */
import { deepStrictEqual } from 'node:assert'
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { AddColumnJob, Job as AnyJob } from '../../src/catalog/documents/model.ts'
import { must } from '../../src/util/errors.ts'
import { COLUMNS, type Operation, type Outcome } from './catalog-operations.ts'

interface Source {
  name: string
  kind: string
  status: string
}
interface Pool {
  name: string
  source: string
  days: number
  /** Columns that jobs added, in order. */
  added: string[]
}
interface Metric {
  name: string
  pool: string
  dimensions: number
}
interface Policy {
  name: string
  pool: string
  applications: string[]
}

interface Application {
  name: string
  propeller: string
  secret: string
}
interface Job {
  pool: string
  column: string
  status: string
  progress: number
  sequence: number | null
}

/** Objects by id. The first application and the pool `events` are not in it. */
export interface Model {
  sources: Map<string, Source>
  pools: Map<string, Pool>
  metrics: Map<string, Metric>
  policies: Map<string, Policy>
  applications: Map<string, Application>
  jobs: Map<string, Job>
  environment: { name: string; description: string }
  /** The newest first. FIRST_KEY stands for that of the new folder. */
  signingKeys: string[]
}

const FIRST_KEY = 'first'
/** SIGNING_KEYS_MAX of limits.ts. No test lasts until a key's tokens have expired. */
const KEYS_MAX = 16

export function emptyModel(): Model {
  return {
    sources: new Map(),
    pools: new Map(),
    metrics: new Map(),
    policies: new Map(),
    applications: new Map(),
    jobs: new Map(),
    environment: { name: '', description: '' },
    signingKeys: [FIRST_KEY],
  }
}

/** The arguments of each kind of operation that are ids, or unique names in the place of ids. */
const IDS: Readonly<Record<string, readonly (Exclude<keyof Model, 'environment' | 'signingKeys'> | null)[]>> =
  {
    'rename-source': ['sources'],
    'delete-source': ['sources'],
    pool: [null, 'sources'],
    'modify-pool': ['pools'],
    'delete-pool': ['pools'],
    metric: ['pools'],
    'modify-metric': ['metrics'],
    'migrate-metric': ['metrics', 'pools'],
    'delete-metric': ['metrics'],
    policy: ['pools'],
    'modify-policy': ['policies'],
    'delete-policy': ['policies'],
    assign: ['policies', 'applications'],
    unassign: ['policies', 'applications'],
    'modify-application': ['applications'],
    'rotate-secret': ['applications'],
    'delete-application': ['applications'],
    'add-column': ['pools'],
  }

/** The operation with ids: an id that no object has may be the unique name of one. */
export function withIds(model: Model, [kind, ...args]: Operation): Operation {
  const ids = args.map((arg, index) => {
    const of = IDS[kind]?.[index] ?? null
    if (of === null || of === 'jobs' || arg === '' || model[of].has(arg)) return arg
    return named(model[of], '', arg) ?? arg
  })
  return [kind, ...ids]
}

/** Throws where `outcome` is not what the model expects; else applies the change to the model. */
export function applyToModel(model: Model, given: Operation, outcome: Outcome): void {
  const operation = withIds(model, given)
  const expected = expectedOutcome(model, operation)
  const seen = outcome === null || outcome === 'refused' ? outcome : 'done'
  deepStrictEqual(seen, expected, `outcome of ${operation.join(' ')}`)
  if (outcome !== null && outcome !== 'refused') change(model, operation, outcome)
}

/** The object that an operation names by its id, or by its name where the id is "". */
function named(map: ReadonlyMap<string, { name: string }>, id: string, name: string): string | undefined {
  if (id !== '') return map.has(id) ? id : undefined
  return [...map].find(([, object]) => object.name === name)?.[0]
}

function isTaken(map: ReadonlyMap<string, { name: string }>, name: string, own?: string): boolean {
  return [...map].some(([id, object]) => (object.name === name || id === name) && id !== own)
}

function expectedOutcome(model: Model, [kind, a = '', b = '', c = '']: Operation): 'done' | 'refused' | null {
  const { sources, pools, metrics, policies, applications } = model
  const refusedIf = (isRefused: boolean) => (isRefused ? 'refused' : 'done')
  const doneIf = (isThere: boolean) => (isThere ? 'done' : null)
  switch (kind) {
    case 'webhook':
      return refusedIf(a !== '' && (isTaken(sources, a) || isTaken(pools, a)))
    case 'http':
    case 's3':
      return refusedIf(a !== '' && isTaken(sources, a))
    case 'rename-source': {
      const source = sources.get(a)
      if (source === undefined) return null
      if (b === '' || b === source.name) return 'done'
      const own = [...pools].find(([, pool]) => pool.source === a)
      const isPaired = source.kind === 'webhook' && own?.[1].name === source.name
      return refusedIf(isTaken(sources, b, a) || (isPaired && isTaken(pools, b, own?.[0])))
    }
    case 'delete-source':
      return doneIf(named(sources, a, b) !== undefined)
    case 'pool': {
      const source = b === '' ? 'http' : sources.get(b)?.kind
      return source === undefined ? null : refusedIf(source !== 'http' || (a !== '' && isTaken(pools, a)))
    }
    case 'modify-pool': {
      const pool = pools.get(a)
      if (pool === undefined) return null
      const source = sources.get(pool.source)
      if (b === '' || b === pool.name) return 'done'
      const isWebhook = source?.kind === 'webhook'
      return refusedIf(isTaken(pools, b, a) || (isWebhook && isTaken(sources, b, pool.source)))
    }
    case 'delete-pool':
      return doneIf(named(pools, a, b) !== undefined)
    case 'metric':
      return pools.has(a) ? refusedIf(b !== '' && isTaken(metrics, b)) : null
    case 'modify-metric':
      return metrics.has(a) ? refusedIf(b !== '' && isTaken(metrics, b, a)) : null
    case 'migrate-metric':
      return doneIf(metrics.has(a) && pools.has(b))
    case 'delete-metric':
      return doneIf(named(metrics, a, b) !== undefined)
    case 'policy':
      return pools.has(a) ? refusedIf(b !== '' && isTaken(policies, b)) : null
    case 'modify-policy':
      return policies.has(a) ? refusedIf(b !== '' && isTaken(policies, b, a)) : null
    case 'delete-policy':
      return doneIf(policies.has(a))
    case 'assign':
      return doneIf(policies.has(a) && applications.has(b))
    case 'unassign':
      return doneIf(policies.get(a)?.applications.includes(b) === true)
    case 'application':
      return refusedIf(a !== '' && isTaken(applications, a))
    case 'modify-application':
      return applications.has(a) ? refusedIf(b !== '' && isTaken(applications, b, a)) : null
    case 'rotate-secret':
    case 'delete-application':
      return doneIf(named(applications, a, b) !== undefined)
    case 'add-column':
      return pools.has(a) ? refusedIf(c === 'NUMBER' || isColumn(model, a, b)) : null
    case 'start-job':
    case 'succeed-job':
      return 'done'
    case 'environment':
      return doneIf(a !== 'gone' || model.environment.name === a)
    case 'rotate-key':
      return refusedIf(a === '' && model.signingKeys.length >= KEYS_MAX)
    default:
      throw new Error(`the model knows no ${kind}`)
  }
}

/** True where the pool has a column of this name, or gets one from a job that has not begun. */
function isColumn({ pools, jobs }: Model, pool: string, column: string): boolean {
  const awaited = [...jobs.values()].filter(job => job.pool === pool && job.status === 'CREATED')
  const names = [...COLUMNS, ...(pools.get(pool)?.added ?? []), ...awaited.map(job => job.column)]
  return names.some(name => name.toLowerCase() === column.toLowerCase())
}

function change(
  model: Model,
  [kind, a = '', b = '', c = '']: Operation,
  [id, unknown]: readonly [id: string, unknown: string],
): void {
  const { sources, pools, metrics, policies, applications } = model
  const rename = (object: { name: string }, name: string) => {
    if (name !== '') object.name = name
  }
  switch (kind) {
    case 'webhook':
      pools.set(unknown, { name: a || id, source: id, days: 0, added: [] })
      sources.set(id, { name: a || id, kind, status: 'CONNECTED' })
      return
    case 'http':
    case 's3':
      sources.set(id, { name: a || id, kind, status: kind === 'http' ? 'CONNECTED' : 'BROKEN' })
      return
    case 'rename-source': {
      const source = sources.get(a)!
      for (const pool of pools.values())
        if (source.kind === 'webhook' && pool.source === a && pool.name === source.name) rename(pool, b)
      rename(source, b)
      return
    }
    case 'delete-source':
      deepStrictEqual(id, named(sources, a, b))
      for (const [pool, { source }] of pools) if (source === id) deletePoolOf(model, pool)
      sources.delete(id)
      return
    case 'pool':
      pools.set(id, { name: a || id, source: b, days: 0, added: [] })
      return
    case 'modify-pool':
      rename(pools.get(a)!, b)
      pools.get(a)!.days = Number(c)
      return
    case 'delete-pool':
      deepStrictEqual(id, named(pools, a, b))
      if (sources.get(pools.get(id)!.source)?.kind === 'webhook') sources.delete(pools.get(id)!.source)
      deletePoolOf(model, id)
      return
    case 'metric':
      metrics.set(id, { name: b || id, pool: a, dimensions: Number(c) })
      return
    case 'modify-metric':
      rename(metrics.get(a)!, b)
      metrics.get(a)!.dimensions = Number(c)
      return
    case 'migrate-metric':
      metrics.get(a)!.pool = b
      return
    case 'delete-metric':
      deepStrictEqual(id, named(metrics, a, b))
      metrics.delete(id)
      return
    case 'policy':
      policies.set(id, { name: b || id, pool: a, applications: [] })
      return
    case 'modify-policy':
      rename(policies.get(a)!, b)
      return
    case 'delete-policy':
      policies.delete(a)
      return
    case 'assign': {
      const policy = policies.get(a)!
      if (policy.applications.includes(b)) return
      for (const each of policies.values())
        if (each.pool === policy.pool) each.applications = each.applications.filter(one => one !== b)
      policy.applications.push(b)
      return
    }
    case 'unassign':
      policies.get(a)!.applications = policies.get(a)!.applications.filter(one => one !== b)
      return
    case 'application':
      applications.set(id, { name: a || id, propeller: b, secret: unknown })
      return
    case 'modify-application':
      rename(applications.get(a)!, b)
      applications.get(a)!.propeller = c
      return
    case 'rotate-secret':
      deepStrictEqual(id, named(applications, a, b))
      deepStrictEqual(applications.get(id)!.secret === unknown, false, 'the secret is a new one')
      applications.get(id)!.secret = unknown
      return
    case 'delete-application':
      deepStrictEqual(id, named(applications, a, b))
      applications.delete(id)
      for (const each of policies.values()) each.applications = each.applications.filter(one => one !== id)
      return
    case 'environment':
      if (b !== '') model.environment.name = b
      model.environment.description = c
      return
    case 'rotate-key':
      model.signingKeys = [id, ...(a === '' ? model.signingKeys : [])]
      return
    default:
      changeJob(model, [kind, a, b], id)
  }
}

function changeJob({ jobs, pools }: Model, [kind, a = '', b = '']: Operation, id: string): void {
  if (kind === 'add-column') {
    jobs.set(id, { pool: a, column: b, status: 'CREATED', progress: 0, sequence: null })
    return
  }
  const job = jobs.get(a)!
  if (job.status !== (kind === 'start-job' ? 'CREATED' : 'IN_PROGRESS')) return
  const pool = pools.get(job.pool)
  if (pool === undefined) job.status = 'FAILED'
  else if (kind === 'start-job') {
    pool.added.push(job.column)
    Object.assign(job, { status: 'IN_PROGRESS', progress: 0.5, sequence: Number(b) })
  } else Object.assign(job, { status: 'SUCCEEDED', progress: 1 })
}

function deletePoolOf({ pools, metrics, policies }: Model, pool: string): void {
  pools.delete(pool)
  for (const map of [metrics, policies])
    for (const [id, object] of map) if (object.pool === pool) map.delete(id)
}

const SOURCE_KIND: Readonly<Record<string, string>> = { WEBHOOK: 'webhook', Http: 'http', S3: 's3' }

/** The catalog as a model, without what every new folder has. */
export function modelOf(catalog: Catalog, ours: ReadonlySet<string>): Model {
  const { sources, pools, metrics, policies, applications, jobs } = catalog.read
  const kinds = new Map(sources.all().map(source => [source.id, source.kind]))
  const environment = catalog.read.environment()
  return {
    sources: byId(
      sources.all().filter(({ id, kind }) => !ours.has(id) && kind !== 'INTERNAL'),
      ({ uniqueName: name, kind, status }) => ({ name, kind: SOURCE_KIND[kind] ?? kind, status }),
    ),
    pools: byId(
      pools.all().filter(({ id }) => !ours.has(id)),
      ({ uniqueName: name, dataSourceId, retentionDays: days, columns }) => ({
        name,
        source: kinds.get(dataSourceId) === 'INTERNAL' ? '' : dataSourceId,
        days,
        added: columns.slice(COLUMNS.length).map(column => column.name),
      }),
    ),
    metrics: byId(metrics.all(), ({ uniqueName: name, poolId: pool, dimensions }) => ({
      name,
      pool,
      dimensions: dimensions.length,
    })),
    policies: byId(policies.all(), ({ uniqueName: name, poolId: pool, applicationIds }) => ({
      name,
      pool,
      applications: [...applicationIds],
    })),
    applications: byId(
      applications.all().filter(({ id }) => !ours.has(id)),
      ({ uniqueName: name, propeller, secret }) => ({ name, propeller, secret }),
    ),
    jobs: byId(additions(jobs.all()), ({ poolId: pool, input, status, progress, cutOverSequence }) => ({
      pool,
      column: input.columnName,
      status,
      progress,
      sequence: cutOverSequence,
    })),
    environment: {
      name: environment.uniqueName === environment.id ? '' : environment.uniqueName,
      description: environment.description,
    },
    signingKeys: catalog.signingKeys().map(({ kid }) => (ours.has(kid) ? FIRST_KEY : kid)),
  }
}

function byId<T extends { readonly id: string }, M>(
  documents: readonly T[],
  shown: (document: T) => M,
): Map<string, M> {
  return new Map(documents.map(document => [document.id, shown(document)]))
}

/** Throws where the catalog differs from the model, or where its documents disagree. */
export function checkModel(catalog: Catalog, model: Model, ours: ReadonlySet<string>): void {
  deepStrictEqual(modelOf(catalog, ours), model)
  const { pools, metrics, policies, jobs } = catalog.read
  for (const pool of pools.all()) {
    deepStrictEqual(
      metrics.of(pool.id),
      metrics.all().filter(({ poolId }) => poolId === pool.id),
    )
    for (const policy of policies.of(pool.id))
      for (const application of policy.applicationIds)
        deepStrictEqual(catalog.read.policyOf(pool.id, application), policy)
    // Log records name each version of a pool's columns: all of them stay.
    const first = pool.columns.length - pool.planVersion + 1
    for (let version = 1; version <= pool.planVersion; version++)
      deepStrictEqual(
        must(catalog.schema(pool.number, version), 'a schema').columns.map(({ name }) => name),
        pool.columns.slice(0, first + version - 1).map(({ name }) => name),
      )
  }
  for (const { id } of [...catalog.read.applications.all(), { id: 'APPgone' }])
    deepStrictEqual(
      catalog.read.policiesOf(id),
      policies.all().filter(({ applicationIds }) => applicationIds.includes(id)),
    )
  for (const job of additions(jobs.all())) {
    const { status, startedAt, succeededAt, failedAt, error, cutOverSequence } = job
    deepStrictEqual(startedAt !== null, cutOverSequence !== null)
    deepStrictEqual(succeededAt !== null, status === 'SUCCEEDED')
    deepStrictEqual([failedAt !== null, error !== null], Array(2).fill(status === 'FAILED'))
  }
}

/** The ids that a new folder begins with. */
export function idsAtStart(catalog: Catalog): ReadonlySet<string> {
  const { sources, pools, applications } = catalog.read
  const objects = [...sources.all(), ...pools.all(), ...applications.all()]
  return new Set([...objects.map(({ id }) => id), ...catalog.signingKeys().map(({ kid }) => kid)])
}

/** A copy that changes leave alone. */
export function copyOf(model: Model): Model {
  return structuredClone(model)
}

function additions(jobs: readonly AnyJob[]): readonly AddColumnJob[] {
  return jobs.filter((job): job is AddColumnJob => job.kind === 'ADD_COLUMN')
}
