/**
 * `npm run test:terraform -- --provider <folder>`: the Terraform provider against a real Weir.
 *
 * `<folder>` holds the source of terraform-provider-propel. Its own acceptance tests run first;
 * only the one of materialized views may fail. Then `terraform` applies examples/terraform as a
 * user would: apply, an empty plan, a change, a new column, destroy. Two destructions that end
 * between the pool and its source are brought to their end. Last, the folder is moved into a
 * cluster, where there is one, and nothing is left to plan. It needs `go` and `terraform`, and Go's
 * module proxy for the provider's dependencies. It takes some ten minutes, because the provider
 * polls every 10 s.
 */
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { say, warn } from '../../src/util/say.ts'
import { endAll } from '../cluster/at-end.ts'
import { applicationOf, noModernCluster, startModernCluster } from '../cluster/nodes.ts'
import { weir } from '../tools/folder.ts'
import { freePort, removeLeftovers, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

/** Weir refuses materialized views. */
const MAY_FAIL = ['TestAccPropelMaterializedViewBasic']
const TEST_MINUTES_MAX = 30
const EXAMPLE = fileURLToPath(new URL('../../../examples/terraform', import.meta.url))
/** `terraform plan -detailed-exitcode`: nothing to do, or something. */
const EMPTY_PLAN = 0
const CHANGES_PLANNED = 2

class Missing extends Error {}

function need(command: string, args: readonly string[]): void {
  if (spawnSync(command, args, { stdio: 'ignore' }).error !== undefined)
    throw new Missing(`the command \`${command}\` is needed`)
}

function providerFolder(): string {
  const { values } = parseArgs({ options: { provider: { type: 'string' } } })
  const folder = values.provider ?? process.env['WEIR_TERRAFORM_PROVIDER'] ?? ''
  if (folder === '' || !existsSync(join(folder, 'go.mod')))
    throw new Missing('give --provider the folder with the source of terraform-provider-propel (its go.mod)')
  return folder
}

type Environment = Readonly<Record<string, string>>

/** What the provider reads to reach a server. */
function environmentOf(server: TestServer): Environment {
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as {
    readonly clientId: string
    readonly clientSecret: string
  }
  return {
    PROPEL_CLIENT_ID: admin.clientId,
    PROPEL_CLIENT_SECRET: admin.clientSecret,
    PROPEL_OAUTH_URL: `${server.base}/oauth2/token`,
    PROPEL_API_URL: `${server.base}/graphql`,
  }
}

interface Ran {
  readonly code: number | null
  readonly output: string
}

/** Runs a command to its end and prints the lines that `shows`. */
async function run(
  [command, ...args]: readonly [string, ...string[]],
  cwd: string,
  env: Environment,
  shows: (line: string) => boolean = () => false,
): Promise<Ran> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', line => {
      lines.push(line)
      if (shows(line)) say(`  ${line.trim()}`)
    })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, output: lines.join('\n') }
}

/** Runs the provider's own tests. Returns the names of those that failed and may not. */
async function acceptanceTests(provider: string, env: Environment): Promise<readonly string[]> {
  say('acceptance tests of the provider:')
  const command = ['go', 'test', '-v', './...', '-count=1', '-timeout', `${TEST_MINUTES_MAX}m`] as const
  const { output } = await run([...command, '-parallel', '3'], provider, { ...env, TF_ACC: '1' }, line =>
    /^--- (?:PASS|FAIL|SKIP)|^(?:FAIL|ok)\s/.test(line),
  )
  const results = [...output.matchAll(/^--- (PASS|FAIL|SKIP): (\S+)/gm)]
  const named = (result: string) => results.filter(each => each[1] === result).map(each => each[2]!)
  const failed = named('FAIL')
  say(
    `passed ${named('PASS').length}, failed ${failed.length}${failed.length > 0 ? `: ${failed.join(', ')}` : ''}`,
  )
  if (results.length === 0) warn(output)
  for (const name of failed) warn(errorOf(output, name))
  return [
    ...failed.filter(name => !MAY_FAIL.includes(name)),
    ...(results.length === 0 ? ['no test ran'] : []),
  ]
}

/** The last lines before a test's verdict that tell of an error. */
function errorOf(output: string, name: string): string {
  const verdict = output.indexOf(`--- FAIL: ${name} `)
  const errors = output
    .slice(0, verdict)
    .split('\n')
    .filter(line => /\bError\b|error:/.test(line))
  return `${name}: ${errors.slice(-3).join('\n')}`
}

/** Runs `terraform` and returns its output. Throws where its exit code is not `wanted`. */
type Terraform = (what: string, wanted: number, ...args: readonly string[]) => Promise<string>

/** `terraform` over a copy of the example, with the provider built from source. */
async function makeTerraform(provider: string, env: Environment): Promise<Terraform> {
  const folder = temporaryFolder('weir-terraform-')
  const built = await run(['go', 'build', '-o', join(folder, 'terraform-provider-propel')], provider, {})
  if (built.code !== 0) throw new Error(`go build failed: ${built.output}`)
  cpSync(EXAMPLE, folder, { recursive: true })
  const rc = join(folder, 'terraformrc')
  writeFileSync(
    rc,
    `provider_installation {\n  dev_overrides {\n    "propeldata/propel" = ${JSON.stringify(folder)}\n  }\n  direct {}\n}\n`,
  )
  return async (what, wanted, command = '', ...args) => {
    const { code, output } = await run(['terraform', command, ...args], folder, {
      ...env,
      TF_CLI_ARGS: '-no-color',
      TF_CLI_CONFIG_FILE: rc,
      TF_VAR_oauth_url: env['PROPEL_OAUTH_URL'] ?? '',
      TF_VAR_api_url: env['PROPEL_API_URL'] ?? '',
      CHECKPOINT_DISABLE: '1',
    })
    if (code !== wanted) throw new Error(`${what}: exit ${code}, not ${wanted}\n${output}`)
    say(`  ${what}: ${/^(?:Apply|Destroy) complete.*|^No changes.*|^Plan:.*/m.exec(output)?.[0] ?? 'done'}`)
    return output
  }
}

