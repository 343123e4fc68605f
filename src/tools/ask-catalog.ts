/**
 * Commands that read or change the catalog: with --url they ask a running server through its admin
 * routes; without it they open the catalog of a stopped folder.
 */
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import { keepingAdmin, openCatalog } from '../catalog/open-catalog.ts'
import type { CommandInput } from '../database/command.ts'
import { checkCatalog, upgradeFormat } from '../util/data-folder.ts'
import { disk } from '../util/disk.ts'
import { CannotRun, must } from '../util/errors.ts'
import { noteAudit } from '../util/say.ts'
import { type Managed, manage } from './manage.ts'
import { askServer } from './running-server.ts'
import { openStopped } from './stopped-folder.ts'

/** The creator of what no application made. */
const SYSTEM = 'system'

/**
 * The answer of the running server at --url, or of the catalog of the stopped folder, which the
 * request may change.
 * @throws CannotRun with the sentence of a refusal
 */
export async function askCatalog<Request extends object, Answer extends object>(
  { config, flags }: CommandInput,
  managed: Managed<Request, Answer>,
  request: Request,
): Promise<Answer> {
  const url = flags.get('url')
  if (url !== undefined) return await askServer<Answer>(config, url, managed.path, request)
  const { paths, lock } = openStopped(config)
  checkCatalog(paths)
  upgradeFormat(paths)
  const { catalog } = await openCatalog({ paths, crashAt: config.crashAt })
  try {
    const run = () => manage(managed, catalog, request, SYSTEM, noteAudit)
    return checked(await keepingAdmin(catalog, paths.admin, run))
  } finally {
    await catalog.stop()
    disk.close(must(lock, 'the lock of a data folder'))
  }
}

/** @throws CannotRun with the sentence of a BadRequest */
export function checked<T extends object>(answer: T | BadRequest): T {
  if ('badRequest' in answer) throw new CannotRun(answer.badRequest)
  return answer
}
