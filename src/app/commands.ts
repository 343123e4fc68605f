/**
 * Every command, in the order of the help; the first, `start`, is the default and stands here.
 *
 * The file of a command holds its name, flags and help. It loads everything else when it runs, so the
 * start of the server does not wait for what other commands need.
 */
import { CLEAN, type Command, type CommandInput } from '../engine/command.ts'
import { BACKUP } from '../tools/backup.ts'
import { EXPORT } from '../tools/export.ts'
import { INSPECT } from '../tools/inspect.ts'
import { REBUILD } from '../tools/rebuild.ts'
import { REPAIR } from '../tools/repair.ts'
import { RESTORE } from '../tools/restore.ts'
import { VERIFY } from '../tools/verify.ts'
import { endNow, STOP_SIGNALS, withoutEchoes } from '../util/end-process.ts'
import { STOP_MS_MAX } from '../util/limits.ts'
import { errorText, say, warn } from '../util/say.ts'
import type { Running } from './start.ts'

const START: Command = {
  name: 'start',
  positionals: [],
  flags: [],
  why: 'runs the server (the default)',
  run,
}

export const COMMANDS: readonly Command[] = [START, INSPECT, VERIFY, EXPORT, REBUILD, REPAIR, BACKUP, RESTORE]

/** Resolves when the server was stopped by a signal. */
async function run({ config }: CommandInput): Promise<number> {
  const { startServer } = await import('./start.ts') // the other commands need no HTTP
  const server = await startServer(config, error => {
    warn(`a thread failed, Weir ends; the next start recovers: ${errorText(error)}`)
    endNow()
  })
  const stopped = stopOnSignal(server) // before the first line, because its reader may send a signal at once
  for (const note of server.notes) say(`weir: ${note}`)
  say(`weir: listening on ${server.url}`)
  sayFirstSteps(server, config.clientSecret !== '')
  await stopped
  return CLEAN
}

/** On an empty folder: prints the credentials, once, and commands to paste. */
function sayFirstSteps({ opened, url }: Running, secretIsGiven: boolean): void {
  const { admin, adminIsNew, isNewFolder, catalog } = opened
  if (admin === undefined || !adminIsNew) return
  const secret = secretIsGiven ? '' : `, secret ${admin.clientSecret}`
  say(`weir: first application ${admin.clientId}${secret} (kept in admin.json in the data folder)`)
  if (secretIsGiven) return
  const pool = isNewFolder ? catalog.poolByName('events') : undefined
  const source = pool === undefined ? undefined : catalog.source(pool.dataSourceId)
  if (source === undefined) return
  const token = `TOKEN=$(curl -s -u ${admin.clientId}:${admin.clientSecret} -d grant_type=client_credentials ${url}/oauth2/token | sed 's/.*"access_token":"\\([^"]*\\).*/\\1/')`
  const query =
    '{"query":"{ counter(input: {metric: {count: {dataPool: {name: \\"events\\"}}}}) { value } }"}'
  say('')
  say('Paste to post an event, get a token, ask a counter:')
  say('')
  say(`curl -d '{"hello":"weir"}' -H 'Content-Type: application/json' ${url}/v1/${source.webhookId}`)
  say(token)
  say(`curl -H "Authorization: Bearer $TOKEN" -d '${query}' ${url}/graphql`)
  say('')
}

/** The first SIGTERM or SIGINT stops in order, the second ends the process. Resolves when the server has stopped. */
function stopOnSignal(server: Running): Promise<void> {
  let asked = false
  return new Promise(resolve => {
    const stop = async () => {
      if (asked) endNow()
      asked = true
      setTimeout(() => {
        warn('stopping takes too long; the next start recovers what is left')
        endNow()
      }, STOP_MS_MAX - 500).unref()
      const whole = await server.stop()
      if (!whole) warn('stopped before everything was flushed; the next start recovers it from the log')
      resolve()
    }
    const stopOrEnd = withoutEchoes(() => {
      stop().catch(error => {
        warn(`stopping failed; the next start recovers: ${(error as Error).stack}`)
        endNow()
      })
    })
    for (const signal of STOP_SIGNALS) process.on(signal, stopOrEnd)
  })
}
