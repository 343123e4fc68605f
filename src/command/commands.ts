/**
 * Every command, in the help's order; the first is the default.
 *
 * A command's file holds what the command line must know of it, and loads the rest when it runs: the server's start
 * does not wait for what it does not need.
 */
import { BACKUP } from './backup.ts'
import { EXPORT } from './export.ts'
import { INSPECT } from './inspect.ts'
import type { Command } from './protocol.ts'
import { REBUILD } from './rebuild.ts'
import { REPAIR } from './repair.ts'
import { RESTORE } from './restore.ts'
import { START } from './start.ts'
import { VERIFY } from './verify.ts'

export const COMMANDS: readonly Command[] = [START, INSPECT, VERIFY, EXPORT, REBUILD, REPAIR, BACKUP, RESTORE]
