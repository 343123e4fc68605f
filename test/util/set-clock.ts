/**
 * Sets the wall clock of a process that is started with `clockEnv`. Each of its threads loads this
 * file before the program. The monotonic clock stays as it is.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const VARIABLE = 'WEIR_TEST_CLOCK'

/**
 * A clock that stands still at a moment, or that runs `aheadMs` before (behind, if negative) the
 * real one. A `file` holds the `aheadMs` of a clock that steps while the process runs.
 */
type ClockSetting = { readonly atMs: number } | { readonly aheadMs: number } | { readonly file: string }

/** Returns the environment variables that set the wall clock of a Node process. */
export function clockEnv(setting: ClockSetting): Record<string, string> {
  const preload = fileURLToPath(import.meta.url)
  return {
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${preload}`,
    [VARIABLE]: JSON.stringify(setting),
  }
}

const given = process.env[VARIABLE]
if (given !== undefined) {
  const setting = JSON.parse(given) as ClockSetting
  const real = Date.now
  // Read at each call, so that a step counts from the moment when it is set.
  if ('file' in setting) Date.now = () => real() + Number(readFileSync(setting.file, 'utf8'))
  else Date.now = 'atMs' in setting ? () => setting.atMs : () => real() + setting.aheadMs
}
