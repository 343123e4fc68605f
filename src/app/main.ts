#!/usr/bin/env node
/** `weir`: reads the command line, runs one command, exits with its code. */

import { CANNOT_RUN, CLEAN, DAMAGED, readCommandLine } from '../engine/command.ts'
import { isInterrupted } from '../tools/terminal.ts'
import { must } from '../util/assert.ts'
import { dieOf } from '../util/end-process.ts'
import { errorText, missingPackage, say, warn } from '../util/say.ts'
import { COMMANDS, commandHelp, helpText } from './commands.ts'

/**
 * Files and folders of every command belong to its user alone: 0600 and 0700. Weir requests these
 * modes itself; libraries that write files (LMDB, DuckDB, Parquet) request more.
 */
const PRIVATE_UMASK = 0o077

async function main(): Promise<number> {
  process.umask(PRIVATE_UMASK)
  const { named, help, input } = readCommandLine(process.argv.slice(2), COMMANDS)
  if (help) {
    say(named === undefined ? helpText() : commandHelp(named))
    return CLEAN
  }
  const command = named ?? must(COMMANDS[0], 'the default command')
  return await command.run(input)
}

// `weir inspect | head`: the reader has closed the pipe. Weir ends as other tools do, by SIGPIPE
// and without a message; a shell reports 141. The next start recovers whatever was under way.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', error => {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
    dieOf('SIGPIPE')
  })

/**
 * Waits until the output is written: exit() would lose output that is still on its way through a
 * pipe.
 */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise(resolve => {
    stream.write('', () => resolve())
  })
}

/** Exits with `code`, unless a signal is already ending the process. */
function exit(code: number): void {
  if (!isInterrupted()) process.exit(code)
}

try {
  const code = await main()
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  exit(code)
} catch (error) {
  const failure = missingPackage(error as Error) ?? (error as Error)
  if (!isInterrupted()) warn(errorText(failure))
  exit(failure.name === 'CannotRun' ? CANNOT_RUN : DAMAGED)
}
