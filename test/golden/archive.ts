/**
 * The archives of golden folders: test/golden/folders/<commit>/<name>.tar.gz, and expected.ndjson
 * beside them. Debian's base has tar and gzip; Node has no reader of tar files.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from '../path/compaction.ts'
import type { TestServer } from '../util/server.ts'

/** The folder of all golden folders. The compiled file stands in dist/test/golden. */
export const FOLDERS = fileURLToPath(new URL('../../../test/golden/folders', import.meta.url))

/** `killed` and `stopped` are data folders, `backup` is a backup that the version made. */
export type Archive = 'killed' | 'stopped' | 'backup'

/** The first line of expected.ndjson. */
export interface Facts {
  readonly commit: string
  /** Every event arrived between these two, ISO 8601 UTC. */
  readonly madeFrom: string
  readonly madeTo: string
  /** False where the version knew no merges, so that its folders have none. */
  readonly merges: boolean
  /** Paths of the webhooks by the pool's unique name. */
  readonly webhooks: Readonly<Record<string, string>>
  /** An application that sees the pool `closed` through a policy. */
  readonly reader?: { readonly id: string; readonly secret: string; readonly rows: number }
  /** The value of the metric `golden`. */
  readonly metric?: string
}

/** What a golden folder must hold. */
export interface Expected {
  readonly facts: Facts
  /** Sorted lines of an NDJSON export without the time of arrival, by the pool's unique name. */
  readonly pools: ReadonlyMap<string, readonly string[]>
}

/** Packs a folder. */
export function pack(folder: string, commit: string, name: Archive): void {
  mkdirSync(join(FOLDERS, commit), { recursive: true })
  const stable = ['--sort=name', '--owner=0', '--group=0', '--use-compress-program=gzip -9']
  tar([...stable, '-cf', archivePath(commit, name), '-C', folder, '.'])
}

/** Unpacks an archive into the new folder `to`. */
export function unpack(commit: string, name: Archive, to: string): void {
  mkdirSync(to, { recursive: true, mode: 0o700 })
  tar(['-xzf', archivePath(commit, name), '--no-same-owner', '-C', to])
}

function archivePath(commit: string, name: Archive): string {
  return join(FOLDERS, commit, `${name}.tar.gz`)
}

function tar(args: readonly string[]): void {
  const { status, stderr, error } = spawnSync('tar', args)
  if (status !== 0) throw new Error(`tar ${args.join(' ')}: ${error?.message ?? stderr}`)
}

export function writeExpected({ facts, pools }: Expected): void {
  const lines = [facts, ...[...pools].map(([pool, rows]) => ({ pool, rows }))]
  const file = join(FOLDERS, facts.commit, 'expected.ndjson')
  writeFileSync(file, `${lines.map(line => JSON.stringify(line)).join('\n')}\n`)
}

export function readExpected(commit: string): Expected {
  const lines = readFileSync(join(FOLDERS, commit, 'expected.ndjson'), 'utf8')
    .trimEnd()
    .split('\n')
  const [facts, ...pools] = lines.map(line => JSON.parse(line) as unknown)
  return {
    facts: facts as Facts,
    pools: new Map((pools as { pool: string; rows: string[] }[]).map(({ pool, rows }) => [pool, rows])),
  }
}

/** Waits until no job waits or runs. Versions without jobs have none. */
export async function untilJobsEnd(server: TestServer): Promise<void> {
  const unfinished = /^weir_jobs\{kind="\w+",status="(?:CREATED|IN_PROGRESS)"\} [1-9]/m
  await until(
    'the jobs end',
    async () => !unfinished.test(await (await fetch(`${server.base}/metrics`)).text()),
  )
}
