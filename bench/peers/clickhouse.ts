/**
 * ClickHouse as a peer: Debian's clickhouse-server on a temporary folder, HTTP, JSONEachRow into a
 * MergeTree of the same six columns. It has two advantages: it neither syncs before its answer nor
 * checks keys.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { benchFolder, removeFolder, tracked } from '../leftovers.ts'
import { sleep } from '../measure.ts'

export interface ClickHouse {
  readonly pid: number
  /** URL for the bodies. */
  readonly url: string
  /** The answer of a statement as text. */
  query(sql: string): Promise<string>
  /** Throws where it has fewer rows than it acknowledged. */
  checkRows(least: number): Promise<void>
  /** Ends it and removes its folder. */
  stop(): Promise<void>
}

/** True when it is installed (`apt-get install clickhouse-server`). */
export function hasClickHouse(): boolean {
  return spawnSync('which', ['clickhouse-server']).status === 0
}

/** Starts one and makes the table. Waits at most 30 s. */
export async function startClickHouse(): Promise<ClickHouse> {
  const folder = benchFolder('weir-clickhouse-')
  const [http, tcp, interserver] = [await freePort(), await freePort(), await freePort()]
  for (const name of ['data', 'tmp', 'files', 'formats']) mkdirSync(join(folder, name))
  writeFileSync(join(folder, 'config.xml'), configXml(folder, http, tcp, interserver))
  writeFileSync(join(folder, 'users.xml'), USERS_XML)
  const child = tracked(
    spawn('clickhouse-server', [`--config-file=${join(folder, 'config.xml')}`], {
      stdio: 'ignore',
      cwd: folder,
    }),
  )
  const base = `http://127.0.0.1:${http}/`
  await waitForPing(base, child)
  const query = async (sql: string) => {
    const answer = await fetch(base, { method: 'POST', body: sql })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`ClickHouse: ${text}`)
    return text.trim()
  }
  await query(`CREATE TABLE events (id String, time String, tenant String, type String, amount Float64, quantity Int64)
    ENGINE = MergeTree ORDER BY (time, id)`)
  const insert = encodeURIComponent('INSERT INTO events FORMAT JSONEachRow')
  return {
    pid: child.pid as number,
    query,
    url: `${base}?query=${insert}&input_format_skip_unknown_fields=1`,
    async checkRows(least) {
      const rows = Number(await query('SELECT count() FROM events'))
      if (rows < least) throw new Error(`ClickHouse has ${rows} rows and acknowledged ${least}`)
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = new Promise(resolve => child.once('close', resolve))
        child.kill('SIGTERM')
        const late = setTimeout(() => child.kill('SIGKILL'), 20_000)
        await ended
        clearTimeout(late)
      }
      removeFolder(folder)
    },
  }
}

async function waitForPing(base: string, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 300; tries += 1) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`clickhouse-server ended with ${child.exitCode ?? child.signalCode}`)
    const answer = await fetch(`${base}ping`).catch(() => undefined)
    if (answer?.ok === true) return
    await sleep(100)
  }
  throw new Error('clickhouse-server did not answer within 30 s')
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

function configXml(folder: string, http: number, tcp: number, interserver: number): string {
  return `<yandex>
  <logger><level>error</level><log>${folder}/log</log><errorlog>${folder}/errors</errorlog></logger>
  <http_port>${http}</http_port><tcp_port>${tcp}</tcp_port><interserver_http_port>${interserver}</interserver_http_port>
  <listen_host>127.0.0.1</listen_host>
  <max_connections>4096</max_connections><keep_alive_timeout>60</keep_alive_timeout>
  <mark_cache_size>1073741824</mark_cache_size>
  <path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path><user_files_path>${folder}/files/</user_files_path>
  <format_schema_path>${folder}/formats/</format_schema_path>
  <users_config>${folder}/users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
</yandex>
`
}

const USERS_XML = `<yandex>
  <profiles><default><max_memory_usage>10000000000</max_memory_usage></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows><read_rows>0</read_rows><execution_time>0</execution_time></interval></default></quotas>
</yandex>
`
