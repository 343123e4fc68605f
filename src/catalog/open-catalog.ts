/**
 * Opens the catalog: starts its thread, loads the documents into memory, makes the documents of a
 * new data folder, and writes data/admin.json.
 *
 * A new data folder gets, in one transaction, its identity, the signing key, the first application
 * with all scopes, and the open pool `events`. Each folder gets the pool of rejected events, once.
 * A later start may replace the first application by the options. Options that were applied are not
 * applied again: a secret that was rotated since stays dead, and a deleted application stays
 * deleted.
 *
 * Webhook sources without a pool are removed: an earlier version deleted pools alone, and a client
 * may wait until their source is gone too.
 *
 * data/admin.json repeats the first application's id and secret. It is written after the
 * transaction, and written again when it does not match, so a crash between the two loses nothing.
 */

import { createHash, randomBytes } from 'node:crypto'
import { wallMs } from '../util/clock.ts'
import { type Disk, disk, readFile, replaceFile } from '../util/disk.ts'
import { CannotRun, Damaged } from '../util/errors.ts'
import { newId } from '../util/ids.ts'
import { CLIENT_SECRET_CHARACTERS_MIN } from '../util/limits.ts'
import type { Paths } from '../util/paths.ts'
import { errorText, printable, warn } from '../util/say.ts'
import { Catalog, type CatalogListener } from './catalog.ts'
import { type Decide, newCommon } from './change/change.ts'
import { newSecret } from './change/change-application.ts'
import { policiesWithout } from './change/change-policy.ts'
import { makeWebhookSource, sourcesWithoutPool } from './change/change-source.ts'
import type { Change } from './documents/catalog-types.ts'
import { keys, Memory } from './documents/memory.ts'
import { type Application, type Meta, PROPELLERS, SCOPES } from './documents/model.ts'

import { makeSigningKey } from './documents/signing-keys.ts'
import { openStoreClient, type StoreClient } from './lmdb/store-client.ts'
import { makeRejectedPool, otherRejectedName, REJECTED_EVENTS } from './rejected-pool.ts'

export interface CatalogOptions extends AdminGiven, CatalogListener {
  readonly paths: Paths
  readonly store?: Promise<StoreClient>
  /** The crash point that the catalog thread arms; '' for none. */
  readonly crashAt?: string | undefined
  readonly disk?: Disk
}

/** Where a catalog is, which a store has opened. */
interface OpenStore extends AdminGiven, CatalogListener {
  readonly store: StoreClient
  /** Named by errors. */
  readonly place: string
  /** data/admin.json; undefined where no folder keeps it. */
  readonly adminFile: string | undefined
  readonly disk?: Disk | undefined
}

export interface OpenedCatalog {
  readonly catalog: Catalog
  /** The first application; undefined where it was deleted. */
  readonly admin: Admin | undefined
  /** True where this start wrote data/admin.json: the id and secret are printed once. */
  readonly adminIsNew: boolean
  /** True where this start found no catalog and made one. */
  readonly isNewFolder: boolean
  /** Why the id and secret of the options are not those of the first application; one line. */
  readonly unapplied: string | undefined
  /** The unique names of the webhook sources without a pool that this start removed. */
  readonly removedSources: readonly string[]
  /** The name of the pool of rejected events where another pool or source has its usual name. */
  readonly rejectedEventsAre: string | undefined
}

/** Lines for the operator: what the start found. */
export function notesOfCatalog(opened: OpenedCatalog): string[] {
  const { admin, unapplied, removedSources, rejectedEventsAre } = opened
  const notes: string[] = []
  if ((admin?.clientSecret.length ?? CLIENT_SECRET_CHARACTERS_MIN) < CLIENT_SECRET_CHARACTERS_MIN)
    notes.push(
      `the secret of the first application has fewer than ${CLIENT_SECRET_CHARACTERS_MIN} characters: set WEIR_CLIENT_ID and a longer WEIR_CLIENT_SECRET`,
    )
  if (unapplied !== undefined) notes.push(unapplied)
  if (removedSources.length > 0)
    notes.push(
      `webhook sources whose Data Pool an earlier version had deleted are removed: ${removedSources.map(name => printable(name)).join(', ')}`,
    )
  if (rejectedEventsAre !== undefined)
    notes.push(
      `the Data Pool of rejected events is named ${printable(rejectedEventsAre)}: another Data Pool or Data Source has the name ${REJECTED_EVENTS}`,
    )
  return notes
}

