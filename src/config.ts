/**
 * Every option, declared once: flag, environment name, default, unit, reason. The type, the parser and
 * `weir --help` come from this table; `process.env` is read nowhere else. Flags of one command stand with it (command/).
 */
import { isAbsolute, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { checkPositionals, misread } from './command/misread.ts'
import type { Command, CommandInput } from './command/protocol.ts'
import { CannotRun } from './errors.ts'
import { BACKUP_BYTES_PER_SECOND, COMPACT_TICK_MS, LOG_FILE_BYTES, LOG_FILE_BYTES_MIN } from './limits.ts'
import { assert, must } from './util/assert.ts'

/** What an option takes, in words, and how it reads it: undefined for a text that it does not take. */
interface Taken<T> {
  readonly takes: string
  readonly parse: (text: string) => T | undefined
}

/** One option. */
interface Option<T> extends Taken<T> {
  readonly flag: string | null
  readonly env: string
  readonly value: string
  readonly fallback: string
  readonly why: string
  readonly hidden?: true
  /** Taken by every command, not by the server alone. */
  readonly common?: true
}

const TEXT: Taken<string> = { takes: 'a text', parse: value => (value === '' ? undefined : value) }
const ANY_TEXT: Taken<string> = { takes: 'any text', parse: value => value }
const HTTP_URL: Taken<string> = {
  takes: 'a URL that begins with http:// or https://',
  parse: value => (value === '' || /^https?:\/\/[^/]/.test(value) ? value.replace(/\/+$/, '') : undefined),
}
const choice = <T extends string>(...choices: readonly T[]): Taken<T> => ({
  takes: choices.filter(one => one !== '').join(' or '),
  parse: value => choices.find(one => one === value),
})
const integer = (from: number, to: number): Taken<number> => ({
  takes: `a whole number from ${from} to ${to}`,
  parse: value => {
    const number = /^\d+$/.test(value) ? Number(value) : Number.NaN
    return number >= from && number <= to ? number : undefined
  },
})

const OPTIONS = {
  host: option('host', 'WEIR_HOST', 'ADDRESS', '127.0.0.1', 'address to listen on', TEXT),
  port: option(
    'port',
    'WEIR_PORT',
    'NUMBER',
    '8420',
    'port to listen on; 0 takes any free one',
    integer(0, 65535),
  ),
  dataDir: common(
    option('data-dir', 'WEIR_DATA_DIR', 'FOLDER', './data', 'the data folder; one process at a time', TEXT),
  ),
  publicUrl: option(
    'public-url',
    'WEIR_PUBLIC_URL',
    'URL',
    '',
    'prefix of webhookUrl, when clients reach Weir by another name (default http://host:port)',
    HTTP_URL,
  ),
  clientId: option(null, 'WEIR_CLIENT_ID', 'TEXT', '', 'client id of the first application', ANY_TEXT),
  clientSecret: option(null, 'WEIR_CLIENT_SECRET', 'TEXT', '', 'its secret; both or neither', ANY_TEXT),
  durability: option(
    'durability',
    'WEIR_DURABILITY',
    'fsync|os',
    'fsync',
    'fsync: a 200 survives a power cut; os: it survives the death of the process only',
    choice('fsync', 'os'),
  ),
  kernel: common(
    option(
      'kernel',
      'WEIR_KERNEL',
      'native|js',
      '',
      'JSON kernel and key loop (default native where it was built, else js)',
      choice('', 'native', 'js'),
    ),
  ),
  rateLimit: option(
    'rate-limit',
    'WEIR_RATE_LIMIT',
    'EVENTS',
    '0',
    'events per second and pool; more is answered 429; 0 is off',
    integer(0, 1_000_000_000),
  ),
  crashAt: hidden(
    option(
      'crash-at',
      'WEIR_CRASH_AT',
      'POINT[:N]',
      '',
      'tests only: kill the process at a named point',
      ANY_TEXT,
    ),
  ),
  compactTickMs: hidden(
    option(
      'compact-tick-ms',
      'WEIR_COMPACT_TICK_MS',
      'MS',
      String(COMPACT_TICK_MS),
      'tests only: compaction looks this often; idle pools give up their kept rows after 60 looks',
      integer(1, 3_600_000),
    ),
  ),
  retentionDaysAhead: hidden(
    option(
      'retention-days-ahead',
      'WEIR_RETENTION_DAYS_AHEAD',
      'DAYS',
      '0',
      'tests only: the clock of retention runs ahead',
      integer(0, 100_000),
    ),
  ),
  backupBytesPerSecond: hidden(
    option(
      'backup-bytes-per-second',
      'WEIR_BACKUP_BYTES_PER_SECOND',
      'BYTES',
      String(BACKUP_BYTES_PER_SECOND),
      'tests only: how fast a backup of a running server copies',
      integer(1, 1_000_000_000_000),
    ),
  ),
  faultAt: hidden(
    option(
      'fault-at',
      'WEIR_FAULT_AT',
      'FAULTS',
      '',
      'tests only: calls of the disk that fail while a file exists; see util/fault.ts',
      ANY_TEXT,
    ),
  ),
  logFileBytes: hidden(
    option(
      'log-file-bytes',
      'WEIR_LOG_FILE_BYTES',
      'BYTES',
      String(LOG_FILE_BYTES),
      'tests only: size of a log file; small ones are changed often',
      integer(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES),
    ),
  ),
}

/** The options' values. */
export type Config = {
  readonly [K in keyof typeof OPTIONS]: Exclude<ReturnType<(typeof OPTIONS)[K]['parse']>, undefined>
}

/** What the command line asks for. */
interface CommandLine {
  /** undefined: none was named, which means the first one, `start`. */
  readonly named: Command | undefined
  readonly help: boolean
  readonly input: CommandInput
}

/**
 * Reads flags, then the environment, then defaults. The first argument that is no flag names the command; a command
 * takes the common options and its own flags, `start` takes all options.
 * @param commands all there are; the first is the default
 * @throws CannotRun naming the command, flag, option or argument that was not understood
 */
export function readCommandLine(
  args: readonly string[],
  commands: readonly Command[],
  env: NodeJS.ProcessEnv = process.env,
): CommandLine {
  const name = firstPositional(args)
  const named = name === undefined ? undefined : commands.find(command => command.name === name)
  if (name !== undefined && named === undefined)
    throw new CannotRun(
      `there is no command "${name}"; there are ${commands.map(one => one.name).join(', ')}; see weir --help`,
    )
  const command = named ?? must(commands[0], 'the default command')
  const { values, positionals } = parseFlags(args, command, command === commands[0])
  if (named !== undefined) positionals.shift()
  const help = values['help'] === true
  if (!help) checkPositionals(command, positionals)
  const flags = new Map<string, string>()
  for (const { flag } of command.flags) {
    const value = values[flag]
    if (value !== undefined) flags.set(flag, typeof value === 'string' ? value : '')
  }
  return { named, help, input: { config: readConfig(values, env), positionals, flags } }
}

type Values = Readonly<Record<string, string | boolean | undefined>>

function readConfig(values: Values, env: NodeJS.ProcessEnv): Config {
  const config: Record<string, unknown> = {}
  for (const [name, one] of entries()) {
    const flagged = one.flag === null ? undefined : values[one.flag]
    const given = typeof flagged === 'string' ? flagged : (env[one.env] ?? one.fallback)
    const parsed = one.parse(given)
    if (parsed === undefined) throw new CannotRun(`${spelling(one)} takes ${one.takes}, not "${given}"`)
    config[name] = parsed
  }
  const read = config as unknown as Config
  if ((read.clientId === '') !== (read.clientSecret === ''))
    throw new CannotRun('WEIR_CLIENT_ID and WEIR_CLIENT_SECRET are given both or not at all')
  const dataDir = isAbsolute(read.dataDir) ? read.dataDir : resolve(read.dataDir)
  return { ...read, dataDir }
}

/** Lines of the help, one per option; `onlyCommon` leaves out what the server alone takes. */
export function optionLines(onlyCommon: boolean): string[] {
  return entries()
    .filter(([, one]) => one.hidden !== true && (one.common === true || !onlyCommon))
    .map(([, one]) => {
      const left = one.flag === null ? '' : `--${one.flag} ${one.value}`
      const fallback = one.fallback === '' ? '' : ` [${one.fallback}]`
      return `  ${left.padEnd(28)} ${one.env.padEnd(20)} ${one.why}${fallback}`
    })
}

function entries(): [string, Option<unknown>][] {
  return Object.entries(OPTIONS)
}

function option<T>(
  flag: string | null,
  env: string,
  value: string,
  fallback: string,
  why: string,
  taken: Taken<T>,
): Option<T> {
  return { flag, env, value, fallback, why, ...taken }
}

function common<T>(one: Option<T>): Option<T> {
  return { ...one, common: true }
}

function hidden<T>(one: Option<T>): Option<T> {
  return { ...one, common: true, hidden: true }
}

function spelling(one: Option<unknown>): string {
  return one.flag === null ? one.env : `--${one.flag} (${one.env})`
}

type ParseOptions = Record<string, { type: 'string' | 'boolean' }>

function flagsOf(isTaken: (one: Option<unknown>) => boolean): ParseOptions {
  const options: ParseOptions = { help: { type: 'boolean' } }
  for (const [, one] of entries())
    if (one.flag !== null && isTaken(one)) options[one.flag] = { type: 'string' }
  return options
}

/** The command's name: a flag with a value of its own that comes before it must be an option. */
function firstPositional(args: readonly string[]): string | undefined {
  const options = flagsOf(() => true)
  const { tokens } = parseArgs({
    args: [...args],
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  return tokens.find(token => token.kind === 'positional')?.value
}

function parseFlags(args: readonly string[], command: Command, isDefault: boolean) {
  const options = flagsOf(one => isDefault || one.common === true)
  for (const { flag, value } of command.flags) {
    assert(options[flag] === undefined, `--${flag} of weir ${command.name} has a name of its own`)
    options[flag] = { type: value === '' ? 'boolean' : 'string' }
  }
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new CannotRun(
      `${misread(error as Error, args, command, valueNameOf)}; see weir ${command.name} --help`,
    )
  }
}

/** What stands for an option's value in the help; '' for one without. */
function valueNameOf(flag: string): string {
  return entries().find(([, one]) => one.flag !== null && `--${one.flag}` === flag)?.[1].value ?? ''
}
