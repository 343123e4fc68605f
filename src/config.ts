/**
 * Every option, declared once: flag, environment name, default, unit, reason. The type, the parser and
 * `weir --help` come from this table; `process.env` is read nowhere else.
 */
import { isAbsolute, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CannotRun } from './errors.ts'
import { COMPACT_TICK_MS, LOG_FILE_BYTES, LOG_FILE_BYTES_MIN } from './limits.ts'

/** One option. `parse` answers undefined for a text that it does not take. */
interface Option<T> {
  readonly flag: string | null
  readonly env: string
  readonly value: string
  readonly fallback: string
  readonly why: string
  readonly hidden?: true
  readonly parse: (text: string) => T | undefined
}

const text = (value: string) => (value === '' ? undefined : value)
const anyText = (value: string) => value
const choice =
  <T extends string>(...choices: readonly T[]) =>
  (value: string) =>
    choices.find(one => one === value)
const integer = (from: number, to: number) => (value: string) => {
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN
  return number >= from && number <= to ? number : undefined
}

const OPTIONS = {
  host: option('host', 'WEIR_HOST', 'ADDRESS', '127.0.0.1', 'address to listen on', text),
  port: option(
    'port',
    'WEIR_PORT',
    'NUMBER',
    '8420',
    'port to listen on; 0 takes any free one',
    integer(0, 65535),
  ),
  dataDir: option(
    'data-dir',
    'WEIR_DATA_DIR',
    'FOLDER',
    './data',
    'the data folder; one process at a time',
    text,
  ),
  publicUrl: option(
    'public-url',
    'WEIR_PUBLIC_URL',
    'URL',
    '',
    'prefix of webhookUrl, when clients reach Weir by another name (default http://host:port)',
    (value: string) =>
      value === '' || /^https?:\/\/[^/]/.test(value) ? value.replace(/\/+$/, '') : undefined,
  ),
  clientId: option(null, 'WEIR_CLIENT_ID', 'TEXT', '', 'client id of the first application', anyText),
  clientSecret: option(null, 'WEIR_CLIENT_SECRET', 'TEXT', '', 'its secret; both or neither', anyText),
  durability: option(
    'durability',
    'WEIR_DURABILITY',
    'fsync|os',
    'fsync',
    'fsync: a 200 survives a power cut; os: it survives the death of the process only',
    choice('fsync', 'os'),
  ),
  kernel: option(
    'kernel',
    'WEIR_KERNEL',
    'native|js',
    '',
    'JSON kernel and key loop (default native where it was built, else js)',
    (value: string) => (value === '' ? 'auto' : choice('native', 'js')(value)),
  ),
  rateLimit: option(
    'rate-limit',
    'WEIR_RATE_LIMIT',
    'EVENTS',
    '0',
    'events per second and pool; more is answered 429; 0 is off',
    integer(0, 1_000_000_000),
  ),
  crashAt: {
    ...option(
      'crash-at',
      'WEIR_CRASH_AT',
      'POINT[:N]',
      '',
      'tests only: kill the process at a named point',
      anyText,
    ),
    hidden: true as const,
  },
  compactTickMs: {
    ...option(
      'compact-tick-ms',
      'WEIR_COMPACT_TICK_MS',
      'MS',
      String(COMPACT_TICK_MS),
      'tests only: compaction looks this often; idle pools give up their kept rows after 60 looks',
      integer(1, 3_600_000),
    ),
    hidden: true as const,
  },
  retentionDaysAhead: {
    ...option(
      'retention-days-ahead',
      'WEIR_RETENTION_DAYS_AHEAD',
      'DAYS',
      '0',
      'tests only: the clock of retention runs ahead',
      integer(0, 100_000),
    ),
    hidden: true as const,
  },
  logFileBytes: {
    ...option(
      'log-file-bytes',
      'WEIR_LOG_FILE_BYTES',
      'BYTES',
      String(LOG_FILE_BYTES),
      'tests only: size of a log file; small ones are changed often',
      integer(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES),
    ),
    hidden: true as const,
  },
}

/** The options' values. */
export type Config = {
  readonly [K in keyof typeof OPTIONS]: Exclude<ReturnType<(typeof OPTIONS)[K]['parse']>, undefined>
}

/** What the command line asks for. */
export interface CommandLine {
  readonly command: string
  readonly help: boolean
  readonly config: Config
}

/**
 * Reads flags, then the environment, then defaults.
 * @throws CannotRun naming the option that was not understood
 */
export function readCommandLine(args: readonly string[], env: NodeJS.ProcessEnv = process.env): CommandLine {
  const { values, positionals } = parseFlags(args)
  const config: Record<string, unknown> = {}
  for (const [name, one] of Object.entries(OPTIONS) as [string, Option<unknown>][]) {
    const flagged = one.flag === null ? undefined : values[one.flag]
    const given = typeof flagged === 'string' ? flagged : (env[one.env] ?? one.fallback)
    const parsed = one.parse(given)
    if (parsed === undefined) throw new CannotRun(`${spelling(one)} takes ${one.value}, not "${given}"`)
    config[name] = parsed
  }
  const read = config as unknown as Config
  if ((read.clientId === '') !== (read.clientSecret === ''))
    throw new CannotRun('WEIR_CLIENT_ID and WEIR_CLIENT_SECRET are given both or not at all')
  const dataDir = isAbsolute(read.dataDir) ? read.dataDir : resolve(read.dataDir)
  if (positionals.length > 1) throw new CannotRun(`one command at a time, not "${positionals.join(' ')}"`)
  return { command: positionals[0] ?? 'start', help: values['help'] === true, config: { ...read, dataDir } }
}

/** What `weir --help` prints. */
export function helpText(): string {
  const lines = (Object.values(OPTIONS) as Option<unknown>[])
    .filter(one => one.hidden !== true)
    .map(one => {
      const left = one.flag === null ? '' : `--${one.flag} ${one.value}`
      const fallback = one.fallback === '' ? '' : ` [${one.fallback}]`
      return `  ${left.padEnd(28)} ${one.env.padEnd(20)} ${one.why}${fallback}`
    })
  return [
    'weir: a webhook data pool',
    '',
    'usage: weir [start] [options]',
    '',
    `  ${'option'.padEnd(28)} ${'environment'.padEnd(20)} meaning [default]`,
    ...lines,
    `  ${'--help'.padEnd(28)} ${''.padEnd(20)} this text`,
    '',
    'exit: 0 stopped cleanly, 1 the data is damaged, 2 could not run',
  ].join('\n')
}

function option<T>(
  flag: string | null,
  env: string,
  value: string,
  fallback: string,
  why: string,
  parse: (text: string) => T | undefined,
): Option<T> {
  return { flag, env, value, fallback, why, parse }
}

function spelling(one: Option<unknown>): string {
  return one.flag === null ? one.env : `--${one.flag} (${one.env})`
}

function parseFlags(args: readonly string[]) {
  const options: Record<string, { type: 'string' | 'boolean' }> = { help: { type: 'boolean' } }
  for (const one of Object.values(OPTIONS)) if (one.flag !== null) options[one.flag] = { type: 'string' }
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new CannotRun(`${(error as Error).message}; see weir --help`)
  }
}

/** The address as a person on this machine types it. */
export function localUrl(host: string, port: number): string {
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}
