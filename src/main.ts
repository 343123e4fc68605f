#!/usr/bin/env node
/** The command: reads options, starts the server, says what to paste, stops on a signal. */
import { helpText, readCommandLine } from './config.ts'
import { CannotRun } from './errors.ts'
import { STOP_MS_MAX } from './limits.ts'
import { type Running, startServer } from './start.ts'
import { say, warn } from './util/say.ts'

/** Exit codes. */
const CLEAN = 0
const DAMAGED = 1
const CANNOT_RUN = 2

async function main(): Promise<void> {
  const { command, help, config } = readCommandLine(process.argv.slice(2))
  if (help) return say(helpText())
  if (command !== 'start') throw new CannotRun(`there is no command "${command}"; see weir --help`)
  const server = await startServer(config, error => {
    warn(`a thread failed, Weir ends; the next start recovers: ${error.stack ?? error.message}`)
    endNow()
  })
  stopOnSignal(server) // before the first line: who reads it may send a signal at once
  for (const note of server.notes) say(`weir: ${note}`)
  say(`weir: listening on ${server.url}`)
  sayFirstSteps(server, config.clientSecret !== '')
}

/** On an empty folder: credentials once, and lines ready to paste. */
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

/**
 * Ends the process at once, as a crash would: recovery is the same. Not exit(), which waits for threads, and has hung
 * and crashed while one was inside LMDB or DuckDB.
 */
function endNow(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000) // the signal ends this
}

/** The first SIGTERM or SIGINT stops in order, a second one at once. */
function stopOnSignal(server: Running): void {
  let asked = false
  const stop = async () => {
    if (asked) endNow()
    asked = true
    setTimeout(() => {
      warn('stopping takes too long; the next start recovers what is left')
      endNow()
    }, STOP_MS_MAX - 500).unref()
    const whole = await server.stop()
    if (!whole) warn('stopped before everything was sealed; the next start recovers it from the log')
    process.exit(CLEAN)
  }
  const stopOrEnd = () => {
    stop().catch(error => {
      warn(`stopping failed; the next start recovers: ${(error as Error).stack}`)
      endNow()
    })
  }
  process.on('SIGTERM', stopOrEnd)
  process.on('SIGINT', stopOrEnd)
}

try {
  await main()
} catch (error) {
  const { name, message, stack } = error as Error
  if (name === 'CannotRun') {
    warn(message)
    process.exit(CANNOT_RUN)
  }
  warn(name === 'Damaged' ? message : (stack ?? message))
  process.exit(DAMAGED)
}
