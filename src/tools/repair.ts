/**
 * `weir repair`: removes damage from a stopped folder so that a server starts on it again. It
 * checks everything, prints its plan, and carries it out.
 *
 *   log         valid records become a new log; damaged files are copied to data/damaged first
 *   segments    unreadable files are moved to data/damaged; the good file of a pair stays
 *   index       is rebuilt from the remaining segments
 *   admin.json  is written again
 *
 * Nothing is deleted. A plan that loses rows or requests needs --yes. Repair can run again after a
 * crash at any point.
 *
 * A segment is a Parquet file, a delete file, or both:
 *
 *   no good file        the segment is moved away and its rows are lost
 *   good delete file    it stays and is changed to stand alone, so that deleted rows stay deleted
 *   good Parquet file   it stays, and its footer is changed to name no deletes
 *   empty delete file   it is written again from what the index knows
 *
 * Rows of older segments that a lost segment had updated or deleted come back as they were. The
 * message for the operator says so.
 */

import { basename, dirname, join } from 'node:path'
import type { Memory } from '../catalog/documents/memory.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { writeAdmin } from '../catalog/open-catalog.ts'
import { CANNOT_RUN, CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import type { Config } from '../database/config.ts'
import { readDeleteFile, writeDeleteFile } from '../format/delete-file.ts'
import { buildKeyRun } from '../format/key-run.ts'
import type { PoolState } from '../index/index-types.ts'
import { highestFlushed } from '../log/read-log.ts'
import { planSalvage, salvageLog } from '../log/salvage.ts'
import { wallMs } from '../util/clock.ts'
import { upgradeFormat } from '../util/data-folder.ts'
import { disk, readDamagedFile, readFile, replaceFile, syncFolder, writeDurably } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, numberOfFile, poolFolder, segmentFile } from '../util/paths.ts'
import { note, say } from '../util/say.ts'
import { checkPoolFolder } from './check-pool.ts'
import { segmentFilesOf } from './check-segment.ts'
import { nameNoDeletes, standAlone } from './lone-files.ts'
import { rebuildIndex } from './rebuild.ts'
import { checkedText, findingText, Report } from './report.ts'
import {
  flushedOf,
  inspectLog,
  openStopped,
  readCatalog,
  readIndex,
  type StoppedFolder,
} from './stopped-folder.ts'
import { countText } from './text-tables.ts'
import { checkWithProgress } from './verify.ts'

/** The actions of a repair. */
type Plan = Awaited<ReturnType<typeof makePlan>>

/** Runs `weir repair`. The exit code is 0 when the folder is clean afterwards. */
export async function repair({ config, flags }: CommandInput): Promise<number> {
  const folder = openStopped(config)
  const memory = await readCatalog(folder).catch((error: Error) => {
    throw new Damaged(
      folder.paths.catalog,
      0,
      `it cannot be repaired; restore the folder from a backup, nothing else has the catalog (${error.message})`,
    )
  })
  const plan = await makePlan(config, folder, memory)
  const lines = linesOf(plan)
  if (lines.length === 0) {
    say('nothing to repair')
    return CLEAN
  }
  const isDry = flags.has('dry-run')
  for (const line of lines) say(isDry ? `would: ${line}` : line)
  if (isDry) return DAMAGED
  if (losesData(plan) && !flags.has('yes')) {
    note(
      `the repair of ${folder.paths.root} loses data, so nothing was changed: weir repair --yes repairs it and keeps the damaged files in ${folder.paths.damaged}`,
    )
    return CANNOT_RUN
  }
  await carryOut(config, folder, memory, plan)
  return await checkAgain(folder)
}

async function makePlan(config: Config, folder: StoppedFolder, memory: Memory) {
  const { paths } = folder
  const { files } = await checkWithProgress(folder)
  const isDamaged = (root: string) => [...files].some(file => file === root || file.startsWith(`${root}/`))
  const states = await readStates(folder, memory)
  const flushed = flushedOf(memory, states ?? [])
  const isLogDamaged = inspectLog(paths.log, flushed).damage !== undefined
  return {
    log: isLogDamaged ? await planSalvage(salvageOptions(config, folder, memory, flushed)) : undefined,
    segments: isDamaged(paths.segment) ? await planSegments(folder, memory, states ?? []) : [],
    rebuildsIndex: isDamaged(paths.index) || isDamaged(paths.segment) || states === undefined,
    writesAdmin: isDamaged(paths.admin) || !disk.exists(paths.admin),
  }
}

