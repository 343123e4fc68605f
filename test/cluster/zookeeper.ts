/** A ZooKeeper of Debian's package on loopback, for tests. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { freePort, temporaryFolder } from '../util/server.ts'

const JAR = '/usr/share/java/zookeeper.jar'

/** Why there is no ZooKeeper to test with; undefined where there is one. */
export const noZookeeper: string | undefined =
  existsSync(JAR) && spawnSync('java', ['-version']).error === undefined
    ? undefined
    : 'skipped: it needs zookeeper and a JRE (apt-get install zookeeper default-jre-headless)'

export interface Zookeeper {
  readonly port: number
  readonly child: ChildProcess
  /** Ends it as a power cut does, and starts it on the same folder and port. */
  restart(): Promise<void>
  kill(): Promise<void>
}

/** Starts a server of its own. It ends with the test. */
export async function startZookeeper(options: { readonly tickMs?: number } = {}): Promise<Zookeeper> {
  const folder = temporaryFolder('weir-zookeeper-')
  const port = Number(await freePort())
  const { tickMs = 200 } = options
  const config = join(folder, 'zoo.cfg')
  mkdirSync(join(folder, 'data'))
  writeFileSync(
    config,
    [
      `dataDir=${join(folder, 'data')}`,
      `clientPort=${port}`,
      'clientPortAddress=127.0.0.1',
      `tickTime=${tickMs}`,
      'admin.enableServer=false',
      'maxClientCnxns=0',
    ].join('\n'),
  )
  const run = () =>
    spawn(
      'java',
      [
        '-Xmx256m',
        '-XX:TieredStopAtLevel=1',
        '-cp',
        JAR,
        'org.apache.zookeeper.server.ZooKeeperServerMain',
        config,
      ],
      { stdio: 'ignore' },
    )
  let child = run()
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise(resolve => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  onTestFinished(kill)
  await listens(port)
  return {
    port,
    get child() {
      return child
    },
    kill,
    async restart() {
      await kill()
      child = run()
      await listens(port)
    },
  }
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
