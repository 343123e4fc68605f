/**
 * Changes of the catalog as lines of text: random ones, pairs that meet in one object, and the run
 * of one on a real catalog. catalog-model.ts says what each must do.
 */
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Decide } from '../../src/catalog/change/change.ts'
import { createAddColumnJob, startAddColumn } from '../../src/catalog/change/change-add-column.ts'
import {
  createApplication,
  deleteApplication,
  modifyApplication,
  modifyEnvironment,
  rotateSecret,
  rotateSigningKey,
} from '../../src/catalog/change/change-application.ts'
import { succeedJob } from '../../src/catalog/change/change-job.ts'
import {
  createMetric,
  deleteMetric,
  migrateMetric,
  modifyMetric,
} from '../../src/catalog/change/change-metric.ts'
import {
  assignPolicy,
  createPolicy,
  deletePolicy,
  modifyPolicy,
  unassignPolicy,
} from '../../src/catalog/change/change-policy.ts'
import { createPool, deletePool, modifyPool } from '../../src/catalog/change/change-pool.ts'
import {
  createSource,
  createWebhookSource,
  deleteSource,
  modifySource,
} from '../../src/catalog/change/change-source.ts'
import type { BadRequest, IdOrName } from '../../src/catalog/documents/catalog-types.ts'
import { must } from '../../src/util/errors.ts'
import type { Model } from './catalog-model.ts'

export type Operation = readonly [kind: string, ...args: readonly string[]]
/**
 * null for an object that is not there, 'refused', or what was changed or made: its id, and a
 * second text that the model cannot know, which is the pool of a new webhook or a new secret.
 */
export type Outcome = null | 'refused' | readonly [id: string, unknown: string]

const KINDS = [
  'webhook',
  'http',
  's3',
  'rename-source',
  'delete-source',
  'pool',
  'modify-pool',
  'delete-pool',
  'metric',
  'modify-metric',
  'migrate-metric',
  'delete-metric',
  'policy',
  'modify-policy',
  'delete-policy',
  'assign',
  'assign',
  'unassign',
  'application',
  'modify-application',
  'rotate-secret',
  'delete-application',
  'add-column',
  'add-column',
  'start-job',
  'start-job',
  'succeed-job',
  'environment',
  'rotate-key',
]

/** Two clients make these changes at once, of the same objects. */
export const PAIRS: readonly (readonly [kind: string, kind: string])[] = [
  ['webhook', 'webhook'],
  ['webhook', 'pool'],
  ['rename-source', 'rename-source'],
  ['rename-source', 'modify-pool'],
  ['rename-source', 'delete-source'],
  ['delete-source', 'delete-source'],
  ['delete-source', 'pool'],
  ['delete-source', 'delete-pool'],
  ['modify-pool', 'modify-pool'],
  ['modify-pool', 'delete-pool'],
  ['delete-pool', 'metric'],
  ['delete-pool', 'policy'],
  ['delete-pool', 'migrate-metric'],
  ['delete-pool', 'add-column'],
  ['delete-pool', 'start-job'],
  ['delete-pool', 'succeed-job'],
  ['add-column', 'add-column'],
  ['add-column', 'modify-pool'],
  ['start-job', 'add-column'],
  ['start-job', 'start-job'],
  ['start-job', 'modify-pool'],
  ['start-job', 'succeed-job'],
  ['modify-metric', 'modify-metric'],
  ['modify-metric', 'migrate-metric'],
  ['modify-metric', 'delete-metric'],
  ['modify-policy', 'modify-policy'],
  ['modify-policy', 'assign'],
  ['modify-policy', 'delete-policy'],
  ['assign', 'assign'],
  ['assign', 'unassign'],
  ['assign', 'delete-policy'],
  ['assign', 'delete-application'],
  ['application', 'application'],
  ['modify-application', 'modify-application'],
  ['modify-application', 'rotate-secret'],
  ['modify-application', 'delete-application'],
  ['rotate-secret', 'rotate-secret'],
  ['rotate-secret', 'delete-application'],
  ['environment', 'environment'],
  ['rotate-key', 'rotate-key'],
]

