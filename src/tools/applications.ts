/**
 * `weir applications` and `weir keys`: manage the callers of the API. With --url they ask a running
 * server; without it they change a stopped folder.
 */
import type { Catalog } from '../catalog/catalog.ts'
import type { BadRequest } from '../catalog/catalog-types.ts'
import { openCatalog, writeAdmin } from '../catalog/open-catalog.ts'
import { CLEAN, type CommandInput } from '../engine/command.ts'
import { must } from '../util/assert.ts'
import { checkCatalog, upgradeFormat } from '../util/data-folder.ts'
import { disk } from '../util/disk.ts'
import { CannotRun } from '../util/errors.ts'
import { armCrash, setFaults } from '../util/fault-injection.ts'
import { noteAudit, say } from '../util/say.ts'
import {
  manageApplications,
  readApplicationsRequest,
  readKeysRequest,
  rotateKeys,
  type ShownApplication,
  type ShownKey,
} from './manage.ts'
import { postToServer } from './running-server.ts'
import { openStopped } from './stopped-folder.ts'
import { pairLines, tableLines } from './terminal.ts'

/** The creator of what no application made. */
const SYSTEM = 'system'

/** Runs `weir applications`. */
export async function applications(input: CommandInput): Promise<number> {
  const { positionals, flags } = input
  const scopes = (flags.get('scopes') ?? '').split(',').filter(scope => scope !== '')
  const request = checked(
    readApplicationsRequest({
      action: positionals[0],
      application: positionals[1] ?? '',
      description: flags.get('description') ?? '',
      scopes,
      propeller: flags.get('propeller'),
    }),
  )
  const answer = await ask<readonly ShownApplication[]>(input, '/v1/admin/applications', request, catalog =>
    manageApplications(catalog, request, SYSTEM, noteAudit),
  )
  if (flags.has('json')) say(JSON.stringify(answer, null, 2))
  else if (request.action === 'list') for (const line of listLines(answer)) say(line)
  else for (const line of linesOf(request.action, must(answer[0], 'the application'))) say(line)
  return CLEAN
}

/** Runs `weir keys`. */
export async function keys(input: CommandInput): Promise<number> {
  const { positionals, flags } = input
  if (positionals[0] !== 'rotate')
    throw new CannotRun(`weir keys takes rotate, not "${positionals[0]}"; see weir keys --help`)
  const request = checked(readKeysRequest({ action: 'rotate', endTokens: flags.has('end-tokens') }))
  const body = { action: 'rotate', ...request }
  const answer = await ask<ShownKey>(input, '/v1/admin/keys', body, catalog =>
    rotateKeys(catalog, request, SYSTEM, noteAudit),
  )
  if (flags.has('json')) say(JSON.stringify(answer, null, 2))
  else {
    say(`tokens are signed with the new key ${answer.kid}`)
    say(
      request.endTokens
        ? 'tokens given before are refused: clients need new ones'
        : 'tokens given before are valid until they expire, for at most an hour',
    )
  }
  return CLEAN
}

/** The answer of the running server at --url, or of the stopped folder. */
async function ask<T extends object>(
  { config, flags }: CommandInput,
  path: string,
  request: object,
  offline: (catalog: Catalog) => Promise<T | BadRequest>,
): Promise<T> {
  const url = flags.get('url')
  if (url !== undefined)
    return (await (await postToServer(config, url, path, request, 'the request')).json()) as T
  setFaults(config.faultAt)
  armCrash(config.crashAt)
  const { paths, lock } = openStopped(config)
  checkCatalog(paths)
  upgradeFormat(paths)
  const { catalog } = await openCatalog({ paths, crashAt: config.crashAt })
  try {
    const answer = checked(await offline(catalog))
    writeAdmin(catalog.read, paths.admin, disk) // the first application may have another secret
    return answer
  } finally {
    await catalog.stop()
    disk.close(must(lock, 'the lock of a data folder'))
  }
}

/** @throws CannotRun with the sentence of a BadRequest */
function checked<T extends object>(answer: T | BadRequest): T {
  if ('badRequest' in answer) throw new CannotRun(answer.badRequest)
  return answer
}

function listLines(all: readonly ShownApplication[]): string[] {
  return tableLines(
    ['application', 'name', 'propeller', 'scopes', 'created'],
    all.map(one => [one.id, one.uniqueName, one.propeller, one.scopes.join(','), one.createdAt]),
  )
}

const DONE = { list: '', create: 'created', rotate: 'has a new secret', delete: 'deleted' } as const

function linesOf(action: keyof typeof DONE, one: ShownApplication): string[] {
  const said = `application ${one.uniqueName} ${DONE[action]}`
  if (action === 'delete') return [`${said}: its tokens are refused from now on`]
  return [
    said,
    ...pairLines([
      ['client id', one.id],
      ['client secret', one.secret ?? ''],
      ['scopes', one.scopes.join(',')],
      ['propeller', one.propeller],
    ]),
  ]
}
