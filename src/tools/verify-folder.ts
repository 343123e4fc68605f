/** What `weir verify` prints: findings on standard output, then what is clean, or their number; notes on standard error. */

import { CLEAN, type CommandInput, DAMAGED } from '../engine/command.ts'
import { say, note as sayNote } from '../util/say.ts'
import { checkFolder } from './check-folder.ts'
import { lookAtFolder } from './open-read-only.ts'
import { createProgress } from './progress.ts'
import { checkedText, findingText, Report } from './report.ts'

/** The exit code: 1 where something was found. */
export async function verify({ config, flags }: CommandInput): Promise<number> {
  const folder = lookAtFolder(config, true)
  const report = new Report()
  const progress = createProgress('checking segments')
  try {
    await checkFolder(folder, report, progress)
  } finally {
    progress.end()
  }
  const { count, findings, notes, checked } = report
  if (flags.has('json')) say(JSON.stringify({ clean: count === 0, count, findings, notes, checked }, null, 2))
  else sayReport(report)
  return count === 0 ? CLEAN : DAMAGED
}

function sayReport(report: Report): void {
  const { count, findings, notes } = report
  for (const note of notes) sayNote(`note: ${note}`)
  for (const finding of findings) say(findingText(finding))
  if (count > findings.length) say(`and ${count - findings.length} more`)
  if (count === 0) say(`clean: ${checkedText(report)}`)
  else say(`${count === 1 ? '1 finding' : `${count} findings`}; checked: ${checkedText(report)}`)
}
