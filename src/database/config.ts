/**
 * Every option, declared once: flag, environment name, default, unit, reason. The type Config, the
 * parser and `weir --help` come from this table. Only this file and set-up take settings from
 * `process.env`. app/commands.ts lists the flags of single commands.
 */

import { isAbsolute, resolve } from 'node:path'
import { withoutEndSlashes } from '../util/addresses.ts'
import { CannotRun, must } from '../util/errors.ts'
import {
  CLIENT_SECRET_CHARACTERS_MIN,
  CONNECTIONS_MAX,
  DESCRIPTORS_RESERVED,
  HTTP_IDLE_MS_MAX,
  LOG_FILE_BYTES,
  LOG_FILE_BYTES_MIN,
  MiB,
  SCRUB_BEGIN_MS,
} from '../util/limits.ts'
import { isMisspelt } from '../util/misspelt.ts'
import { LOG_LEVELS, type LogSettings } from '../util/say.ts'

/** The largest staleness that an operator may allow to queries. */
const STALENESS_MS_MAX = 60_000
/** The most memory that an operator may give to answers. */
const ANSWER_CACHE_MIB_MAX = 4_096
/** Interval at which pools are inspected for merges and waiting merges start. */
const COMPACT_TICK_MS = 1_000
/** Bytes a second that a backup of a running server copies, so that ingest does not suffer. */
const BACKUP_BYTES_PER_SECOND = 64 * MiB
const ANSWER_CACHE =
  'memory of answers that are given again while nothing of their data pools changed; 0: none'
const QUERY_THREADS = 'threads of queries, of which half as many run at once: 2 to 8; 0: one for each core'
/** DuckDB takes more, and queries of no machine need them. */
const QUERY_THREADS_MAX = 256
const STALENESS = 'a query may miss what was acknowledged in the last so many ms; 0: it misses nothing'
const STOP_DELAY = 'after SIGTERM all is answered for so long, while /readyz is 503: for balancers'

export interface Option<T> extends Taken<T> {
  /** Null where it comes by the environment alone, which may have secrets. */
  readonly flag: string | null
  readonly env: string
  readonly value: string
  readonly fallback: string
  readonly why: string
  readonly hidden?: true
  /** Taken by every command, not by the server alone. */
  readonly common?: true
}

/** @param usage the flag with its value; a choice tells its own */
function option<T>(usage: string, fallback: string | number, why: string, taken: Taken<T>): Option<T> {
  const [flag = '', value = taken.choices ?? ''] = usage.split(' ')
  const env = `WEIR_${flag.toUpperCase().replaceAll('-', '_')}`
  return { flag, env, value, fallback: String(fallback), why, ...taken }
}

function common<T>(...declared: Parameters<typeof option<T>>): Option<T> {
  return { ...option(...declared), common: true }
}

function environment<T>(env: string, fallback: string, why: string, taken: Taken<T>): Option<T> {
  return { flag: null, env, value: '', fallback, why, ...taken }
}

/** A setting of a cluster. */
function cluster<T>(env: string, fallback: string, why: string, taken: Taken<T>): Option<T> {
  return { ...environment(env, fallback, `cluster: ${why}`, taken), common: true }
}

/** An option of tests. Every command takes it, and the help leaves it out. */
function hidden<T>(usage: string, fallback: string | number, taken: Taken<T>): Option<T> {
  return { ...common(usage, fallback, '', taken), hidden: true }
}

/** The accepted values in words, and the parser, which returns undefined for any other text. */
interface Taken<T> {
  readonly takes: string
  readonly parse: (text: string) => T | undefined
  /** All of them, as the help shows a choice. */
  readonly choices?: string
  /** Not repeated in messages. */
  readonly isSecret?: true
}

