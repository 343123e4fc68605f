/** The commands of docs/how-to/repair-a-cluster.md, run as an operator pastes them. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { must } from '../../src/util/errors.ts'
import { blocksOf, readPage } from '../util/run-page.ts'
import type { Clickhouse } from './clickhouse-servers.ts'

const run = promisify(execFile)

/**
 * Runs the block of the page that has these words, on the servers in the place of S1, S2, …
 * @param replica the name of the replica that is lost
 * @returns what it prints
 */
export async function repair(servers: readonly Clickhouse[], words: string, replica = 'r3'): Promise<string> {
  const [names, ...blocks] = blocksOf(readPage('docs/how-to/repair-a-cluster.md')).map(each => each.script)
  const found = must(
    blocks.find(script => script.includes(words)),
    words,
  )
  const script = `${names}\n${found}`
    .replaceAll(/10\.0\.0\.(\d):8123/g, (_, at) => `127.0.0.1:${servers[Number(at) - 1]?.httpPort}`)
    .replaceAll("'r3'", `'${replica}'`)
  return (await run('bash', ['-euc', script])).stdout
}
