/**
 * Every command of `weir`, in the order of the help, and the help itself. `start` is the default.
 *
 * A command loads its code when it runs, so the start of the server does not wait for what other
 * commands need.
 */
import { flagsOf, SOURCE_SETTINGS } from '../api/openapi/admin-requests.ts'
import { type Command, flagOf, JSON_FLAG } from '../database/command.ts'
import { optionLines } from '../database/config.ts'

/** For commands that a running server can carry out. */
const URL_FLAG = (why: string) => ({ flag: 'url', value: 'URL', why })

const ASKS_SERVER = URL_FLAG(
  'asks the running server at this URL, as http://127.0.0.1:8420; without it the data folder must be stopped',
)

/** Of commands that ask a running server. */
const ASK_A_NODE = 'ask a node with --url'

const ENDPOINT_FLAG = {
  flag: 'endpoint',
  value: 'URL',
  why: 'bucket: a server of S3 other than AWS, as https://s3.example.com; default AWS_ENDPOINT_URL',
}

export const COMMANDS: readonly Command[] = [
  {
    name: 'start',
    positionals: [],
    flags: [],
    why: 'runs the server (the default)',
    run: async input => (await import('./run-server.ts')).runServer(input),
  },
  {
    name: 'inspect',
    instead: 'system.parts of ClickHouse shows the tables of the pools',
    positionals: ['[pool]'],
    flags: [JSON_FLAG],
    why: 'shows pools, segments, log and index of a stopped folder; changes nothing',
    run: async input => (await import('../tools/inspect.ts')).inspect(input),
  },
  {
    name: 'verify',
    instead: 'CHECK TABLE of ClickHouse reads a table again',
    positionals: [],
    flags: [JSON_FLAG],
    why: 'checks log, segments, keys and deletion vectors of a stopped folder; changes nothing',
    run: async input => (await import('../tools/verify.ts')).verify(input),
  },
  {
    name: 'export',
    instead: 'GET /v1/pools/<pool>/export of a node answers the rows',
    positionals: ['<pool>'],
    flags: [
      {
        flag: 'format',
        value: 'parquet|arrow|ndjson|csv',
        why: 'format of the file; default by the name of --out, else parquet',
      },
      { flag: 'columns', value: 'a,b', why: 'exports these columns in this order; default all' },
      {
        flag: 'where',
        value: 'JSON',
        why: 'exports rows that match a list of filters as GraphQL takes them',
      },
      { flag: 'start', value: 'time', why: 'exports rows with the primary timestamp at or after this time' },
      { flag: 'stop', value: 'time', why: 'exports rows with the primary timestamp before this time' },
      { flag: 'compression', value: 'zstd|snappy|gzip|none', why: 'compression of parquet; default zstd' },
      { flag: 'out', value: 'file', why: 'the file to write; - is standard output' },
      { flag: 'force', value: '', why: 'replaces an existing file' },
    ],
    why: 'writes the live rows of a pool to a file',
    run: async input => (await import('../tools/export.ts')).exportPool(input),
  },
  {
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
      {
        flag: 'by',
        value: 'column|property',
        why: 'what the fields of the files name; default property for ndjson, both for csv and parquet',
      },
      {
        flag: 'map',
        value: 'field=column',
        why: 'a field of the files fills this column; may be given several times',
        repeats: true,
      },
      {
        flag: 'ignore-unknown',
        value: '',
        why: 'takes csv and parquet with headers that are near the name of a column which nothing fills',
      },
      { flag: 'errors-max', value: 'n', why: 'refused rows that are printed for each file; default 100' },
    ],
    why: 'stores the rows of files (- is standard input) in a pool of a running server',
    run: async input => (await import('../tools/import.ts')).importFiles(input),
  },
  {
    name: 'rebuild',
    instead: 'a cluster has no index of its own',
    positionals: [],
    flags: [],
    why: 'rebuilds the key index of a stopped folder from its segments',
    run: async input => (await import('../tools/rebuild.ts')).rebuild(input),
  },
  {
    name: 'repair',
    instead: 'ClickHouse fetches damaged parts from another replica',
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
  },
  {
    name: 'backup',
    instead: 'ClickHouse backs up the tables, and weir cluster backup the catalog',
    positionals: ['<folder>'],
    flags: [
      URL_FLAG(
        'backs up the running server at this URL, as http://127.0.0.1:8420, to a <folder> on its machine; without it the data folder must be stopped',
      ),
      {
        flag: 'keep',
        value: 'n',
        why: 'bucket: removes backups beyond the last n afterwards, and objects that no backup names; default all stay',
      },
      ENDPOINT_FLAG,
    ],
    why: 'copies everything to a new folder, or what is new to a bucket (s3://bucket/prefix), consistent at one sequence number',
    run: async input => (await import('../tools/backup.ts')).backup(input),
  },
  {
    name: 'restore',
    instead: 'ClickHouse restores the tables, and weir cluster restore the catalog',
    positionals: ['<folder>'],
    flags: [
      {
        flag: 'incomplete',
        value: '',
        why: 'restores all but segments that the backup has lost, and files as they are that were damaged before it: then run weir repair',
      },
      {
        flag: 'backup',
        value: 'id',
        why: 'bucket: the backup to restore, by weir backups; default the last',
      },
      ENDPOINT_FLAG,
    ],
    why: 'checks a backup and copies it to a new data folder (--data-dir); the first start builds the index',
    run: async input => (await import('../tools/restore.ts')).restore(input),
  },
  {
    name: 'backups',
    positionals: ['<bucket>'],
    flags: [
      {
        flag: 'verify',
        value: '',
        why: 'compares each object with its checksum: by the one that the bucket keeps, else by reading it',
      },
      { flag: 'read', value: '', why: 'the same, and reads each object' },
      ENDPOINT_FLAG,
      JSON_FLAG,
    ],
    why: 'lists the backups in a bucket (s3://bucket/prefix), and says which have lost an object',
    run: async input => (await import('../tools/bucket/list-backups.ts')).backups(input),
  },
  {
    name: 'move',
    positionals: [],
    flags: [],
    why: 'takes a stopped folder into the empty cluster that WEIR_CLICKHOUSE_URL, WEIR_KEEPER and WEIR_SECRET_KEY name; goes on after a kill',
    run: async input => (await import('../tools/move/move.ts')).move(input),
  },
  {
    name: 'cluster',
    positionals: ['<action>', '<file>'],
    flags: [],
    why: 'backup or restore: the catalog of the cluster that WEIR_KEEPER and WEIR_CLICKHOUSE_URL name, as one file',
    run: async input => (await import('../tools/cluster-catalog.ts')).cluster(input),
  },
  {
    name: 'applications',
    instead: ASK_A_NODE,
    positionals: ['<action>', '[application]'],
    flags: [
      flagOf(['create'], 'scopes', 'a,b', 'its scopes; default all'),
      flagOf(['create'], 'propeller', 'NAME', 'its resources, P1_X_SMALL to P1_X_LARGE; default P1_X_SMALL'),
      flagOf(['create'], 'description', 'text', 'its description'),
      ASKS_SERVER,
      JSON_FLAG,
    ],
    why: 'list, create, rotate (a new secret) or delete: manages the callers of the API',
    run: async input => (await import('../tools/applications.ts')).applications(input),
  },
  {
    name: 'keys',
    instead: ASK_A_NODE,
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
  },
  {
    name: 'sources',
    instead: ASK_A_NODE,
    positionals: ['<action>', '[name]'],
    flags: [
      ...Object.values(SOURCE_SETTINGS).flatMap(flagsOf),
      { ...ASKS_SERVER, actions: ['list', 'show', 'create', 'modify', 'handshake'] },
      JSON_FLAG,
    ],
    why: 'list, show, create, modify webhooks; presets lists known senders, infer <file> proposes columns, handshake takes the secret of a sender',
    run: async input => (await import('../tools/sources.ts')).sources(input),
  },
  {
    name: 'tail',
    positionals: ['<pool>'],
    flags: [
      { flag: 'columns', value: 'a,b', why: 'prints these columns; default all' },
      {
        flag: 'filters',
        value: 'JSON',
        why: 'prints rows that match a list of filters as GraphQL takes them',
      },
      URL_FLAG('the running server; default http://127.0.0.1:8420'),
    ],
    why: 'prints events as a running server acknowledges them, one JSON object a line',
    run: async input => (await import('../tools/tail.ts')).tail(input),
  },
  {
    name: 'rejected',
    positionals: ['<pool>'],
    flags: [
      { flag: 'replay', value: '', why: 'takes the rejected events in again, and waits for the end' },
      { flag: 'where', value: 'SQL', why: 'replays those that match, as "code = \'wrong_type\'"' },
      { flag: 'into', value: 'pool', why: 'replays into this pool; default the one that refused them' },
      URL_FLAG('the running server; default http://127.0.0.1:8420'),
      JSON_FLAG,
    ],
    why: 'lists what a pool refused by reason, from a running server',
    run: async input => (await import('../tools/rejected.ts')).rejected(input),
  },
  {
    name: 'jobs',
    instead: ASK_A_NODE,
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
  },
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
    ...optionLines(command !== COMMANDS[0]),
    '',
    ...EXIT_CODES,
  ].join('\n')
}

function usageOf({ name, positionals }: Command): string {
  return [name, ...positionals].join(' ')
}