const TEXT: Taken<string> = { takes: 'a text', parse: value => (value === '' ? undefined : value) }
const ANY_TEXT: Taken<string> = { takes: 'any text', parse: value => value }
const HTTP_URL: Taken<string> = {
  takes: 'a URL that begins with http:// or https://',
  parse: value => (value === '' || /^https?:\/\/[^/]/.test(value) ? withoutEndSlashes(value) : undefined),
}
const choice = <T extends string>(...choices: readonly T[]): Taken<T> => ({
  takes: choices.filter(one => one !== '').join(' or '),
  choices: choices.filter(one => one !== '').join('|'),
  parse: value => choices.find(one => one === value),
})
const integer = (from: number, to: number): Taken<number> => ({
  takes: `a whole number from ${from} to ${to}`,
  parse: value => {
    const number = /^\d+$/.test(value) ? Number(value) : Number.NaN
    return number >= from && number <= to ? number : undefined
  },
})

const SECRET: Taken<string> = {
  takes: `at least ${CLIENT_SECRET_CHARACTERS_MIN} printable ASCII characters without space or colon, such as openssl rand -hex 32 makes`,
  parse: value =>
    value === '' ||
    (/^[\x21-\x39\x3b-\x7e]{1,256}$/.test(value) && value.length >= CLIENT_SECRET_CHARACTERS_MIN)
      ? value
      : undefined,
  isSecret: true,
}

const PASSWORD: Taken<string> = { ...ANY_TEXT, isSecret: true }

/** Addresses of servers, as `host:port` with commas between. Empty for none. */
const SERVERS: Taken<readonly { readonly host: string; readonly port: number }[]> = {
  takes: 'addresses as host:port, with commas between',
  parse: value => {
    const servers =
      value === '' ? [] : value.split(',').map(one => /^\[?([^[\]]+)\]?:(\d{1,5})$/.exec(one.trim()))
    const parsed = servers.flatMap(found => (found ? [{ host: found[1] ?? '', port: Number(found[2]) }] : []))
    return parsed.length === servers.length ? parsed : undefined
  },
}

/** URLs of servers, with commas between. Empty for none. */
const HTTP_URLS: Taken<readonly string[]> = {
  takes: 'URLs that begin with http:// or https://, with commas between',
  parse: value => {
    const urls = value === '' ? [] : value.split(',').map(one => HTTP_URL.parse(one.trim()) ?? '')
    return urls.includes('') ? undefined : urls
  },
}

const SECRET_KEY: Taken<string> = {
  takes: '32 bytes in 64 hexadecimal digits, such as openssl rand -hex 32 makes',
  parse: value => (value === '' || /^[0-9a-fA-F]{64}$/.test(value) ? value : undefined),
  isSecret: true,
}

const KEEPER_PATH: Taken<string> = {
  takes: 'a path as /weir, of letters, digits, "-", "_" and "."',
  parse: value => (/^(?:\/[\w.-]+)+$/.test(value) ? value : undefined),
}

const SHA256: Taken<string> = {
  takes: 'a SHA-256 in 64 hexadecimal digits',
  parse: value => (value === '' || /^[0-9a-fA-F]{64}$/.test(value) ? value.toLowerCase() : undefined),
}

