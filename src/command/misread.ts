/** A command line that was not understood: what was wrong, what was expected. */
import { CannotRun } from '../errors.ts'
import type { Command } from './protocol.ts'

/**
 * What parseArgs did not take, in our words.
 * @param valueNameOf what stands for the value of an option that every command takes, '' for one without
 */
export function misread(
  error: Error & { readonly code?: string },
  args: readonly string[],
  command: Command,
  valueNameOf: (flag: string) => string,
): string {
  const { code, message } = error
  const flag = /'(-[^ '=]*)/.exec(message)?.[1] ?? ''
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const word = args.find(arg => /^-[^-]/.test(arg)) // `-out x` is read as the letters o, u and t
    if (flag.startsWith('--') || word === undefined) return `weir ${command.name} has no option ${flag}`
    return `weir ${command.name} has no option ${word}; options have two dashes: -${word}`
  }
  if (code !== 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return message
  const value = command.flags.find(one => `--${one.flag}` === flag)?.value ?? valueNameOf(flag)
  if (value === '') return `${flag} takes no value`
  const dashed = message.includes('ambiguous') ? `, or ${flag}=… where it begins with a dash` : ''
  return `${flag} needs a value: ${flag} ${value}${dashed}`
}

/** `<needed>` and `[optional]`, in order. */
export function checkPositionals(command: Command, given: readonly string[]): void {
  const missing = command.positionals.find(
    (name, index) => name.startsWith('<') && given[index] === undefined,
  )
  if (missing !== undefined)
    throw new CannotRun(
      `weir ${command.name} needs ${missing}: weir ${[command.name, ...command.positionals].join(' ')}; see weir ${command.name} --help`,
    )
  const extra = given[command.positionals.length]
  if (extra === undefined) return
  const taken = command.positionals.length === 0 ? 'no arguments' : command.positionals.join(' ')
  throw new CannotRun(`weir ${command.name} takes ${taken}; "${extra}" is one too many`)
}
