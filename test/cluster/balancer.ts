/** nginx or HAProxy of Debian's packages in front of nodes, with the files that users get. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { clientOf, type TestClient, temporaryFolder } from '../util/server.ts'
import { atEnd } from './at-end.ts'
import { serverPort } from './clickhouse-servers.ts'

const PROXIES = fileURLToPath(new URL('../../../examples/deploy/proxy/', import.meta.url))

export const BALANCERS = {
  nginx: { binary: '/usr/sbin/nginx', file: 'cluster-nginx.conf', listen: /listen 80;/, at: 'listen' },
  haproxy: { binary: '/usr/sbin/haproxy', file: 'cluster-haproxy.cfg', listen: /bind :80$/m, at: 'bind' },
} as const

export type BalancerName = keyof typeof BALANCERS

/** Why the balancer cannot run; undefined where it can. */
export function noBalancer(name: BalancerName): string | undefined {
  const { binary } = BALANCERS[name]
  return existsSync(binary) ? undefined : `skipped: there is no ${binary} (apt-get install ${name})`
}

export interface Balancer extends TestClient {
  stop(): Promise<void>
}

/**
 * Starts one in front of ports of loopback, and it ends with the test.
 *
 * @param dataDir where a node has the secret of the first application
 * @param change of the file's text
 */
export async function startBalancer(
  name: BalancerName,
  ports: readonly number[],
  dataDir: string,
  change = (text: string) => text,
): Promise<Balancer> {
  const { binary, file, listen, at } = BALANCERS[name]
  const folder = temporaryFolder()
  const port = await serverPort()
  const text = change(readFileSync(join(PROXIES, file), 'utf8'))
    .replace(listen, name === 'nginx' ? `${at} 127.0.0.1:${port};` : `${at} 127.0.0.1:${port}`)
    .replace(/10\.0\.0\.1(\d):8420/g, (_, node) => `127.0.0.1:${must(ports[Number(node) - 1], 'a node')}`)
  expect(text).not.toMatch(/10\.0\.0\.|:80$/m)
  writeFileSync(join(folder, file), text)
  const child =
    name === 'nginx' ? runNginx(binary, folder, file) : run(binary, ['-db', '-f', join(folder, file)])
  let printed = ''
  for (const output of [child.stdout, child.stderr]) output!.on('data', data => (printed += String(data)))
  const ended = once(child, 'exit')
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await ended
  }
  atEnd(stop)
  const base = `http://127.0.0.1:${port}`
  const answers = async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${printed}`)
    return await fetch(`${base}/livez`).then(
      ({ status }) => status,
      () => 0,
    )
  }
  await expect.poll(answers).toBe(200)
  return { ...clientOf(base, dataDir), stop }
}

/** The time until a balancer hears that a node has closed. */
const LATE_MS = 500

export interface LateWay {
  readonly port: number
  /** Idle connections that the node closed, and not the balancer. */
  closes: number
  onClose: () => void
}

/** A way to a node over a network on which a close and a request cross. */
export async function lateWay(to: number): Promise<LateWay> {
  const server = createServer(near => {
    let isCheck = false // the answer to a check of health is the last of its connection
    const far = connect(to, '127.0.0.1')
    near.on('data', data => {
      isCheck ||= data.includes('/readyz')
      if (far.writable) far.write(data)
    })
    far.on('data', data => near.write(data))
    for (const socket of [near, far]) socket.on('error', () => {}) // its close is what counts
    near.on('close', () => far.destroy())
    far.on('end', () => {
      setTimeout(() => near.destroy(), isCheck ? 0 : LATE_MS)
      if (isCheck) return
      way.closes += 1
      way.onClose()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const way = { port: (server.address() as AddressInfo).port, closes: 0, onClose: () => {} }
  atEnd(() => void server.close())
  return way
}

function run(binary: string, args: readonly string[]): ChildProcess {
  return spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] })
}

/** The site is included as /etc/nginx/nginx.conf of Debian does it. */
function runNginx(binary: string, folder: string, site: string): ChildProcess {
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  for (const path of paths) mkdirSync(join(folder, path))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `user root; daemon off; pid ${folder}/pid; worker_processes 1; error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  ${paths.map(path => `${path}_temp_path ${join(folder, path)};`).join(' ')}
  include ${join(folder, site)};
}
`,
  )
  return run(binary, ['-c', join(folder, 'nginx.conf'), '-e', 'stderr', '-p', folder])
}