/** Rejects with CannotRun, Damaged or Unavailable. */
export async function openCatalog(options: CatalogOptions): Promise<OpenedCatalog> {
  const { paths, crashAt = '' } = options
  const store = await (options.store ?? openStoreClient({ path: paths.catalog, crashAt }))
  return await openCatalogOf({ ...options, store, place: paths.catalog, adminFile: paths.admin })
}

/** The same for a store that is open. */
export async function openCatalogOf(options: OpenStore): Promise<OpenedCatalog> {
  const { store, place, adminFile } = options
  try {
    const memory = new Memory()
    memory.load(store.entries, place)
    const isNewFolder = memory.isEmpty()
    const removedSources = sourcesWithoutPool(memory).map(({ uniqueName }) => uniqueName)
    const catalog = new Catalog(memory, store, options)
    await catalog.change(now => ({ ...(startChange(now, options) ?? NO_CHANGE), result: null }))
    await catalog.change((now, ms) => ({ ...(makeRejectedPool(now, SYSTEM, ms) ?? NO_CHANGE), result: null }))
    const { admin, written } = writeAdmin(memory, adminFile, options.disk ?? disk)
    const unapplied = unappliedNote(memory, options)
    const rejectedEventsAre = otherRejectedName(memory)
    return { catalog, admin, adminIsNew: written, isNewFolder, unapplied, removedSources, rejectedEventsAre }
  } catch (error) {
    await store.stop()
    throw error
  }
}

const NO_CHANGE: Change = { puts: [], removes: [] }

const OPEN_POOL_NAME = 'events'
/** The creator of documents that no caller made. */
const SYSTEM = 'system'

export interface AdminGiven {
  readonly clientId?: string | undefined
  readonly clientSecret?: string | undefined
}

export interface Admin {
  readonly clientId: string
  readonly clientSecret: string
}

/** Throws CannotRun for an id or a secret that Weir does not accept. */
export function startChange(memory: Memory, given: AdminGiven): Change | undefined {
  const usable: AdminGiven = {
    clientId: checkOption(given.clientId),
    clientSecret: checkOption(given.clientSecret),
  }
  if (memory.isEmpty()) return newFolder(memory, usable)
  const { puts, removes } = replaceAdmin(memory, usable)
  const sources = sourcesWithoutPool(memory).map(({ id }) => keys.source(id))
  if (puts.length + sources.length === 0) return undefined
  return { puts, removes: [...removes, ...sources] }
}

function newFolder(memory: Memory, given: AdminGiven): Change {
  const now = wallMs()
  const admin = makeApplication(given.clientId ?? newId('APP', now), given.clientSecret ?? newSecret(), now)
  const meta: Meta = {
    format: 1,
    folderId: randomBytes(16).toString('hex'),
    accountId: newId('ACC', now),
    environmentId: newId('ENV', now),
    nextPoolNumber: 1,
    firstApplicationId: admin.id,
    openPoolMade: true,
    firstStepsDue: true,
    ...(isGiven(given) ? { givenDigest: digestOf(given) } : {}),
  }
  const signingKey = makeSigningKey([], now)
  const checked = { columns: [], timestamp: null, uniqueIdColumn: null, tenant: null, tableSettings: null }
  const pool = makeWebhookSource({ uniqueName: OPEN_POOL_NAME }, checked, memory, meta, SYSTEM, now)
  return {
    puts: [[keys.signingKey(signingKey.kid), signingKey], [keys.application(admin.id), admin], ...pool.puts],
    removes: [],
  }
}

/**
 * Replaces the id or the secret of the first application. Whatever is not given stays as it was,
 * its name and scopes too. Access policies name applications by id, so a new id has none.
 *
 * What the last start applied is not applied again: the environment still has a secret after its
 * rotation, and it may be the leaked one.
 */
function replaceAdmin(memory: Memory, given: AdminGiven): Change {
  const meta = memory.meta()
  const givenDigest = digestOf(given)
  if (!isGiven(given) || givenDigest === meta.givenDigest) return { puts: [], removes: [] }
  const old = memory.applications.get(meta.firstApplicationId)
  const id = given.clientId ?? meta.firstApplicationId
  const secret = given.clientSecret ?? old?.secret
  const applied: Meta = { ...meta, firstApplicationId: id, givenDigest }
  if (id === old?.id && secret === old.secret) return { puts: [[keys.meta, applied]], removes: [] }
  const holder = memory.applications.find(id)
  if (holder !== undefined && holder.id !== old?.id)
    throw new CannotRun(`the client id ${id} belongs to another application`)
  const now = wallMs()
  const made = makeApplication(id, secret ?? newSecret(), now)
  const uniqueName = old === undefined || old.uniqueName === old.id ? id : old.uniqueName
  const { secret: newest, modifiedAt, modifiedBy } = made
  const admin = old === undefined ? made : { ...old, id, uniqueName, secret: newest, modifiedAt, modifiedBy }
  const replaced = old !== undefined && old.id !== id ? old.id : undefined
  return {
    puts: [
      [keys.application(id), admin],
      [keys.meta, applied],
      ...(replaced === undefined ? [] : policiesWithout(memory, replaced, SYSTEM, now)),
    ],
    removes: replaced === undefined ? [] : [keys.application(replaced)],
  }
}