const OPTIONS = {
  host: option('host ADDRESS', '127.0.0.1', 'address to listen on', TEXT),
  port: option('port NUMBER', '8420', 'port to listen on; 0 takes any free one', integer(0, 65535)),
  dataDir: common('data-dir FOLDER', './data', 'the data folder; one process at a time', TEXT),
  store: common(
    'store',
    'local',
    'local: rows and catalog in the data folder; clickhouse: in a ClickHouse cluster and its Keeper',
    choice('local', 'clickhouse'),
  ),
  clickhouseUrl: cluster(
    'WEIR_CLICKHOUSE_URL',
    '',
    'HTTP addresses of all servers, with commas between',
    HTTP_URLS,
  ),
  clickhouseUser: cluster('WEIR_CLICKHOUSE_USER', 'default', "Weir's user of ClickHouse", TEXT),
  clickhousePassword: cluster('WEIR_CLICKHOUSE_PASSWORD', '', 'its password', PASSWORD),
  clickhouseCa: cluster(
    'WEIR_CLICKHOUSE_CA',
    '',
    'file of the authorities that its https addresses are signed by, in PEM',
    ANY_TEXT,
  ),
  clickhouseDatabase: cluster(
    'WEIR_CLICKHOUSE_DATABASE',
    'default',
    'the database of the tables, which is there',
    TEXT,
  ),
  clickhouseCluster: cluster(
    'WEIR_CLICKHOUSE_CLUSTER',
    'default',
    'name of the cluster in remote_servers',
    TEXT,
  ),
  clickhouseQuorum: cluster(
    'WEIR_CLICKHOUSE_QUORUM',
    '0',
    'replicas of a shard that have an event before its 200; 0: the majority',
    integer(0, 100),
  ),
  keeper: cluster('WEIR_KEEPER', '', 'servers of Keeper as host:port, with commas between', SERVERS),
  keeperPath: cluster('WEIR_KEEPER_PATH', '/weir', 'where Keeper has the catalog', KEEPER_PATH),
  keeperAuth: cluster('WEIR_KEEPER_AUTH', '', 'user:password of the digest scheme', PASSWORD),
  keeperCa: cluster(
    'WEIR_KEEPER_CA',
    '',
    'TLS to Keeper; file of the authorities that it is signed by, in PEM',
    ANY_TEXT,
  ),
  keeperSessionMs: cluster(
    'WEIR_KEEPER_SESSION_MS',
    '10000',
    'a node that Keeper does not hear for so long is none',
    integer(1_000, 120_000),
  ),
  secretKey: cluster(
    'WEIR_SECRET_KEY',
    '',
    'seals the secrets of the catalog; the same on all nodes',
    SECRET_KEY,
  ),
  publicUrl: option(
    'public-url URL',
    '',
    'prefix of webhookUrl, when clients reach Weir by another name (default http://host:port)',
    HTTP_URL,
  ),
  clientId: environment('WEIR_CLIENT_ID', '', 'client id of the first application', ANY_TEXT),
  clientSecret: environment('WEIR_CLIENT_SECRET', '', 'its secret; both or neither', SECRET),
  metricsToken: environment(
    'WEIR_METRICS_TOKEN',
    '',
    'GET /metrics takes this Bearer token alone; without one it answers on a loopback --host only',
    SECRET,
  ),
  durability: option(
    'durability',
    'fsync',
    'fsync: a 200 survives a power cut; os: it survives the death of the process only',
    choice('fsync', 'os'),
  ),
  kernel: common(
    'kernel',
    '',
    'JSON kernel and key loop (default native where it was built, else js)',
    choice('', 'native', 'js'),
  ),
  http: option(
    'http',
    '',
    'HTTP library (default uws where its binary loads, else node, which is node:http)',
    choice('', 'uws', 'node'),
  ),
  httpSha256: option(
    'http-sha256 HEX',
    '',
    'loads a uWebSockets.js binary of this SHA-256 in place of the known one',
    SHA256,
  ),
  tlsCert: option(
    'tls-cert FILE',
    '',
    'serves https with this certificate, in PEM with those of its issuers; read again when it changes',
    ANY_TEXT,
  ),
  tlsKey: option('tls-key FILE', '', 'its private key, in PEM; both or neither', ANY_TEXT),
  chunked: option(
    'chunked',
    'on',
    'off answers 411 to bodies in chunks: behind a proxy that forwards chunk lines unchanged',
    choice('on', 'off'),
  ),
  console: option(
    'console',
    'on',
    'the pages at / for people who look at sources and events; off answers 404',
    choice('on', 'off'),
  ),
  rateLimit: option(
    'rate-limit EVENTS',
    '0',
    'events per second and pool; more is answered 429; 0 is off',
    integer(0, 1_000_000_000),
  ),
  connections: option(
    'connections NUMBER',
    '0',
    `connections at once, more are closed; 0: the limit of open files less ${DESCRIPTORS_RESERVED}, at most ${CONNECTIONS_MAX}`,
    integer(0, 1_000_000),
  ),
  keepAliveSeconds: option(
    'keep-alive SECONDS',
    HTTP_IDLE_MS_MAX / 1000,
    'over node:http an idle connection closes after so long; uWebSockets.js closes it after 8 to 12 s',
    integer(1, 3_600),
  ),
  stopDelaySeconds: option('stop-delay SECONDS', '0', STOP_DELAY, integer(0, 3_600)),
  stalenessMs: {
    ...option('staleness MS', '0', STALENESS, integer(0, STALENESS_MS_MAX)),
    env: 'WEIR_STALENESS_MS',
  },
  queryThreads: option('query-threads N', '0', QUERY_THREADS, integer(0, QUERY_THREADS_MAX)),
  answerCacheMib: {
    ...option('answer-cache MIB', '64', ANSWER_CACHE, integer(0, ANSWER_CACHE_MIB_MAX)),
    env: 'WEIR_ANSWER_CACHE_MIB',
  },
  logFormat: common(
    'log-format',
    'text',
    'lines of operation: text, or an object of JSON each, with time, level and message',
    choice('text', 'json'),
  ),
  logLevel: common(
    'log-level',
    'info',
    'writes lines of operation of this level and of more urgent ones',
    choice(...LOG_LEVELS),
  ),
  /** Kills the process at a named point. */
  crashAt: hidden('crash-at POINT[:N]', '', ANY_TEXT),
  /** Interval of the compaction tick. Recent flushes of idle pools are freed after 60 ticks. */
  compactTickMs: hidden('compact-tick-ms MS', COMPACT_TICK_MS, integer(1, 3_600_000)),
  /** Time after ready at which the scrub begins. */
  scrubBeginMs: hidden('scrub-begin-ms MS', SCRUB_BEGIN_MS, integer(0, 3_600_000)),
  /** The clock of retention runs ahead. */
  retentionDaysAhead: hidden('retention-days-ahead DAYS', 0, integer(0, 100_000)),
  /** Rate at which a backup of a running server copies. */
  backupBytesPerSecond: hidden(
    'backup-bytes-per-second BYTES',
    BACKUP_BYTES_PER_SECOND,
    integer(1, 1_000_000_000_000),
  ),
  /** Calls of the disk that fail while a file exists; see util/fault-injection.ts. */
  faultAt: hidden('fault-at FAULTS', '', ANY_TEXT),
  /** Size of the largest log file; small ones are changed often. */
  logFileBytes: hidden('log-file-bytes BYTES', LOG_FILE_BYTES, integer(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES)),
}