/** Few names, so that they collide. The last one is an id of another server. */
const NAMES = ['', 'a', 'b', 'c', 'd', 'MET06A68AAFD9SQZ8NC43JGKBGQMC']
const PROPELLERS = ['P1_SMALL', 'P1_LARGE'] as const
/** The columns of every pool. */
export const COLUMNS = ['one', 'two', 'three']
/** Columns to add. Some are there already, and "a" is "A". */
const ADDED = ['One', 'a', 'A', 'b', 'c', 'd', 'e']
/** The last one is none. */
const TYPES = ['STRING', 'INT64', 'TIMESTAMP', 'NUMBER']
/** Stands for the one id that only the catalog knows. */
const ENVIRONMENT = 'ENVours'
const GONE = 'gone'

/** The objects that operations are about: one of each kind. */
interface Subjects {
  readonly source: string
  readonly pool: string
  readonly metric: string
  readonly policy: string
  readonly application: string
  readonly job: string | undefined
}

/** A random change. Some name objects that are not there, or give a unique name for an id. */
export function randomOperation(model: Model, random: () => number): Operation {
  const some = (map: ReadonlyMap<string, { readonly name: string }>) => {
    const [id, { name }] = pick([...map], random) ?? [GONE, { name: GONE }]
    return random() < 0.05 ? GONE : random() < 0.2 ? name : id
  }
  const subjects = {
    source: some(model.sources),
    pool: some(model.pools),
    metric: some(model.metrics),
    policy: some(model.policies),
    application: some(model.applications),
    job: pick([...model.jobs.keys()], random),
  }
  return operationOn(must(pick(KINDS, random), 'a kind'), subjects, model, random)
}

/** Two changes of the same objects: a pool, with its source, and what belongs to it. */
export function randomPair(
  [first, second]: readonly [string, string],
  model: Model,
  random: () => number,
): readonly [Operation, Operation] {
  const of = (map: ReadonlyMap<string, { readonly pool: string }>, pool: string) =>
    pick(
      [...map.keys()].filter(id => map.get(id)?.pool === pool),
      random,
    )
  const needsJob = `${first} ${second}`.includes('-job')
  const jobs = [...model.jobs].filter(([, { status }]) => status === 'CREATED' || status === 'IN_PROGRESS')
  const job = needsJob ? pick(jobs, random) : undefined
  const pool = job?.[1].pool ?? pick([...model.pools.keys()], random) ?? GONE
  const subjects = {
    source: model.pools.get(pool)?.source || (pick([...model.sources.keys()], random) ?? GONE),
    pool,
    metric: of(model.metrics, pool) ?? pick([...model.metrics.keys()], random) ?? GONE,
    policy: of(model.policies, pool) ?? pick([...model.policies.keys()], random) ?? GONE,
    application: pick([...model.applications.keys()], random) ?? GONE,
    job: job?.[0] ?? pick([...model.jobs.keys()], random),
  }
  return [operationOn(first, subjects, model, random), operationOn(second, subjects, model, random)]
}

function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)]
}

/** A change of these objects, with random names and values. Deletions name some by unique name. */
function operationOn(
  kind: string,
  { source, pool, metric, policy, application, job }: Subjects,
  model: Model,
  random: () => number,
): Operation {
  const from = <T>(items: readonly T[]): T => must(pick(items, random), 'an item')
  const taken = [source, pool, metric, policy, application]
  const name = random() < 0.05 ? from(taken) : from(NAMES)
  const number = String(Math.floor(random() * 4))
  const byIdOrName = (id: string, map: ReadonlyMap<string, { readonly name: string }>) => {
    const named = map.get(id)?.name
    return named === undefined || random() < 0.5 ? [id] : ['', named]
  }
  // A job is there as long as it has not ended, and only its own runner changes it.
  if (kind.endsWith('-job') && job === undefined) return ['add-column', pool, from(ADDED), from(TYPES)]
  const sequence = String(Math.floor(random() * 1e6))
  const arguments_: Readonly<Record<string, readonly string[]>> = {
    webhook: [name],
    http: [name],
    s3: [name],
    'rename-source': [source, name],
    'delete-source': byIdOrName(source, model.sources),
    pool: [name, random() < 0.5 ? '' : source],
    'modify-pool': [pool, name, number],
    'delete-pool': byIdOrName(pool, model.pools),
    metric: [pool, name, number],
    'modify-metric': [metric, name, number],
    'migrate-metric': [metric, pool],
    'delete-metric': byIdOrName(metric, model.metrics),
    policy: [pool, name],
    'modify-policy': [policy, name],
    'delete-policy': [policy],
    assign: [policy, application],
    unassign: [policy, application],
    application: [name, from(PROPELLERS)],
    'modify-application': [application, name, from(PROPELLERS)],
    'rotate-secret': byIdOrName(application, model.applications),
    'delete-application': byIdOrName(application, model.applications),
    'add-column': [pool, from(ADDED), from(TYPES)],
    'start-job': [job ?? '', sequence],
    'succeed-job': [job ?? ''],
    environment: [random() < 0.1 ? GONE : ENVIRONMENT, name, number],
    'rotate-key': [random() < 0.3 ? 'end-tokens' : ''],
  }
  return [kind, ...must(arguments_[kind], kind)]
}

