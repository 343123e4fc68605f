/**
 * A whole cluster on one machine, to look at: a Keeper, two shards of two replicas of ClickHouse,
 * and two nodes of Weir. One Ctrl-C ends all of it. Nothing is left but the folder.
 *
 *   node examples/cluster/start.mjs [folder]        default ./cluster
 *
 *   CLICKHOUSE   the ClickHouse binary; default `clickhouse` or `clickhouse-server` of the PATH
 *
 * Keeper is ClickHouse's own, or Debian's ZooKeeper beside Debian's ClickHouse 18.16. That version
 * is older than Weir supports: questions go through a proxy of the tests, for counts and sums.
 */
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ZOOKEEPER = '/usr/share/java/zookeeper.jar'
const FOLDER = resolve(process.argv[2] ?? 'cluster')
const KEEPER_PORT = 19181
/** Of server n: http, tcp, replication and the proxy of the tests. */
const portsOf = n => ({ http: 18120 + n, tcp: 19000 + n, interserver: 19010 + n, proxy: 18130 + n })
const SERVERS = [0, 1, 2, 3].map(n => ({ n, shard: 1 + (n >> 1), replica: 1 + (n & 1), ...portsOf(n) }))
const NODES = [8420, 8421]
const UP_MS_MAX = 60_000

const children = []
let isEnding = false

/** Ends everything, the nodes first, and leaves with the code. */
async function end(code) {
  if (isEnding) return
  isEnding = true
  for (const { child, ended } of children.reverse()) {
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), 15_000)
    await ended
    clearTimeout(late)
  }
  process.exit(code)
}
process.on('SIGINT', () => end(0))
process.on('SIGTERM', () => end(0))

function fail(message) {
  process.stderr.write(`${message}\n`)
  return end(1)
}

function start(name, command, args, env = {}) {
  const log = join(FOLDER, `${name}.log`)
  const child = spawn('sh', ['-c', 'exec "$0" "$@" >> "$LOG" 2>&1', command, ...args], {
    env: { ...process.env, ...env, LOG: log },
    stdio: 'ignore',
    // A Ctrl-C reaches this process alone, which ends the others in order.
    detached: true,
  })
  const ended = new Promise(done => child.once('exit', done))
  children.push({ child, ended })
  void ended.then(() => isEnding || fail(`${name} has ended: see ${log}`))
}

async function isUp(name, ask) {
  for (const endMs = Date.now() + UP_MS_MAX; Date.now() < endMs; ) {
    try {
      if ((await ask()).ok) return
    } catch {} // not yet
    await new Promise(done => setTimeout(done, 200))
  }
  await fail(`${name} does not answer: see ${join(FOLDER, `${name}.log`)}`)
}

/** The binary, whether it is one for all, and its version. */
function findClickHouse() {
  for (const binary of [
    process.env.CLICKHOUSE,
    'clickhouse',
    'clickhouse-server',
    '/usr/sbin/clickhouse-server',
  ]) {
    if (binary === undefined) continue
    const found = spawnSync(binary, binary.endsWith('-server') ? ['--version'] : ['server', '--version'])
    if (found.error !== undefined) continue
    const version = /version (\d+)\.(\d+)/.exec(String(found.stdout))
    // Debian's does not tell its version so.
    return { binary, major: Number(version?.[1] ?? 18), minor: Number(version?.[2] ?? 16) }
  }
  return undefined
}

function serverConfig({ shard, replica, http, tcp, interserver }, folder, tag) {
  const shardXml = number => {
    const replicas = SERVERS.filter(one => one.shard === number)
    const xml = replicas.map(one => `<replica><host>127.0.0.1</host><port>${one.tcp}</port></replica>`)
    return `<shard><internal_replication>true</internal_replication>${xml.join('')}</shard>`
  }
  return `<${tag}>
  <logger><level>warning</level><log>${folder}/server.log</log><errorlog>${folder}/errors.log</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>${http}</http_port><tcp_port>${tcp}</tcp_port>
  <interserver_http_port>${interserver}</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path>
  <format_schema_path>${folder}/format_schemas/</format_schema_path>
  <mark_cache_size>67108864</mark_cache_size>
  <users_config>users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database><timezone>UTC</timezone>
  <zookeeper><node><host>127.0.0.1</host><port>${KEEPER_PORT}</port></node></zookeeper>
  <macros><shard>${shard}</shard><replica>r${replica}</replica></macros>
  <remote_servers><weir>${shardXml(1)}${shardXml(2)}</weir></remote_servers>
</${tag}>`
}

const usersConfig = tag => `<${tag}>
  <profiles><default></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</${tag}>`

function startKeeper({ binary, major }) {
  const folder = join(FOLDER, 'keeper')
  mkdirSync(folder, { recursive: true })
  if (major < 20) {
    const config = join(folder, 'zoo.cfg')
    const lines = [
      `dataDir=${folder}`,
      `clientPort=${KEEPER_PORT}`,
      'clientPortAddress=127.0.0.1',
      'tickTime=2000',
    ]
    writeFileSync(config, [...lines, 'admin.enableServer=false', 'maxClientCnxns=0'].join('\n'))
    const classes = `${ZOOKEEPER}:/usr/share/java/*:/etc/zookeeper/conf`
    return start('keeper', 'java', [
      '-cp',
      classes,
      'org.apache.zookeeper.server.ZooKeeperServerMain',
      config,
    ])
  }
  writeFileSync(
    join(folder, 'keeper.xml'),
    `<clickhouse><logger><level>warning</level><log>${folder}/server.log</log></logger>
  <listen_host>127.0.0.1</listen_host>
  <keeper_server><tcp_port>${KEEPER_PORT}</tcp_port><server_id>1</server_id>
    <log_storage_path>${folder}/log</log_storage_path><snapshot_storage_path>${folder}/snapshots</snapshot_storage_path>
    <raft_configuration><server><id>1</id><hostname>127.0.0.1</hostname><port>19234</port></server></raft_configuration>
  </keeper_server></clickhouse>`,
  )
  start('keeper', binary, ['keeper', `--config-file=${join(folder, 'keeper.xml')}`])
}