/** The change after the first steps were printed. */
export const firstStepsSaid: Decide<null> = memory => {
  const { firstStepsDue = false, ...meta } = memory.meta()
  return { puts: firstStepsDue ? [[keys.meta, meta]] : [], removes: [], result: null }
}

function isGiven({ clientId, clientSecret }: AdminGiven): boolean {
  return clientId !== undefined || clientSecret !== undefined
}

function digestOf({ clientId, clientSecret }: AdminGiven): string {
  // JSON writes null for undefined.
  return createHash('sha256')
    .update(JSON.stringify([clientId, clientSecret]))
    .digest('base64url')
}

/** See OpenedCatalog. `memory` has the change of this start. */
function unappliedNote(memory: Memory, { clientId, clientSecret }: AdminGiven): string | undefined {
  if (!clientId && !clientSecret) return undefined
  const first = memory.applications.get(memory.meta().firstApplicationId)
  const given = 'WEIR_CLIENT_ID and WEIR_CLIENT_SECRET are not applied again'
  if (first === undefined)
    return `${given}: the first application was deleted since; another pair makes a new one`
  if (!clientSecret || first.secret === clientSecret) return undefined
  return `${given}: the secret of the first application was rotated since; another pair replaces it`
}

/** `written` is true where the file did not match the catalog. */
export function writeAdmin(
  memory: Memory,
  path: string | undefined,
  on: Disk,
): { readonly admin: Admin | undefined; readonly written: boolean } {
  const application = memory.applications.get(memory.meta().firstApplicationId)
  if (application === undefined) return { admin: undefined, written: false }
  const admin: Admin = { clientId: application.id, clientSecret: application.secret }
  if (path === undefined) return { admin, written: false }
  const bytes = adminBytes(application)
  if (holds(on, path, bytes)) return { admin, written: false }
  replaceFile(on, path, [bytes])
  return { admin, written: true }
}

export function adminBytes({ id, secret }: Application): Buffer {
  const admin: Admin = { clientId: id, clientSecret: secret }
  return Buffer.from(`${JSON.stringify(admin, null, 2)}\n`)
}

/**
 * Writes data/admin.json after a change of the first application. A failed write is a warning,
 * because the answer may have a secret that nothing shows again. The next start writes the file.
 */
export async function keepingAdmin<T>(
  catalog: Catalog,
  path: string | undefined,
  change: () => Promise<T>,
): Promise<T> {
  const first = () => catalog.application(catalog.read.meta().firstApplicationId)
  const before = first()
  const answer = await change()
  if (first() === before) return answer
  try {
    writeAdmin(catalog.read, path, disk)
  } catch (error) {
    warn(`${path} has the old secret until the next start writes it: ${errorText(error as Error)}`)
  }
  return answer
}

/** True where the file has these bytes. A damaged file does not, so it is written again. */
function holds(on: Disk, path: string, bytes: Buffer): boolean {
  try {
    return on.exists(path) && bytes.equals(readFile(on, path))
  } catch (error) {
    if (error instanceof Damaged) return false
    throw error
  }
}

function makeApplication(id: string, secret: string, nowMs: number): Application {
  return {
    ...newCommon(id, { description: 'The first application' }, SYSTEM, nowMs),
    secret,
    scopes: SCOPES,
    // The operator's own queries are not held back beside the dashboards'.
    propeller: PROPELLERS[PROPELLERS.length - 1] ?? PROPELLERS[0],
  }
}

/** HTTP Basic splits at a colon. */
function checkOption(value: string | undefined): string | undefined {
  if (value === undefined || value === '') return undefined
  if (!/^[\x21-\x39\x3b-\x7e]{1,256}$/.test(value))
    throw new CannotRun('a client id or secret is 1 to 256 printable ASCII characters without space or colon')
  return value
}
