/**
 * What `weir repair` does, in this order: looks at everything, says what it will do, and does it.
 *
 *   log        what can be read becomes a new log; damaged files are copied to data/damaged first
 *   segments   files that cannot be read are moved to data/damaged; a good half of a pair is kept
 *   index      rebuilt from what is left
 *   admin.json written again
 *
 * Nothing is deleted. Where rows or requests are lost it wants --yes. It can be run again after a crash in any place.
 */
import { join } from 'node:path'
import type { Memory } from '../catalog/memory.ts'
import { writeAdmin } from '../catalog/open-catalog.ts'
import { CANNOT_RUN, CLEAN, type CommandInput, DAMAGED } from '../engine/command.ts'
import type { Config } from '../engine/config.ts'
import { planSalvage, type Salvage, salvageLog } from '../log/salvage.ts'
import { disk } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { note, say } from '../util/say.ts'
import { checkFolder } from './check-folder.ts'
import { lookAtLog } from './inspect-log.ts'
import { type FolderLook, flushedOf, lookAtFolder, readCatalog, readIndex } from './open-read-only.ts'
import { createProgress } from './progress.ts'
import { rebuildIndex } from './rebuild-index.ts'
import { findBadSegments, mend, type SegmentRepair } from './repair-segments.ts'
import { checkedText, findingText, Report } from './report.ts'
import { copyAside, damagedFolder } from './set-aside.ts'
import { countText } from './text-table.ts'

/** What is to be done. */
interface Plan {
  readonly log: Salvage | undefined
  readonly segments: readonly SegmentRepair[]
  readonly rebuilds: boolean
  readonly admin: boolean
}

/** The exit code: 0 when the folder is clean afterwards. */
export async function repair({ config, flags }: CommandInput): Promise<number> {
  const folder = lookAtFolder(config)
  const memory = await readCatalog(folder).catch((error: Error) => {
    throw new Damaged(folder.paths.catalog, 0, `only a backup has another catalog (${error.message})`)
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
  if (loses(plan) && !flags.has('yes')) {
    note(
      'something of this is lost for good, so nothing was changed: weir repair --yes goes on. What is damaged is kept in data/damaged.',
    )
    return CANNOT_RUN
  }
  await carryOut(config, folder, memory, plan)
  return await checkAgain(folder)
}

async function makePlan(config: Config, folder: FolderLook, memory: Memory): Promise<Plan> {
  const { paths } = folder
  const report = await check(folder)
  const isBelow = (root: string) =>
    [...report.files].some(file => file === root || file.startsWith(`${root}/`))
  const index = await readIndex(folder, memory).catch((error: Error) => error.message)
  const states = typeof index === 'string' ? [] : index.states
  if (typeof index !== 'string') index.index.close()
  const bad = isBelow(paths.segment) ? await findBadSegments(folder, memory, states) : []
  const flushed = flushedOf(memory, states)
  const isLogDamaged = lookAtLog(paths.log, flushed).damage !== undefined
  return {
    log: isLogDamaged ? await planSalvage(salvageOptions(config, folder, memory, flushed)) : undefined,
    segments: bad,
    rebuilds: isBelow(paths.index) || isBelow(paths.segment) || typeof index === 'string',
    admin: isBelow(paths.admin) || !disk.exists(paths.admin),
  }
}

async function check(folder: FolderLook): Promise<Report> {
  const report = new Report()
  const progress = createProgress('checking segments')
  try {
    await checkFolder(folder, report, progress)
    return report
  } finally {
    progress.end()
  }
}

function salvageOptions(
  config: Config,
  { paths }: FolderLook,
  memory: Memory,
  flushed: ReadonlyMap<number, number>,
) {
  return {
    disk,
    folder: paths.log,
    fileBytes: config.logFileBytes,
    isKnown: (pool: number) => memory.poolsByNumber.has(pool) || memory.tombstones.has(pool),
    flushedSequence: Math.max(0, ...flushed.values()),
  }
}

/** One line an action, for the operator. */
function linesOf({ log, segments, rebuilds, admin }: Plan): string[] {
  const lines: string[] = []
  if (log !== undefined) {
    for (const place of log.places) lines.push(`log: ${place.message}`)
    for (const { from, to } of log.missing)
      lines.push(
        `log: sequences ${from} to ${to} cannot be read: ${countText(to - from + 1)} requests are lost, but for those that are in segments already`,
      )
    if (log.mayMissEnd)
      lines.push('log: part of it cannot be read: an unknown number of requests at its end may be lost too')
    lines.push(
      `log: ${countText(log.salvaged)} requests are kept in a new log; damaged files are copied to data/damaged`,
    )
  }
  for (const one of segments) lines.push(one.text)
  if (rebuilds) lines.push('index: rebuilt from the segments')
  if (admin) lines.push('admin.json: written again')
  return lines
}

function loses({ log, segments }: Plan): boolean {
  return (log !== undefined && (log.missing.length > 0 || log.mayMissEnd)) || segments.some(one => one.loses)
}

async function carryOut(config: Config, folder: FolderLook, memory: Memory, plan: Plan): Promise<void> {
  const { paths } = folder
  const aside = damagedFolder(paths)
  if (plan.log !== undefined) {
    for (const file of plan.log.files) copyAside(disk, file, join(aside, 'log'))
    const index = await readIndex(folder, memory).catch(() => '')
    const states = typeof index === 'string' ? [] : index.states
    if (typeof index !== 'string') index.index.close()
    await salvageLog(salvageOptions(config, folder, memory, flushedOf(memory, states)))
  }
  for (const one of plan.segments) mend(disk, one, join(aside, 'segment', one.poolId))
  if (plan.rebuilds) await rebuildIndex(config, folder, memory)
  if (plan.admin) writeAdmin(memory, paths.admin, disk)
  if (plan.log !== undefined || plan.segments.length > 0) note(`what was damaged is in ${aside}`)
}

async function checkAgain(folder: FolderLook): Promise<number> {
  const report = await check(folder)
  for (const finding of report.findings) say(findingText(finding))
  if (report.count > 0)
    throw new Damaged(folder.paths.root, 0, `${report.count} findings are left after the repair`)
  say(`clean: ${checkedText(report)}`)
  return CLEAN
}