async function startServer(server, { binary, major }) {
  const name = `server-${server.shard}-${server.replica}`
  const folder = join(FOLDER, name)
  for (const part of ['data', 'tmp', 'format_schemas']) mkdirSync(join(folder, part), { recursive: true })
  const tag = major < 20 ? 'yandex' : 'clickhouse'
  writeFileSync(join(folder, 'config.xml'), serverConfig(server, folder, tag))
  writeFileSync(join(folder, 'users.xml'), usersConfig(tag))
  const sub = binary.endsWith('-server') ? [] : ['server']
  start(name, binary, [...sub, `--config-file=${join(folder, 'config.xml')}`])
  await isUp(name, () => fetch(`http://127.0.0.1:${server.http}/ping`))
}

/** The secrets of this cluster: made once, and kept in the folder. */
function secrets() {
  const file = join(FOLDER, 'secrets.json')
  if (!existsSync(file)) {
    const made = { client: randomBytes(24).toString('hex'), key: randomBytes(32).toString('hex') }
    writeFileSync(file, JSON.stringify(made), { mode: 0o600 })
  }
  return JSON.parse(readFileSync(file, 'utf8'))
}

async function startNodes(urls, { client, key }) {
  const env = {
    WEIR_STORE: 'clickhouse',
    WEIR_CLICKHOUSE_URL: urls.join(','),
    WEIR_CLICKHOUSE_CLUSTER: 'weir',
    WEIR_KEEPER: `127.0.0.1:${KEEPER_PORT}`,
    WEIR_SECRET_KEY: key,
    WEIR_CLIENT_ID: 'admin',
    WEIR_CLIENT_SECRET: client,
  }
  for (const [index, port] of NODES.entries()) {
    const name = `weir-${index + 1}`
    start(name, process.execPath, [join(ROOT, 'dist/src/app/main.js'), 'start', '--port', String(port)], env)
    await isUp(name, () => fetch(`http://127.0.0.1:${port}/readyz`))
  }
}

async function webhookOf(secret) {
  const base = `http://127.0.0.1:${NODES[0]}`
  const authorization = `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}`
  const form = {
    method: 'POST',
    headers: { authorization },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  }
  const { access_token: token } = await (await fetch(`${base}/oauth2/token`, form)).json()
  const query =
    '{ dataSources { nodes { uniqueName connectionSettings { ... on WebhookConnectionSettings { webhookUrl } } } } }'
  const asked = {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  }
  const answer = await fetch(`${base}/graphql`, { ...asked, body: JSON.stringify({ query }) })
  const { data } = await answer.json()
  const source = data.dataSources.nodes.find(({ uniqueName }) => uniqueName === 'events')
  return new URL(source.connectionSettings.webhookUrl).pathname
}

const clickHouse = findClickHouse()
if (clickHouse === undefined)
  await fail('There is no ClickHouse: set CLICKHOUSE to its binary, or apt-get install clickhouse-server')
if (clickHouse.major < 20 && !existsSync(ZOOKEEPER))
  await fail('ClickHouse 18.16 needs ZooKeeper: apt-get install zookeeper default-jre-headless')
mkdirSync(FOLDER, { recursive: true })
process.stdout.write('setting Weir up …\n')
if (
  spawnSync(process.execPath, [join(ROOT, 'src/setup.mjs')], { stdio: ['ignore', 'ignore', 'inherit'] })
    .status !== 0
)
  await fail('the set-up failed')
process.stdout.write(
  `starting Keeper and four servers of ClickHouse ${clickHouse.major}.${clickHouse.minor} …\n`,
)
startKeeper(clickHouse)
await Promise.all(SERVERS.map(server => startServer(server, clickHouse)))
if (clickHouse.major < 20) {
  const { startProxy18 } = await import(join(ROOT, 'dist/test/cluster/clickhouse18.js'))
  const known = { types: new Map() }
  for (const { n, shard, http, proxy } of SERVERS) {
    const others = SERVERS.filter(other => other.shard === shard && other.n !== n)
    await startProxy18({ port: http, others: others.map(other => other.http), known }, proxy)
  }
}
const made = secrets()
process.stdout.write('starting two nodes of Weir …\n')
await startNodes(
  SERVERS.map(({ http, proxy }) => `http://127.0.0.1:${clickHouse.major < 20 ? proxy : http}`),
  made,
)
const webhook = await webhookOf(made.client)
process.stdout.write(`
Two nodes of one cluster: http://127.0.0.1:${NODES[0]} and http://127.0.0.1:${NODES[1]}. Ctrl-C ends all.
Paste in another terminal: an event to the one, a count of the other.

curl -d '{"hello":"cluster"}' -H 'Content-Type: application/json' http://127.0.0.1:${NODES[0]}${webhook}
TOKEN=$(curl -s -u admin:${made.client} -d grant_type=client_credentials http://127.0.0.1:${NODES[1]}/oauth2/token | sed 's/.*"access_token":"\\([^"]*\\).*/\\1/')
curl -H "Authorization: Bearer $TOKEN" -d '{"query":"{ counter(input: {metric: {count: {dataPool: {name: \\"events\\"}}}}) { value } }"}' http://127.0.0.1:${NODES[1]}/graphql
`)
