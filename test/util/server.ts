/**
 * The real server as a child process on a temporary folder, and the client calls of the tests.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { nodeEnvironment } from './cluster-node.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

/** A column as createWebhookDataSource takes it. */
export interface ColumnSpec {
  readonly name: string
  readonly jsonProperty: string
  readonly type: string
  readonly nullable: boolean
  readonly coerce?: boolean
}

/** The settings of a new pool. */
export interface PoolSpec {
  readonly uniqueName?: string
  readonly columns?: readonly ColumnSpec[]
  readonly timestamp?: string
  readonly uniqueId?: string
  readonly tenant?: string
  readonly accessControlEnabled?: boolean
  readonly basicAuth?: { readonly username: string; readonly password: string }
  /** TableSettingsInput. */
  readonly tableSettings?: Readonly<Record<string, unknown>>
  readonly accept?: readonly string[]
  /** WebhookSignatureInput. */
  readonly signature?: Readonly<Record<string, unknown>>
  readonly preset?: string
  readonly verifyToken?: string
  readonly eventsPath?: string
  readonly keepEnvelope?: boolean
}

/** A created pool. */
export interface TestPool {
  readonly sourceId: string
  readonly poolId: string
  readonly url: string
}

/** The end of a child: exit code or signal, and everything that it printed. */
interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly output: string
}

/** What a test asks of a server, or of a balancer in front of some. */
export interface TestClient {
  readonly base: string
  readonly dataDir: string
  graphql<T = Record<string, unknown>>(
    query: string,
    variables?: unknown,
  ): Promise<{ data: T; errors?: GraphqlError[] }>
  createPool(spec: PoolSpec): Promise<TestPool>
  /** The value of a counter over a pool. */
  count(poolId: string, input?: Record<string, unknown>): Promise<string | null>
  sum(poolId: string, column: string, input?: Record<string, unknown>): Promise<string | null>
}

export interface TestServer extends TestClient {
  readonly child: ChildProcess
  /** Resolves when the process has ended. */
  readonly ended: Promise<Ended>
  /** Everything printed so far. */
  output(): string
  /** Sends SIGTERM and waits for the end. */
  stop(): Promise<Ended>
  /** Sends SIGKILL and waits for the end. */
  kill(): Promise<Ended>
}

interface GraphqlError {
  readonly message: string
  readonly extensions?: { readonly code?: string }
}

/** The folders that this process must remove. */
const folders = new Set<string>()

/** A fresh folder, removed when the test file ends. */
export function temporaryFolder(name = 'weir-'): string {
  const folder = mkdtempSync(join(tmpdir(), name))
  folders.add(folder)
  return folder
}

/** A port that is free and that no connection has used. */
export async function freePort(): Promise<string> {
  const holder = createServer().listen(0, '127.0.0.1')
  await once(holder, 'listening')
  const { port } = holder.address() as AddressInfo
  holder.close()
  await once(holder, 'close')
  return String(port)
}

/** Kills the servers that still run, and removes the folders. */
export function removeLeftovers(): void {
  for (const child of children) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  folders.clear()
}

/** The options of the child process. */
export interface StartOptions {
  /** The main.js of another build, such as an older commit. */
  readonly main?: string
  /** RLIMIT_NOFILE of the process, soft and hard. */
  readonly descriptorsMax?: number
  /** A program with its arguments that runs the server's command. */
  readonly under?: readonly string[]
  readonly dataDir?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Starts the server and waits until it is ready. Rejects with its output if it ends before. */
export async function startServer(options: StartOptions = {}): Promise<TestServer> {
  const dataDir = options.dataDir ?? join(temporaryFolder(), 'data')
  const { child, ended, output, ready } = spawnServer({ ...options, dataDir })
  const base = await ready
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    return await ended
  }
  return {
    ...clientOf(base, dataDir),
    child,
    ended,
    output,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  }
}