/** The options' values. */
export type Config = {
  readonly [K in keyof typeof OPTIONS]: Exclude<ReturnType<(typeof OPTIONS)[K]['parse']>, undefined>
}

export type Values = Readonly<Record<string, string | boolean | undefined>>

/**
 * Lets packages that are loaded later leave out their checks for developers: graphql else looks for
 * a second copy of itself at each check of a type.
 */
export function setProduction(env: NodeJS.ProcessEnv = process.env): void {
  env['NODE_ENV'] ??= 'production'
}

/** Reads flags, then the environment, then defaults. @throws CannotRun naming the option */
export function readConfig(values: Values, env: NodeJS.ProcessEnv = process.env): Config {
  const config: Record<string, unknown> = {}
  for (const [name, one] of allOptions()) {
    const given = givenText(one, values, env)
    const parsed = one.parse(given)
    if (parsed === undefined) {
      const found = one.isSecret === true ? `what was given has ${given.length}` : `not "${given}"`
      const names = one.flag === null ? one.env : `--${one.flag} (${one.env})`
      throw new CannotRun(`${names} takes ${one.takes}, ${found}`)
    }
    config[name] = parsed
  }
  const read = config as unknown as Config
  if ((read.clientId === '') !== (read.clientSecret === ''))
    throw new CannotRun('WEIR_CLIENT_ID and WEIR_CLIENT_SECRET are given both or not at all')
  if ((read.tlsCert === '') !== (read.tlsKey === ''))
    throw new CannotRun('--tls-cert and --tls-key are given both or not at all')
  const dataDir = isAbsolute(read.dataDir) ? read.dataDir : resolve(read.dataDir)
  return { ...read, dataDir }
}

/** @throws CannotRun naming what a node of a cluster lacks. Commands need less */
export function checkNode(config: Config): void {
  const missing = missingSettings(config)
  if (config.clientId === '') missing.push('WEIR_CLIENT_ID and WEIR_CLIENT_SECRET')
  if (missing.length > 0) throw new CannotRun(`--store clickhouse needs ${missing.join(', ')}`)
}