/** The states of all pools; undefined where the index is missing or cannot be read. */
async function readStates(folder: StoppedFolder, memory: Memory): Promise<readonly PoolState[] | undefined> {
  const index = await readIndex(folder, memory).catch(() => undefined)
  if (index === undefined || typeof index === 'string') return undefined
  index.index.close()
  return index.states
}

function salvageOptions(
  config: Config,
  { paths }: StoppedFolder,
  memory: Memory,
  flushed: ReadonlyMap<number, number>,
) {
  return {
    disk,
    folder: paths.log,
    fileBytesMax: config.logFileBytes,
    isKnown: (pool: number) => memory.poolsByNumber.has(pool) || memory.tombstones.has(pool),
    flushedSequence: highestFlushed(flushed),
  }
}

/** The plan for the operator, one line for each action. */
function linesOf({ log, segments, rebuildsIndex, writesAdmin }: Plan): string[] {
  const lines: string[] = []
  if (log !== undefined) {
    for (const place of log.places) lines.push(`log: ${place.message}`)
    for (const { from, to } of log.missing)
      lines.push(
        `log: sequences ${from} to ${to} cannot be read: ${countText(to - from + 1)} requests are lost, except those already in segments`,
      )
    if (log.mayMissEnd)
      lines.push('log: part of it cannot be read: an unknown number of requests at its end may be lost too')
    lines.push(
      `log: a new log keeps ${countText(log.salvaged)} requests; damaged files are copied to data/damaged`,
    )
  }
  for (const one of segments) lines.push(one.text)
  if (rebuildsIndex) lines.push('index: rebuilt from the segments')
  if (writesAdmin) lines.push('admin.json: written again')
  return lines
}

function losesData({ log, segments }: Plan): boolean {
  return (log !== undefined && (log.missing.length > 0 || log.mayMissEnd)) || segments.some(one => one.loses)
}

async function carryOut(config: Config, folder: StoppedFolder, memory: Memory, plan: Plan): Promise<void> {
  const { paths } = folder
  upgradeFormat(paths) // a repair writes today's formats
  const aside = join(paths.damaged, new Date(wallMs()).toISOString().replace(/[-:.]/g, ''))
  if (plan.log !== undefined) {
    for (const file of plan.log.files) copyAside(file, join(aside, 'log'))
    const flushed = flushedOf(memory, (await readStates(folder, memory)) ?? [])
    await salvageLog(salvageOptions(config, folder, memory, flushed))
  }
  for (const one of plan.segments) repairSegment(one, join(aside, 'segment', one.poolId))
  if (plan.rebuildsIndex) await rebuildIndex(config, folder, memory)
  if (plan.writesAdmin) writeAdmin(memory, paths.admin, disk)
  if (plan.log !== undefined || plan.segments.length > 0) note(`the damaged files are in ${aside}`)
}

async function checkAgain(folder: StoppedFolder): Promise<number> {
  const report = await checkWithProgress(folder)
  for (const finding of report.findings) say(findingText(finding))
  if (report.count > 0)
    throw new Damaged(folder.paths.root, 0, `${report.count} findings are left after the repair`)
  say(`clean: ${checkedText(report)}`)
  return CLEAN
}

interface SegmentRepair {
  readonly poolId: string
  /** The line of the plan that describes this repair. */
  readonly text: string
  readonly loses: boolean
  /** Existing files that are moved to data/damaged. */
  readonly move: readonly string[]
  /** A delete file that is changed to stand alone. */
  readonly aloneDeletes: string | undefined
  /** A Parquet file that is changed to name no deletes. */
  readonly withoutDeletes: string | undefined
  /** A delete file that is written again. */
  readonly writes: { readonly file: string; readonly bytes: Uint8Array } | undefined
}

/**
 * Checks the segments of every pool, and plans a repair of each that has damaged or missing files.
 * `states` come from the index, and are empty without one.
 */
