/** What a command of the command line is. `weir <name> …` runs one; `commands.ts` lists them all. */
import type { Config } from '../config.ts'

/** Exit codes. 1: damage was found or is in the way. 2: it could not run. */
export const CLEAN = 0
export const DAMAGED = 1
export const CANNOT_RUN = 2

/** A flag that only this command takes. */
interface CommandFlag {
  /** Without the dashes. */
  readonly flag: string
  /** What stands for its value in the help; "" for a flag without one. */
  readonly value: string
  readonly why: string
}

/** What the command line gave it. */
export interface CommandInput {
  readonly config: Config
  /** What follows the command's name, in order. */
  readonly positionals: readonly string[]
  /** Given flags of this command; a flag without a value is "". */
  readonly flags: ReadonlyMap<string, string>
}

export interface Command {
  readonly name: string
  /** `<pool>`, `[folder]`, … as the help shows them. */
  readonly positionals: readonly string[]
  readonly flags: readonly CommandFlag[]
  readonly why: string
  /** The exit code. Throws CannotRun (2) or Damaged (1). Results go to stdout, progress and notes to stderr. */
  readonly run: (input: CommandInput) => Promise<number>
}

/** For commands whose result programs read. */
export const JSON_FLAG: CommandFlag = {
  flag: 'json',
  value: '',
  why: 'prints the result as one JSON document',
}
