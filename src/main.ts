#!/usr/bin/env node
/** `weir`: reads the command line, runs one command, exits with its code. */
import { COMMANDS } from './command/commands.ts'
import { commandHelp, helpText } from './command/help.ts'
import { isInterrupted } from './command/interrupt.ts'
import { CANNOT_RUN, CLEAN, DAMAGED } from './command/protocol.ts'
import { readCommandLine } from './config.ts'
import { must } from './util/assert.ts'
import { dieOf } from './util/end-now.ts'
import { say, warn } from './util/say.ts'

async function main(): Promise<number> {
  const { named, help, input } = readCommandLine(process.argv.slice(2), COMMANDS)
  if (help) {
    say(named === undefined ? helpText(COMMANDS) : commandHelp(named, named === COMMANDS[0]))
    return CLEAN
  }
  const command = named ?? must(COMMANDS[0], 'the default command')
  return await command.run(input)
}

// `weir inspect | head`: whoever reads has seen enough. Quietly, as other tools end: by SIGPIPE, which a shell tells as
// 141 in a pipeline. The next start recovers, whatever was under way.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', error => {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
    dieOf('SIGPIPE')
  })

/** What was printed may still be on its way through a pipe: exit() would cut it off. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise(resolve => {
    stream.write('', () => resolve())
  })
}

/** Ends with `code`, unless a signal is ending the process: then that one does. */
function exit(code: number): void {
  if (!isInterrupted()) process.exit(code)
}

/** What the world did has a sentence of its own; a stack says where our own fault is. */
function tell(error: Error & { readonly syscall?: string }): void {
  const { name, message, stack, syscall } = error
  const isWorlds = WORLDS_FAULTS.has(name) || syscall !== undefined
  if (!isInterrupted()) warn(isWorlds ? message : (stack ?? message))
}

const WORLDS_FAULTS: ReadonlySet<string> = new Set(['CannotRun', 'Damaged', 'SegmentDamaged', 'Unavailable'])

try {
  const code = await main()
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  exit(code)
} catch (error) {
  tell(error as Error)
  exit((error as Error).name === 'CannotRun' ? CANNOT_RUN : DAMAGED)
}