async function planSegments(
  { paths }: StoppedFolder,
  memory: Memory,
  states: readonly PoolState[],
): Promise<SegmentRepair[]> {
  const repairs: SegmentRepair[] = []
  for (const pool of memory.pools.all()) {
    const folder = poolFolder(paths, pool.id)
    const report = new Report()
    const schema = (version: number) => memory.schema(pool.number, version)?.schema
    await checkPoolFolder({ pool, folder, indexFile: paths.index, schema, index: undefined }, report)
    const state = states.find(one => one.pool === pool.number)
    const named = (state?.segments ?? []).flatMap(segment => segmentFilesOf(folder, segment))
    const bad = new Set([...report.files, ...named.filter(file => !disk.exists(file))])
    const segments = new Set(
      [...bad].map(file => numberOfFile(basename(file))).filter(one => one !== undefined),
    )
    for (const segment of segments) repairs.push(planSegment(pool, folder, segment, bad, state))
  }
  return repairs
}

function planSegment(
  { id: poolId, number: pool }: Pool,
  folder: string,
  segment: number,
  bad: ReadonlySet<string>,
  state: PoolState | undefined,
): SegmentRepair {
  const parquet = join(folder, segmentFile(segment))
  const deletes = join(folder, deleteFile(segment))
  const meta = state?.segments.find(one => one.segment === segment)
  const isGood = (file: string) => disk.exists(file) && !bad.has(file)
  const existing = (...files: string[]) => files.filter(file => disk.exists(file))
  const rows =
    meta === undefined
      ? 'an unknown number of rows is lost'
      : `${countText(meta.rows - meta.deletedRows)} live rows are lost`
  const older = 'rows of older segments that it had updated or deleted may be back as they were'
  const base = { poolId, loses: true, aloneDeletes: undefined, withoutDeletes: undefined, writes: undefined }
  if (meta?.rows === 0 && meta.deletes === 0) {
    const header = { ...meta, pool, rowsOfFlush: 0 }
    const writes = { file: deletes, bytes: writeDeleteFile(header, buildKeyRun([]), new Float64Array()) }
    const text = `${deletes}: damaged or missing; it holds no key, and is written again; nothing is lost`
    return { ...base, text, loses: false, move: existing(deletes), writes }
  }
  if (isGood(parquet)) {
    const text = `${deletes}: damaged or missing; its deletes are lost, and rows that they deleted may be back; the rows of the segment stay`
    return { ...base, text, move: existing(deletes), withoutDeletes: parquet }
  }
  if (isGood(deletes) && isReadable(deletes)) {
    const text = `${parquet}: damaged or missing; ${rows}, and ${older}; its deletes stay`
    return { ...base, text, move: existing(parquet), aloneDeletes: deletes }
  }
  const isLive = meta !== undefined || state === undefined
  const text = isLive
    ? `${parquet}: damaged or missing; ${rows}, and ${older}`
    : `${parquet}: damaged, but not a live segment; nothing is lost`
  return { ...base, text, loses: isLive, move: existing(parquet, deletes) }
}

function isReadable(file: string): boolean {
  try {
    readDeleteFile(readFile(disk, file), file)
    return true
  } catch {
    return false
  }
}

/** Repairs a segment. A delete file that is changed is copied to `aside` first. */
function repairSegment({ move, aloneDeletes, withoutDeletes, writes }: SegmentRepair, aside: string): void {
  if (aloneDeletes !== undefined) {
    copyAside(aloneDeletes, aside)
    replaceFile(disk, aloneDeletes, [standAlone(readFile(disk, aloneDeletes))])
  }
  if (withoutDeletes !== undefined) nameNoDeletes(withoutDeletes)
  for (const file of move) moveAside(file, aside)
  const [first] = move
  if (first !== undefined) syncFolder(disk, dirname(first))
  if (writes !== undefined) replaceFile(disk, writes.file, [writes.bytes])
}

/** Copies `file` into the folder `aside` and syncs it. Zeros replace bytes that cannot be read. */
function copyAside(file: string, aside: string): void {
  disk.mkdir(aside)
  writeDurably(disk, join(aside, basename(file)), [readDamagedFile(disk, file).bytes])
  syncFolder(disk, aside)
}

function moveAside(file: string, aside: string): void {
  disk.mkdir(aside)
  disk.rename(file, join(aside, basename(file)))
  syncFolder(disk, aside)
}