/** The settings without which there is no way to a cluster. */
export function missingSettings({ clickhouseUrl, keeper, secretKey }: Config): string[] {
  const given: readonly (readonly [string, boolean])[] = [
    ['WEIR_CLICKHOUSE_URL', clickhouseUrl.length > 0],
    ['WEIR_KEEPER', keeper.length > 0],
    ['WEIR_SECRET_KEY', secretKey !== ''],
  ]
  return given.filter(([, isThere]) => !isThere).map(([name]) => name)
}

/** Sets a variable that a native library reads as it is loaded. */
export function setForLibrary(name: 'UWS_HTTP_MAX_HEADERS_SIZE', value: string): void {
  process.env[name] = value
}

/**
 * The collector of traces that the variables of OpenTelemetry name; undefined for no traces. Their
 * other variables are read by its libraries (util/tracing.ts).
 * @throws CannotRun
 */
export function tracesEndpoint(env: NodeJS.ProcessEnv = process.env): URL | undefined {
  const given = (name: string) =>
    env[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`]
  const url = given('ENDPOINT')?.trim() ?? ''
  const isDisabled = env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true'
  if (url === '' || isDisabled || env['OTEL_TRACES_EXPORTER'] === 'none') return undefined
  // A URL may have a password, so it is not repeated.
  if (HTTP_URL.parse(url) === undefined || !URL.canParse(url))
    throw new CannotRun(`OTEL_EXPORTER_OTLP_ENDPOINT takes ${HTTP_URL.takes}, and so does …_TRACES_ENDPOINT`)
  if ((given('PROTOCOL') || 'http/protobuf') !== 'http/protobuf')
    throw new CannotRun('OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf alone, mostly at port 4318')
  return new URL(url)
}

/** The variables by which tools of S3 name a server, a region and credentials (tools/bucket). */
export function bucketEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('AWS_')))
}

/** How the log is written. A wrong value counts as none here: its error is a line of the log. */
export function logSettingsOf(values: Values, env: NodeJS.ProcessEnv = process.env): LogSettings {
  const read = <T>(one: Option<T>): T =>
    one.parse(givenText(one, values, env)) ?? must(one.parse(one.fallback), 'a default')
  return { format: read(OPTIONS.logFormat), level: read(OPTIONS.logLevel) }
}

function givenText({ flag, env: name, fallback }: Option<unknown>, values: Values, env: NodeJS.ProcessEnv) {
  const flagged = flag === null ? undefined : values[flag]
  return typeof flagged === 'string' ? flagged : (env[name] ?? fallback)
}

/** Lines of the help, one per option; `onlyCommon` leaves out what the server alone takes. */
export function optionLines(onlyCommon: boolean): string[] {
  return allOptions()
    .filter(([, one]) => one.hidden !== true && (one.common === true || !onlyCommon))
    .map(([, one]) => {
      const left = one.flag === null ? '' : `--${one.flag} ${one.value}`
      const fallback = one.fallback === '' ? '' : ` [${one.fallback}]`
      return `  ${left.padEnd(28)} ${one.env.padEnd(20)} ${one.why}${fallback}`
    })
}

/** All options with their names in Config. */
export function allOptions(): [string, Option<unknown>][] {
  return Object.entries(OPTIONS)
}

/**
 * Variables of the environment that are no option and are spelt like one. Others may belong to
 * another program.
 */
export function misspeltVariables(env: NodeJS.ProcessEnv = process.env): string[] {
  const known = allOptions().map(([, one]) => one.env)
  return Object.keys(env).flatMap(name => {
    if (!/^weir_/i.test(name) || known.includes(name)) return []
    const likely = known.find(one => isMisspelt(name, one))
    return likely === undefined ? [] : [`${name} is no option and has no effect: ${likely} may be meant`]
  })
}

/** Why a data folder is probably not meant to be new, in words. */
export function signsOfData({ clientId }: Config): string[] {
  const signs: string[] = []
  if (clientId !== '') signs.push('WEIR_CLIENT_ID is set')
  if ((process.env['INVOCATION_ID'] ?? '') !== '' || (process.env['NOTIFY_SOCKET'] ?? '') !== '')
    signs.push('a service manager started Weir')
  if (process.pid === 1) signs.push('Weir is the first process of a container')
  return signs
}