const BY = 'tester'
const columns = COLUMNS.map(name => ({ name, jsonProperty: name, type: 'INT64', nullable: true }))

type Result = null | string | BadRequest | { readonly id: string; readonly secret?: string }

/** Runs a change on the real catalog. */
export async function runOperation(catalog: Catalog, operation: Operation): Promise<Outcome> {
  const [kind, a = '', b = ''] = operation
  if (kind === 'webhook') {
    const made = await catalog.change(createWebhookSource({ uniqueName: a, columns }, BY))
    return 'badRequest' in made ? 'refused' : [made.source.id, made.pool.id]
  }
  if (kind === 'rotate-key') {
    const made = await catalog.change(rotateSigningKey(a !== ''))
    return 'badRequest' in made ? 'refused' : [made.kid, '']
  }
  const which = a === '' ? { uniqueName: b } : { id: a }
  const result = (await catalog.change(decisionOf(operation, which, catalog))) as Result
  if (result === null) return null
  if (typeof result === 'string') return [result, '']
  return 'badRequest' in result ? 'refused' : [result.id, result.secret ?? '']
}

function decisionOf(
  [kind, a = '', b = '', c = '']: Operation,
  which: IdOrName,
  catalog: Catalog,
): Decide<unknown> {
  const dimensions = COLUMNS.slice(0, Number(c))
  switch (kind) {
    case 'http':
      return createSource('Http', { uniqueName: a }, BY)
    case 's3':
      return createSource('S3', { uniqueName: a, settings: { bucket: 'x' } }, BY)
    case 'rename-source':
      return modifySource(catalog.read.sources.find(a)?.kind ?? 'Http', { id: a }, { uniqueName: b }, BY)
    case 'delete-source':
      return deleteSource(which)
    case 'pool':
      return createPool({ uniqueName: a, dataSource: b, columns }, BY)
    case 'modify-pool':
      return modifyPool({ id: a }, { uniqueName: b, dataRetentionInDays: Number(c) }, BY)
    case 'delete-pool':
      return deletePool(which)
    case 'metric':
      return createMetric({ poolId: a, uniqueName: b, type: 'SUM', column: 'one', dimensions }, BY)
    case 'modify-metric':
      return modifyMetric({ id: a }, { uniqueName: b, dimensions }, BY)
    case 'migrate-metric':
      return migrateMetric(a, b, BY)
    case 'delete-metric':
      return deleteMetric(which)
    case 'policy':
      return createPolicy({ poolId: a, uniqueName: b, columns: ['*'] }, BY)
    case 'modify-policy':
      return modifyPolicy({ id: a }, { uniqueName: b }, BY)
    case 'delete-policy':
      return deletePolicy({ id: a })
    case 'assign':
      return assignPolicy(a, b, BY)
    case 'unassign':
      return unassignPolicy(a, b, BY)
    case 'application':
      return createApplication({ uniqueName: a, propeller: b as 'P1_SMALL' }, BY)
    case 'modify-application':
      return modifyApplication({ id: a }, { uniqueName: b, propeller: c as 'P1_SMALL' }, BY)
    case 'rotate-secret':
      return rotateSecret(which, BY)
    case 'delete-application':
      return deleteApplication(which, BY)
    case 'add-column':
      return createAddColumnJob({ dataPool: a, columnName: b, columnType: c, jsonProperty: 'p' }, BY)
    case 'start-job':
      return startAddColumn(a, Number(b))
    case 'succeed-job':
      return succeedJob(a)
    case 'environment': {
      const id = a === ENVIRONMENT ? catalog.read.meta().environmentId : a
      return modifyEnvironment(id, { uniqueName: b, description: c }, BY)
    }
    default:
      throw new Error(`there is no change ${kind}`)
  }
}
