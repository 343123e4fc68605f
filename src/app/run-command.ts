/** `weir`: reads the command line, runs one command, exits with its code. */

import { CLEAN, checkStore, exitCodeOf, readCommandLine, readLogSettings } from '../database/command.ts'
import { setProduction } from '../database/config.ts'
import { isInterrupted } from '../tools/interrupts.ts'
import { dieOf } from '../util/end-process.ts'
import { CannotRun, must } from '../util/errors.ts'
import { armCrash, setFaults } from '../util/fault-injection.ts'
import { beginLines } from '../util/lines.ts'
import { errorText, fail, missingPackage, say, setLog } from '../util/say.ts'
import { COMMANDS, commandHelp, helpText } from './commands.ts'

/**
 * Files and folders of every command belong to its user alone: 0600 and 0700. Weir requests these
 * modes itself; libraries that write files (LMDB, DuckDB, Parquet) request more.
 */
const PRIVATE_UMASK = 0o077

/**
 * The first failed write to standard output, such as to a file on a full disk. A command ends with
 * it, because its result is there.
 */
let outputError: Error | undefined

async function main(): Promise<number> {
  process.umask(PRIVATE_UMASK)
  const args = process.argv.slice(2)
  // The command line may be wrong, and its error is a line of operation.
  setLog(readLogSettings(args))
  const { named, help, input } = readCommandLine(args, COMMANDS)
  const command = named ?? must(COMMANDS[0], 'the default command')
  const isServer = command === COMMANDS[0] && !help
  if (isServer) beginLines()
  else endWithReader()
  if (help) {
    say(named === undefined ? helpText() : commandHelp(named))
    return CLEAN
  }
  checkStore(command, input)
  setProduction()
  setFaults(input.config.faultAt)
  armCrash(input.config.crashAt)
  return await command.run(input)
}

/**
 * `weir inspect | head`: the reader has closed the pipe. A command ends as other tools do, by
 * SIGPIPE and without a message; a shell reports 141. The next start recovers whatever was under
 * way.
 */
function endWithReader(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') dieOf('SIGPIPE')
      else if (stream === process.stdout) outputError ??= error
    })
}

/**
 * Waits until the output is written: exit() would lose output that is still on its way through a
 * pipe.
 */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise(resolve => {
    stream.write('', () => resolve())
  })
}

/** Runs the command, says why it failed, and returns its exit code. */
async function run(): Promise<number> {
  let code: number = CLEAN
  let failure: Error | undefined
  try {
    code = await main()
  } catch (error) {
    failure = missingPackage(error as Error) ?? (error as Error)
    endWithReader() // for the line about a command line that could not be read
  }
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  if (outputError !== undefined)
    failure = new CannotRun(`standard output cannot be written: ${outputError.message}`)
  if (failure === undefined) return code
  if (!isInterrupted()) fail(errorText(failure))
  return exitCodeOf(failure)
}

const exitCode = await run()
if (!isInterrupted()) process.exit(exitCode) // else a signal is already ending the process
