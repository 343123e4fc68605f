#!/usr/bin/env node
/** `weir`: reads the command line, runs one command, exits with its code. */
import { COMMANDS } from './command/commands.ts'
import { commandHelp, helpText } from './command/help.ts'
import { CANNOT_RUN, CLEAN, DAMAGED } from './command/protocol.ts'
import { readCommandLine } from './config.ts'
import { must } from './util/assert.ts'
import { endNow } from './util/end-now.ts'
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

// `weir inspect | head`: whoever reads has seen enough. The next start recovers, whatever was under way.
process.stdout.on('error', error => {
  if ((error as NodeJS.ErrnoException).code === 'EPIPE') endNow()
  throw error
})

/** What was printed may still be on its way through a pipe: exit() would cut it off. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise(resolve => {
    stream.write('', () => resolve())
  })
}

try {
  const code = await main()
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  process.exit(code)
} catch (error) {
  const { name, message, stack } = error as Error
  if (name === 'CannotRun') {
    warn(message)
    process.exit(CANNOT_RUN)
  }
  warn(name === 'Damaged' || name === 'SegmentDamaged' ? message : (stack ?? message))
  process.exit(DAMAGED)
}
