/**
 * One trial: bits of a copied folder are flipped, then the folder is used in every way, and each
 * answer is compared with the answers of a trial without a flip.
 *
 *   stopped   flip → verify → start → export, update job, updates and deletes, merges, export →
 *             stop → verify → rebuild → verify → start → export
 *   running   the same, but the bits are flipped under a server that has not read the files yet
 *   backup    flip in a backup → verify → restore → start → export
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { flipBit } from '../path/damage.ts'
import { startServer, type TestServer } from '../util/server.ts'
import {
  type Answer,
  catalogOf,
  changeRows,
  copyFolder,
  exportPool,
  type Golden,
  type GoldenPool,
  NEVER,
  OFTEN,
  runJob,
  untilMerged,
  weir,
} from './golden.ts'

const MERGES_MS_MAX = 5_000

export type Way = 'stopped' | 'running' | 'backup'

/** A bit of a file of the folder. */
export interface Flip {
  readonly path: string
  readonly offset: number
  readonly bit: number
  /** The pool whose file it is, or undefined for a file of all pools. */
  readonly pool: GoldenPool | undefined
}

/** Everything that a trial saw. */
export interface Seen {
  /** What commands and the server printed. */
  output: string
  /** The exit codes of `weir verify`: before the start, after it, after the rebuild. */
  readonly verified: number[]
  /** The server did not start, or ended by itself. */
  ended: string | undefined
  catalog: string | undefined
  /** By pool: errors of jobs and of ingest. */
  readonly refused: Map<string, string>
  /** By pool: the answers of each export. */
  readonly answers: Map<string, Answer>[]
}

/** @param rebuilds the index is rebuilt at the end */
export async function runTrial(
  golden: Golden,
  way: Way,
  flips: readonly Flip[],
  rebuilds = true,
): Promise<Seen> {
  const dataDir = copyFolder(way === 'backup' ? golden.backup : golden.dataDir)
  const seen: Seen = {
    output: '',
    verified: [],
    ended: undefined,
    catalog: undefined,
    refused: new Map(),
    answers: [],
  }
  const flip = () => {
    for (const { path, offset, bit } of flips) flipBit(join(dataDir, path), offset, bit)
  }
  try {
    if (way !== 'running') flip()
    if (way === 'backup') await runBackup(golden, dataDir, seen)
    else {
      await runFolder(golden, dataDir, way, flip, seen)
      if (rebuilds) await rebuildFolder(golden, dataDir, seen)
    }
  } catch (error) {
    seen.ended = (error as Error).message
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
    rmSync(`${dataDir}-restored`, { recursive: true, force: true })
  }
  return seen
}

async function runFolder(
  golden: Golden,
  dataDir: string,
  way: Way,
  flip: () => void,
  seen: Seen,
): Promise<void> {
  if (way === 'stopped') verify(dataDir, seen)
  await withServer(dataDir, way === 'stopped' ? OFTEN : NEVER, seen, async server => {
    if (way === 'running') flip()
    seen.catalog = await catalogOf(server)
    seen.answers.push(await exportAll(golden, server, true))
    await Promise.all(
      golden.pools.map(async pool => {
        for (const refused of [await runJob(server, pool), await changeRows(server, pool)])
          if (refused !== null) seen.refused.set(pool.name, refused)
      }),
    )
    // Merges of a damaged pool may be tried again and again.
    if (way === 'stopped') await untilMerged(server, MERGES_MS_MAX).catch(() => undefined)
    seen.answers.push(await exportAll(golden, server, false))
  })
  verify(dataDir, seen)
}

async function rebuildFolder(golden: Golden, dataDir: string, seen: Seen): Promise<void> {
  const rebuilt = weir(['rebuild', '--data-dir', dataDir])
  seen.output += rebuilt.output
  verify(dataDir, seen)
  await withServer(dataDir, NEVER, seen, async server => {
    seen.answers.push(await exportAll(golden, server, false))
  })
}

async function runBackup(golden: Golden, dataDir: string, seen: Seen): Promise<void> {
  verify(dataDir, seen)
  const restored = `${dataDir}-restored`
  const { code, output } = weir(['restore', dataDir, '--data-dir', restored])
  seen.output += output
  if (code !== 0) return
  await withServer(restored, NEVER, seen, async server => {
    seen.catalog = await catalogOf(server)
    seen.answers.push(await exportAll(golden, server, true))
  })
}

function verify(dataDir: string, seen: Seen): void {
  const { code, output } = weir(['verify', '--data-dir', dataDir])
  seen.verified.push(code)
  seen.output += output
}

/** One after the other: an application has a few streams at once. */
async function exportAll({ pools }: Golden, server: TestServer, hasReceived: boolean) {
  const answers = new Map<string, Answer>()
  for (const pool of pools) answers.set(pool.name, await exportPool(server, pool, hasReceived))
  return answers
}

/** Runs `work` on a server, and stops it cleanly. */
async function withServer(
  dataDir: string,
  env: Readonly<Record<string, string>>,
  seen: Seen,
  work: (server: TestServer) => Promise<void>,
): Promise<void> {
  const server = await startServer({ dataDir, env: { ...env, WEIR_SCRUB_BEGIN_MS: '3600000' } })
  try {
    await work(server)
  } finally {
    const { code, signal, output } = await server.stop()
    seen.output += output
    if (code !== 0) seen.ended ??= `the server ended with ${code ?? signal}`
  }
}
