/**
 * Every command of `weir`, in the order of the help, and the help itself. `start` is the default
 * and stands here.
 *
 * A command loads its code when it runs, so the start of the server does not wait for what other
 * commands need.
 */
import { CLEAN, type Command, type CommandInput, JSON_FLAG } from '../engine/command.ts'
import { type Config, misspeltVariables, optionLines, signsOfData } from '../engine/config.ts'
import { boundNote } from '../util/addresses.ts'
import { endNow } from '../util/end-process.ts'
import { errorText, say, warn } from '../util/say.ts'
import { stopOnSignal } from './shutdown.ts'
import type { Running } from './start.ts'

const START: Command = {
  name: 'start',
  positionals: [],
  flags: [],
  why: 'runs the server (the default)',
  run: runServer,
}

const INSPECT: Command = {
  name: 'inspect',
  positionals: ['[pool]'],
  flags: [JSON_FLAG],
  why: 'shows pools, segments, log and index of a stopped folder; changes nothing',
  run: async input => (await import('../tools/inspect.ts')).inspect(input),
}

const VERIFY: Command = {
  name: 'verify',
  positionals: [],
  flags: [JSON_FLAG],
  why: 'checks log, segments, keys and deletion vectors of a stopped folder; changes nothing',
  run: async input => (await import('../tools/verify.ts')).verify(input),
}

const EXPORT: Command = {
  name: 'export',
  positionals: ['<pool>'],
  flags: [
    {
      flag: 'format',
      value: 'parquet|arrow|ndjson|csv',
      why: 'format of the file; default by the name of --out, else parquet',
    },
    { flag: 'columns', value: 'a,b', why: 'exports these columns in this order; default all' },
    { flag: 'where', value: 'JSON', why: 'exports rows that match a list of filters as GraphQL takes them' },
    { flag: 'start', value: 'time', why: 'exports rows with the primary timestamp at or after this time' },
    { flag: 'stop', value: 'time', why: 'exports rows with the primary timestamp before this time' },
    { flag: 'compression', value: 'zstd|snappy|gzip|none', why: 'compression of parquet; default zstd' },
    { flag: 'out', value: 'file', why: 'the file to write; - is standard output' },
    { flag: 'force', value: '', why: 'replaces an existing file' },
  ],
  why: 'writes the live rows of a pool to a file',
  run: async input => (await import('../tools/export.ts')).exportPool(input),
}

const REBUILD: Command = {
  name: 'rebuild',
  positionals: [],
  flags: [],
  why: 'rebuilds the key index of a stopped folder from its segments',
  run: async input => (await import('../tools/rebuild.ts')).rebuild(input),
}

const REPAIR: Command = {
  name: 'repair',
  positionals: [],
  flags: [
    { flag: 'dry-run', value: '', why: 'prints what it would do, changes nothing, and exits with 1' },
    {
      flag: 'yes',
      value: '',
      why: 'repairs although data is lost; without it repair prints what is lost, changes nothing, and exits with 2',
    },
  ],
  why: 'moves damaged parts of a stopped folder aside, so that the server starts again; loses nothing without --yes',
  run: async input => (await import('../tools/repair.ts')).repair(input),
}

/** For commands that a running server can carry out. */
const URL_FLAG = (why: string) => ({ flag: 'url', value: 'URL', why })

const BACKUP: Command = {
  name: 'backup',
  positionals: ['<folder>'],
  flags: [
    URL_FLAG(
      'backs up the running server at this URL, as http://127.0.0.1:8420, to a <folder> on its machine; without it the data folder must be stopped',
    ),
  ],
  why: 'copies everything to a new folder, consistent at one sequence number',
  run: async input => (await import('../tools/backup.ts')).backup(input),
}

const RESTORE: Command = {
  name: 'restore',
  positionals: ['<folder>'],
  flags: [
    {
      flag: 'incomplete',
      value: '',
      why: 'restores a backup of files that were damaged already; run weir repair afterwards',
    },
  ],
  why: 'checks a backup and copies it to a new data folder (--data-dir); the first start builds the index',
  run: async input => (await import('../tools/restore.ts')).restore(input),
}

const ASKS_SERVER = URL_FLAG(
  'asks the running server at this URL, as http://127.0.0.1:8420; without it the data folder must be stopped',
)

const APPLICATIONS: Command = {
  name: 'applications',
  positionals: ['<action>', '[application]'],
  flags: [
    { flag: 'scopes', value: 'a,b', why: 'create: its scopes; default all' },
    {
      flag: 'propeller',
      value: 'NAME',
      why: 'create: its resources, P1_X_SMALL to P1_X_LARGE; default P1_X_SMALL',
    },
    { flag: 'description', value: 'text', why: 'create: its description' },
    ASKS_SERVER,
    JSON_FLAG,
  ],
  why: 'list, create, rotate (a new secret) or delete: manages the callers of the API',
  run: async input => (await import('../tools/applications.ts')).applications(input),
}

const KEYS: Command = {
  name: 'keys',
  positionals: ['<action>'],
  flags: [
    {
      flag: 'end-tokens',
      value: '',
      why: 'refuses all tokens that were given before; without it they expire',
    },
    ASKS_SERVER,
    JSON_FLAG,
  ],
  why: 'rotate: signs tokens with a new key from now on',
  run: async input => (await import('../tools/applications.ts')).keys(input),
}

