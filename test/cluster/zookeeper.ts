/** A ZooKeeper of Debian's package on loopback, for tests. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort, temporaryFolder } from '../util/server.ts'
import { type Restartable, restartable } from './restartable.ts'

const JAR = '/usr/share/java/zookeeper.jar'

/** Why there is no ZooKeeper to test with; undefined where there is one. */
export const noZookeeper: string | undefined =
  existsSync(JAR) && spawnSync('java', ['-version']).error === undefined
    ? undefined
    : 'skipped: it needs zookeeper and a JRE (apt-get install zookeeper default-jre-headless)'

export interface Zookeeper extends Restartable {
  readonly port: number
  /** Kills it, and starts it with an empty folder. */
  empty(): Promise<void>
}

interface ServerOptions {
  readonly port: number
  readonly tickMs?: number
  /** Further lines of its configuration. */
  readonly lines?: readonly string[]
  readonly id?: number
}

/** Starts a server of its own. It ends with the test. */
export async function startZookeeper(options: { readonly tickMs?: number } = {}): Promise<Zookeeper> {
  const server = startServer({ ...options, port: Number(await freePort()) })
  await listens(server.port)
  return server
}

/**
 * Starts three servers that are one Keeper, whose second one leads. The third one reaches it over
 * `leaderPort`.
 */
export async function startEnsemble(options: {
  readonly tickMs?: number
  readonly syncTicks?: number
  leaderPort?(port: number): Promise<number>
}): Promise<Zookeeper[]> {
  const ports = [0, 1, 2].map(async () => [Number(await freePort()), Number(await freePort())] as const)
  const [one, two, three] = await Promise.all(ports)
  const seen = (await options.leaderPort?.(two![0])) ?? two![0]
  const lines = (leader: number) => [
    'initLimit=50',
    `syncLimit=${options.syncTicks ?? 5}`,
    'maxSessionTimeout=60000',
    ...[one!, [leader, two![1]], three!].map(
      ([quorum, election], index) => `server.${index + 1}=127.0.0.1:${quorum}:${election}`,
    ),
  ]
  const servers: Zookeeper[] = []
  for (const [index, leader] of [two![0], two![0], seen].entries()) {
    const port = Number(await freePort())
    servers.push(startServer({ ...options, port, id: index + 1, lines: lines(leader) }))
    // The third one finds a leader.
    if (index === 1) await Promise.all(servers.map(server => listens(server.port)))
  }
  await listens(servers[2]!.port)
  return servers
}

function startServer({ port, tickMs = 200, lines = [], id = 0 }: ServerOptions): Zookeeper {
  const folder = temporaryFolder('weir-zookeeper-')
  const config = join(folder, 'zoo.cfg')
  mkdirSync(join(folder, 'data'))
  writeFileSync(join(folder, 'data', 'myid'), String(id))
  writeFileSync(
    config,
    [
      `dataDir=${join(folder, 'data')}`,
      `clientPort=${port}`,
      'clientPortAddress=127.0.0.1',
      `tickTime=${tickMs}`,
      'admin.enableServer=false',
      'maxClientCnxns=0',
      ...lines,
    ].join('\n'),
  )
  const main = lines.length === 0 ? 'ZooKeeperServerMain' : 'quorum.QuorumPeerMain'
  const run = () =>
    spawn(
      'java',
      ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-cp', JAR, `org.apache.zookeeper.server.${main}`, config],
      { stdio: 'ignore' },
    )
  const server = restartable(run, () => listens(port))
  const empty = async () => {
    await server.kill()
    rmSync(join(folder, 'data', 'version-2'), { recursive: true })
    await server.restart()
  }
  return Object.assign(server, { port, empty })
}

/**
 * Asks until it answers, for at most a minute. A connection alone proves nothing: one to a free
 * port may have its own end at the other side.
 */
async function listens(port: number): Promise<void> {
  for (const endMs = Date.now() + 60_000; ; ) {
    const answer = await new Promise<string>(resolve => {
      let text = ''
      const socket = connect(port, '127.0.0.1', () => socket.write('srvr'))
      socket.on('data', chunk => {
        text += chunk
      })
      socket.on('error', () => {})
      socket.on('close', () => resolve(text))
      socket.setTimeout(2_000, () => socket.destroy())
    })
    if (answer.startsWith('Zookeeper version')) return
    if (Date.now() > endMs) throw new Error(`ZooKeeper does not answer: ${answer}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}