/** Applies, changes and destroys the example as a user does. Throws at the first surprise. */
async function example(terraform: Terraform, server: TestServer): Promise<void> {
  say('examples/terraform:')
  const apply = (what: string, ...more: string[]) => terraform(what, 0, 'apply', '-auto-approve', ...more)
  const plan = (what: string, wanted: number, ...more: string[]) =>
    terraform(what, wanted, 'plan', '-detailed-exitcode', ...more)
  await apply('apply')
  await plan('second plan', EMPTY_PLAN)
  const changed = ['-var=description=Orders of the shop']
  await plan('plan of a change', CHANGES_PLANNED, ...changed)
  await apply('change', ...changed)
  await plan('plan after the change', EMPTY_PLAN, ...changed)
  const wider = [...changed, '-var=with_country=true']
  await apply('new column', ...wider)
  await plan('plan after the new column', EMPTY_PLAN, ...wider)
  const { data } = await server.graphql<{ dataPoolByName: { columns: { nodes: { columnName: string }[] } } }>(
    '{ dataPoolByName(uniqueName: "shop_orders") { columns { nodes { columnName } } } }',
  )
  const columns = data.dataPoolByName.columns.nodes.map(node => node.columnName)
  if (columns.at(-1) !== 'country') throw new Error(`the pool has the columns ${columns.join(', ')}`)
  await terraform('destroy', 0, 'destroy', '-auto-approve', ...wider)
}

const SOURCE = 'propel_data_source.orders'
/** They are destroyed before the source. */
const DEPENDENTS = [
  'propel_metric.revenue',
  'propel_metric.average_order',
  'propel_data_pool_access_policy.one_customer',
]

/**
 * A destruction that ends after it has deleted the pool: the source is gone too, and still in
 * Terraform's state. Both ways out that docs/graphql.md names are tried.
 */
async function interruptedDestructions(terraform: Terraform, server: TestServer): Promise<void> {
  say('a destruction that ends between the pool and its source:')
  const destroy = (what: string, wanted: number, ...more: string[]) =>
    terraform(what, wanted, 'destroy', '-auto-approve', ...more)
  for (const way of ['-refresh=false', 'state rm']) {
    await terraform('apply', 0, 'apply', '-auto-approve')
    await destroy('first part', 0, ...DEPENDENTS.map(name => `-target=${name}`))
    const { errors } = await server.graphql('mutation { deleteDataPoolByName(uniqueName: "shop_orders") }')
    if (errors !== undefined) throw new Error(JSON.stringify(errors))
    const refused = await destroy('destroy again', 1)
    if (!refused.includes('Data Source not found')) throw new Error(refused)
    if (way === 'state rm') await terraform(way, 0, 'state', 'rm', SOURCE)
    await destroy(`destroy with ${way}`, 0, ...(way === 'state rm' ? [] : [way]))
    const left = await terraform('what is left', 0, 'state', 'list')
    if (left.trim() !== '') throw new Error(`${way} leaves ${left}`)
  }
}

/** What Terraform made on a data folder stands in a cluster, at the same address, as it was. */
async function moved(terraform: Terraform, server: TestServer): Promise<void> {
  const no = noModernCluster()
  if (no !== undefined) return say(`a move into a cluster: ${no}`)
  say('a move into a cluster:')
  await terraform('apply', 0, 'apply', '-auto-approve')
  await server.stop()
  const { settings, node } = await startModernCluster()
  const { code, output } = await weir(['move', '--data-dir', server.dataDir], settings)
  if (code !== 0) throw new Error(output)
  await node(['--port', new URL(server.base).port], applicationOf(server))
  await terraform('plan after the move', EMPTY_PLAN, 'plan', '-detailed-exitcode')
  await terraform('destroy', 0, 'destroy', '-auto-approve')
  await endAll()
}

try {
  const source = providerFolder()
  need('go', ['version'])
  need('terraform', ['version'])
  // Go writes nothing into a copy that others use.
  const provider = join(temporaryFolder('weir-provider-'), 'provider')
  cpSync(source, provider, { recursive: true })
  const server = await startServer({ args: ['--port', await freePort()] })
  const env = environmentOf(server)
  const failed = await acceptanceTests(provider, env)
  const terraform = await makeTerraform(provider, env)
  await example(terraform, server)
  await interruptedDestructions(terraform, server)
  await moved(terraform, server)
  await server.stop()
  say(failed.length === 0 ? 'all that must pass passed' : `failed: ${failed.join(', ')}`)
  process.exitCode = failed.length === 0 ? 0 : 1
} catch (error) {
  warn(error instanceof Missing ? error.message : ((error as Error).stack ?? String(error)))
  process.exitCode = error instanceof Missing ? 2 : 1
} finally {
  removeLeftovers()
}