const IMPORT: Command = {
  name: 'import',
  positionals: ['<pool>', '<file…>'],
  flags: [
    URL_FLAG('the running server; default http://127.0.0.1:8420'),
    {
      flag: 'format',
      value: 'ndjson|csv|parquet',
      why: 'format of the files; default by their names, as in rows.ndjson, rows.csv.gz or rows.parquet',
    },
    {
      flag: 'resume',
      value: '',
      why: 'goes on where an earlier import of the same file ended; a file that was imported is left out',
    },
    { flag: 'errors-max', value: 'n', why: 'refused rows that are printed for each file; default 100' },
  ],
  why: 'stores the rows of files (- is standard input) in a pool of a running server',
  run: async input => (await import('../tools/import.ts')).importFiles(input),
}

const JOBS: Command = {
  name: 'jobs',
  positionals: ['[pool]'],
  flags: [
    { flag: 'status', value: 'a,b', why: 'only jobs CREATED, IN_PROGRESS, SUCCEEDED or FAILED' },
    {
      flag: 'follow',
      value: '',
      why: 'shows unfinished jobs of a running server until none is left; exit code 1 where one FAILED',
    },
    { flag: 'cancel', value: 'id', why: 'ends a job: one that runs, after its current step' },
    ASKS_SERVER,
    { ...JSON_FLAG, why: 'prints one JSON document; with --follow one line for each change' },
  ],
  why: 'lists added columns, updates, deletions and imports with their progress; changes nothing without --cancel',
  run: async input => (await import('../tools/jobs.ts')).jobs(input),
}

export const COMMANDS: readonly Command[] = [
  START,
  INSPECT,
  VERIFY,
  EXPORT,
  IMPORT,
  REBUILD,
  REPAIR,
  BACKUP,
  RESTORE,
  APPLICATIONS,
  KEYS,
  JOBS,
]

const EXIT_CODES = [
  'exit code:',
  '  0  clean; the server stopped as requested',
  '  1  damage was found, or damage stopped the command; an import refused rows',
  '  2  could not run',
]

const OPTION_HEAD = `  ${'option'.padEnd(28)} ${'environment'.padEnd(20)} meaning [default]`

/** The text of `weir --help`. */
export function helpText(): string {
  return [
    'weir: a webhook data pool',
    '',
    'usage: weir [command] [arguments] [options]',
    '',
    ...COMMANDS.map(one => `  ${usageOf(one).padEnd(28)} ${one.why}`),
    '',
    'weir <command> --help prints the flags of a command. <pool> and [application] are an id or a unique name.',
    '',
    OPTION_HEAD,
    ...optionLines(false),
    `  ${'--help'.padEnd(28)} ${''.padEnd(20)} this text`,
    '',
    'Commands other than start take --data-dir, --kernel and their own flags. They need a folder that no server uses, or --url. An import always needs a server.',
    '',
    ...EXIT_CODES,
  ].join('\n')
}

/** The text of `weir <command> --help`. */
export function commandHelp(command: Command): string {
  const flags = command.flags.map(({ flag, value, why }) => {
    const left = value === '' ? `--${flag}` : `--${flag} ${value}`
    return `  ${left.padEnd(28)} ${why}`
  })
  return [
    `weir ${usageOf(command)}: ${command.why}`,
    '',
    ...(flags.length === 0 ? [] : [...flags, '']),
    OPTION_HEAD,
    ...optionLines(command !== START),
    '',
    ...EXIT_CODES,
  ].join('\n')
}

function usageOf({ name, positionals }: Command): string {
  return [name, ...positionals].join(' ')
}

/** `weir start`. Resolves when a signal has stopped the server. */
async function runServer({ config }: CommandInput): Promise<number> {
  const { startServer } = await import('./start.ts') // the other commands need no HTTP
  for (const line of misspeltVariables()) warn(line)
  const server = await startServer(config, error => {
    warn(`a thread failed, Weir ends; the next start recovers: ${errorText(error)}`)
    endNow()
  })
  // Set before the first line is printed, because its reader may send a signal at once.
  const stopped = stopOnSignal(server)
  for (const note of server.notes) say(`weir: ${note}`)
  if (server.opened.isNewFolder) warnOfNewFolder(config)
  say(`weir: listening on ${server.url}${boundNote(config.host)}`)
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
 * At the first start that listens: prints the credentials, once, and commands to paste. A start
 * that could not listen has printed nothing.
 */
function sayFirstSteps({ opened, url }: Running, secretIsGiven: boolean): void {
  const { admin, adminIsNew, catalog } = opened
  const { firstStepsDue = false } = catalog.meta()
  if (admin === undefined || !(adminIsNew || firstStepsDue)) return
  // The server has loaded the module. Where the change fails, the next start prints them again.
  import('../catalog/open-catalog.ts')
    .then(({ firstStepsSaid }) => catalog.change(firstStepsSaid))
    .catch(() => undefined)
  const secret = secretIsGiven ? '' : `, secret ${admin.clientSecret}`
  say(`weir: first application ${admin.clientId}${secret} (kept in admin.json in the data folder)`)
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