/** Asks an address as the first application of a data folder. */
export function clientOf(base: string, dataDir: string): TestClient {
  const tokens = { value: '' }
  const graphql = async (query: string, variables?: unknown) => {
    if (tokens.value === '') tokens.value = await fetchToken(base, dataDir)
    const answer = await fetch(`${base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.value}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    })
    return (await answer.json()) as never
  }
  return {
    base,
    dataDir,
    graphql,
    createPool: spec => createPool(graphql, spec),
    count: (poolId, input = {}) =>
      counter(graphql, { ...input, metric: { count: { dataPool: { id: poolId } } } }),
    sum: (poolId, columnName, input = {}) =>
      counter(graphql, { ...input, metric: { sum: { dataPool: { id: poolId }, measure: { columnName } } } }),
  }
}

/** The running servers. None outlives the test process. */
const children = new Set<ChildProcess>()
process.once('exit', removeLeftovers) // scripts that are no tests use this file too

/**
 * Starts the process without waiting. `ready` resolves to the address, or rejects with the output
 * where the process ends first.
 */
export function spawnServer(options: StartOptions & { readonly dataDir: string }) {
  const { main = MAIN, descriptorsMax, under = [], dataDir, args = [], env } = options
  const command = [...under, process.execPath, main, 'start', '--port', '0', '--data-dir', dataDir, ...args]
  const limited =
    descriptorsMax === undefined
      ? command
      : ['sh', '-c', `ulimit -n ${descriptorsMax} && exec "$@"`, 'sh', ...command]
  const child = spawn(limited[0]!, limited.slice(1), {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Another build may know no other store.
    env: { ...process.env, ...(main === MAIN ? nodeEnvironment(dataDir) : {}), ...env },
  })
  children.add(child)
  child.once('close', () => children.delete(child))
  let printed = ''
  const ready = new Promise<string>((resolve, reject) => {
    const read = (line: string) => {
      printed += `${line}\n`
      const match = /listening on (https?:\/\/[^\s"]+)/.exec(line)
      if (match?.[1] !== undefined) resolve(match[1])
    }
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', read)
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', read)
    child.once('close', (code, signal) =>
      reject(new Error(`server ended (${code ?? signal}) before it was ready:\n${printed}`)),
    )
  })
  ready.catch(() => undefined) // a test may wait for `ended` only
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, output: printed }) as Ended)
  return { child, ended, ready, output: () => printed }
}

/** The process id of a server's queries; undefined while there is none. */
export function queryProcess(server: Pick<TestServer, 'child'>): number | undefined {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const [, comm, parent] =
        /^\d+ \((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
      if (comm === 'weir-query' && Number(parent) === server.child.pid) return Number(name)
    } catch {} // it has ended
  }
  return undefined
}

export interface Credentials {
  readonly clientId: string
  readonly clientSecret: string
}

/** Those of the first application. */
export function adminOf(dataDir: string): Credentials {
  return JSON.parse(readFileSync(join(dataDir, 'admin.json'), 'utf8')) as Credentials
}

/** The first application's token, with all scopes. */
export async function fetchToken(base: string, dataDir: string, scope?: string): Promise<string> {
  const admin = adminOf(dataDir)
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: admin.clientId,
    client_secret: admin.clientSecret,
    ...(scope === undefined ? {} : { scope }),
  })
  const answer = await fetch(`${base}/oauth2/token`, { method: 'POST', body: form })
  if (answer.status !== 200) throw new Error(`token: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { access_token: string }).access_token
}

export type Graphql = (
  query: string,
  variables?: unknown,
) => Promise<{ data: never; errors?: GraphqlError[] }>

export async function createPool(graphql: Graphql, spec: PoolSpec): Promise<TestPool> {
  const { uniqueName, ...connectionSettings } = spec
  const { data, errors } = await graphql(
    `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource {
       id connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } dataPools { nodes { id } } } } }`,
    { input: { ...(uniqueName === undefined ? {} : { uniqueName }), connectionSettings } },
  )
  if (errors !== undefined) throw new Error(`createWebhookDataSource: ${errors[0]?.message}`)
  const source = (data as { createWebhookDataSource: { dataSource: CreatedSource } }).createWebhookDataSource
    .dataSource
  return {
    sourceId: source.id,
    poolId: source.dataPools.nodes[0]?.id ?? '',
    url: source.connectionSettings.webhookUrl,
  }
}

interface CreatedSource {
  readonly id: string
  readonly connectionSettings: { readonly webhookUrl: string }
  readonly dataPools: { readonly nodes: readonly { readonly id: string }[] }
}

async function counter(graphql: Graphql, input: Record<string, unknown>): Promise<string | null> {
  const { data, errors } = await graphql(
    'query ($input: CounterInput!) { counter(input: $input) { value } }',
    { input },
  )
  if (errors !== undefined)
    throw new CounterFailed(errors[0]?.message ?? '?', errors[0]?.extensions?.code ?? '?')
  return (data as { counter: { value: string | null } }).counter.value
}

/** A counter answered with an error. */
export class CounterFailed extends Error {
  readonly code: string
  constructor(message: string, code: string) {
    super(`${code}: ${message}`)
    this.code = code
  }
}

/** Posts or deletes JSON. Returns status, headers and the decoded body. */
export async function send(url: string, body: unknown, method: 'POST' | 'DELETE' = 'POST') {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = await fetch(url, { method, body: text, headers: { 'content-type': 'application/json' } })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as unknown }
}
