/** A golden folder that a server of this version runs on, compared with its expected rows. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { filesOf, NEVER } from '../path/compaction.ts'
import { fetchToken, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { type Archive, type Expected, FOLDERS, readExpected, unpack, untilJobsEnd } from './archive.ts'

/** The landed versions of which there is a golden folder. */
export const COMMITS = readdirSync(FOLDERS).sort()

const madeAt = (commit: string) => readExpected(commit).facts.madeFrom
/** The first version of which there is a golden folder. */
export const OLDEST = 'c8f41e9'
/** The version whose folder was made last. */
export const LAST = COMMITS.reduce((a, b) => (madeAt(a) > madeAt(b) ? a : b))

const RECEIVED = /"_service_received_at":"([^"]*)",/

/** A golden folder that is unpacked, or restored, and may be changed. */
export class Golden {
  readonly dataDir: string
  readonly expected: Expected
  /** The number in FORMAT, as the version wrote it. */
  readonly format: number
  /** The rows that the folder must hold now, by the pool's unique name. */
  readonly rows: Map<string, string[]>
  #server: TestServer | undefined
  /** Tokens outlive restarts. */
  #token: string | undefined

  /** Unpacks the archive; or takes the data folder `restored`, which was made of it. */
  constructor(commit: string, archive: Archive, restored?: string) {
    this.dataDir = restored ?? join(temporaryFolder(), 'data')
    this.expected = readExpected(commit)
    this.rows = new Map([...this.expected.pools].map(([pool, rows]) => [pool, [...rows]]))
    if (restored === undefined) unpack(commit, archive, this.dataDir)
    this.format = Number(readFileSync(join(this.dataDir, 'FORMAT'), 'utf8').slice('weir '.length))
  }

  get server(): TestServer {
    if (this.#server === undefined) throw new Error('no server runs')
    return this.#server
  }

  /** Starts the server and waits until the folder's jobs have ended. */
  async start(env: Readonly<Record<string, string>> = NEVER): Promise<void> {
    this.#server = await startServer({ dataDir: this.dataDir, env })
    await untilJobsEnd(this.#server)
  }

  async stop(): Promise<void> {
    const { code, output } = await this.server.stop()
    expect(code, output).toBe(0)
    expect(output).not.toMatch(/damage/i)
  }

  /** Sends events to a pool and expects a 200. */
  async send(pool: string, method: 'POST' | 'DELETE', events: readonly unknown[]): Promise<void> {
    const guarded = ['guarded', 'generic'].includes(pool)
      ? { authorization: `Basic ${btoa('sender:golden')}` }
      : {}
    const answer = await fetch(`${this.server.base}${this.expected.facts.webhooks[pool]}`, {
      method,
      body: JSON.stringify(events),
      headers: { 'content-type': 'application/json', ...guarded },
    })
    expect([answer.status, await answer.text()], pool).toEqual([200, expect.not.stringContaining('400')])
  }

  /** The lines of an export with their times of arrival. */
  async export(pool: string): Promise<readonly string[]> {
    this.#token ??= await fetchToken(this.server.base, this.dataDir)
    const answer = await fetch(`${this.server.base}/v1/pools/${pool}/export?format=ndjson`, {
      headers: { authorization: `Bearer ${this.#token}` },
    })
    const text = await answer.text()
    expect(answer.status, text).toBe(200)
    return text.split('\n').filter(line => line !== '')
  }

  /** Expects each pool to hold its rows, with times at which they can have arrived. */
  async holdsRows(): Promise<void> {
    const { madeFrom, madeTo } = this.expected.facts
    // A clock that is behind the folder's stands still.
    const [, until = ''] = [madeTo, new Date().toISOString()].sort()
    for (const [pool, rows] of this.rows) {
      const lines = await this.export(pool)
      expect(lines.map(withoutReceived).sort(), pool).toEqual([...rows].sort())
      for (const line of lines) {
        const at = RECEIVED.exec(line)?.[1] ?? ''
        expect([at >= madeFrom, at <= until], `${pool}: ${line}`).toEqual([true, true])
      }
    }
    const counters = [...this.rows.keys()].map(
      pool => `${pool}: counter(input: {metric: {count: {dataPool: {name: "${pool}"}}}}) { value }`,
    )
    const { data } = await this.server.graphql(`{ ${counters.join(' ')} }`)
    const counts = [...this.rows].map(([pool, rows]) => [pool, { value: String(rows.length) }])
    expect(data).toEqual(Object.fromEntries(counts))
  }

  async idOf(pool: string): Promise<string> {
    const { data } = await this.server.graphql<{ dataPoolByName: { id: string } }>(
      'query ($name: String!) { dataPoolByName(uniqueName: $name) { id } }',
      { name: pool },
    )
    return data.dataPoolByName.id
  }

  /** Names of the Parquet files of a pool. */
  async segments(pool: string): Promise<readonly string[]> {
    return filesOf(this.dataDir, await this.idOf(pool)).filter(name => name.endsWith('.parquet'))
  }
}

export function withoutReceived(line: string): string {
  return line.replace(RECEIVED, '')
}
