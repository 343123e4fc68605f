/** `weir start`: runs the server until a signal stops it, and prints what its operator needs. */
import { CLEAN, type CommandInput } from '../database/command.ts'
import { type Config, misspeltVariables, signsOfData } from '../database/config.ts'
import { boundNote } from '../util/addresses.ts'
import { endNow } from '../util/end-process.ts'
import { CannotRun } from '../util/errors.ts'
import { announce, errorText, fail, logSettings, say, warn } from '../util/say.ts'
import { stopOnSignal } from './shutdown.ts'
import { type Running, startServer } from './start.ts'

/** Resolves when a signal has stopped the server. */
export async function runServer({ config }: CommandInput): Promise<number> {
  for (const line of misspeltVariables()) warn(line)
  const server = await startServer(config, error => {
    if (error instanceof CannotRun) fail(`Weir ends: ${error.message}`)
    else fail(`a thread failed, Weir ends; the next start recovers: ${errorText(error)}`)
    endNow()
  })
  // Set before the first line is printed, because its reader may send a signal at once.
  const stopped = stopOnSignal(server, config.stopDelaySeconds * 1000)
  for (const note of server.notes) announce(note)
  if (server.opened.isNewFolder && server.adminFile !== undefined) warnOfNewFolder(config)
  announce(`listening on ${server.url}${boundNote(config.host)}`)
  sayFirstSteps(server, config.clientSecret !== '')
  await stopped
  return CLEAN
}

/**
 * A new folder where an old one was expected, as with a volume that is not mounted, looks like the
 * loss of all data.
 */
function warnOfNewFolder(config: Config): void {
  const signs = signsOfData(config)
  if (signs.length === 0) return
  warn(
    `NEW DATA FOLDER: ${config.dataDir} had no data, so Weir begins with an empty one. If there should be data (${signs.join(', ')}), stop Weir now and check --data-dir, WEIR_DATA_DIR and whether the volume is mounted.`,
  )
}

/**
 * Prints the credentials at the first start that listens and may print them, and at each that wrote
 * admin.json again. The first prints commands to paste too, where the secret was not given.
 *
 * Lines as JSON go to a store of logs, which many people read. So they name the file of the secret,
 * and bring no code that signs in.
 */
function sayFirstSteps({ opened, url, adminFile, consoleCode }: Running, secretIsGiven: boolean): void {
  const { admin, adminIsNew, catalog } = opened
  const { firstStepsDue = false } = catalog.read.meta()
  const { format, level } = logSettings()
  if (admin === undefined || !(adminIsNew || firstStepsDue) || level !== 'info') return
  const place = adminFile === undefined ? 'the catalog' : 'admin.json in the data folder'
  // The server has loaded the module. Where the change fails, the next start prints them again.
  import('../catalog/open-catalog.ts')
    .then(({ firstStepsSaid }) => catalog.change(firstStepsSaid))
    .catch(() => undefined)
  if (format === 'json') {
    announce(`first application ${admin.clientId} (its secret is kept in ${place})`)
    return
  }
  const secret = secretIsGiven ? '' : `, secret ${admin.clientSecret}`
  announce(`first application ${admin.clientId}${secret} (kept in ${place})`)
  const code = consoleCode(admin.clientId)
  if (code !== undefined)
    announce(`the console: ${url}/sign-in#code=${code} (signs in once, within five minutes)`)
  // What follows is to be pasted by a person.
  if (secretIsGiven) return
  const pool = firstStepsDue ? catalog.read.pools.byName('events') : undefined
  const source = pool === undefined ? undefined : catalog.read.sources.get(pool.dataSourceId)
  if (!source?.webhook) return
  const token = `TOKEN=$(curl -s -u ${admin.clientId}:${admin.clientSecret} -d grant_type=client_credentials ${url}/oauth2/token | sed 's/.*"access_token":"\\([^"]*\\).*/\\1/')`
  const query =
    '{"query":"{ counter(input: {metric: {count: {dataPool: {name: \\"events\\"}}}}) { value } }"}'
  say('')
  say('Paste to post an event, get a token, ask a counter:')
  say('')
  say(`curl -d '{"hello":"weir"}' -H 'Content-Type: application/json' ${url}/v1/${source.webhook.webhookId}`)
  say(token)
  say(`curl -H "Authorization: Bearer $TOKEN" -d '${query}' ${url}/graphql`)
  say('')
}
