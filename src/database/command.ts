/**
 * A command of the command line, and how `weir <name> …` is read. app/commands.ts lists all
 * commands.
 */
import { parseArgs } from 'node:util'
import { isDiskError } from '../util/disk.ts'
import { assert, CannotRun, must } from '../util/errors.ts'
import { likelyName } from '../util/misspelt.ts'
import type { LogSettings } from '../util/say.ts'
import { allOptions, type Config, logSettingsOf, type Option, readConfig } from './config.ts'

/** Exit codes. 1: damage was found. 2: the command could not run. */
export const CLEAN = 0
export const DAMAGED = 1
export const CANNOT_RUN = 2

/** The exit code of a command that failed: 2 where its user or the world kept it from running. */
export function exitCodeOf(failure: Error): number {
  return failure.name === 'CannotRun' || isDiskError(failure) ? CANNOT_RUN : DAMAGED
}

/** A flag that only this command takes. */
export interface CommandFlag {
  /** Without the dashes. */
  readonly flag: string
  /** Name of its value in the help; "" for a flag without a value. */
  readonly value: string
  readonly why: string
  /** It may be given several times. */
  readonly repeats?: true
  /** The actions of the command that take it; absent for all. */
  readonly actions?: readonly string[]
}

/** A flag of some actions. */
export function flagOf(actions: readonly string[], flag: string, value: string, why: string): CommandFlag {
  return { flag, value, why: `${actions.join(', ')}: ${why}`, actions }
}

/** The options and arguments of a command. */
export interface CommandInput {
  readonly config: Config
  /** Arguments after the command's name, in order. */
  readonly positionals: readonly string[]
  /** Given flags of this command; a flag without a value is "", one that repeats has lines. */
  readonly flags: ReadonlyMap<string, string>
}

export interface Command {
  readonly name: string
  /**
   * `<pool>`, `[folder]`, … as the help shows them. A last one such as `<file…>` may be given
   * several times.
   */
  readonly positionals: readonly string[]
  readonly flags: readonly CommandFlag[]
  readonly why: string
  /** Of a command on a data folder: what to do in a cluster, where it is refused. */
  readonly instead?: string
  /**
   * Resolves with the exit code. Rejects with CannotRun (2) or Damaged (1). Results go to stdout,
   * progress and notes to stderr.
   */
  readonly run: (input: CommandInput) => Promise<number>
}

/** For commands whose result programs read. */
export const JSON_FLAG: CommandFlag = {
  flag: 'json',
  value: '',
  why: 'prints the result as one JSON document',
}

/** A message of our own for an error of parseArgs. */
function usageError(
  error: Error & { readonly code?: string },
  args: readonly string[],
  command: Command,
  isDefault: boolean,
): string {
  const { code, message } = error
  const flag = /'(-[^ '=]*)/.exec(message)?.[1] ?? ''
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const word = args.find(arg => /^-[^-]/.test(arg)) // `-out x` is read as the letters o, u and t
    if (flag.startsWith('--') || word === undefined)
      return `weir ${command.name} has no option ${flag}${likelyFlag(flag, command, isDefault)}`
    return `weir ${command.name} has no option ${word}; options have two dashes: -${word}`
  }
  if (code !== 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return message
  const known = [...command.flags, ...allOptions().map(([, one]) => one)]
  const value = known.find(one => `--${one.flag}` === flag)?.value ?? ''
  if (value === '') return `${flag} takes no value`
  const dashed = message.includes('ambiguous') ? `, or ${flag}=… where it begins with a dash` : ''
  return `${flag} needs a value: ${flag} ${value}${dashed}`
}

/** The option that an unknown one may stand for, or whose it is. */
function likelyFlag(given: string, command: Command, isDefault: boolean): string {
  const ofStart = allOptions().flatMap(([, { flag, hidden, common }]) =>
    flag === null || hidden === true ? [] : [{ flag, isTaken: isDefault || common === true }],
  )
  const taken = ofStart.filter(({ isTaken }) => isTaken).map(({ flag }) => flag)
  const likely = likelyName(given.slice(2), [...taken, ...command.flags.map(({ flag }) => flag), 'help'])
  if (likely !== undefined) return `: --${likely} may be meant`
  const names = ofStart.map(({ flag }) => flag)
  const other = names.find(flag => `--${flag}` === given) ?? likelyName(given.slice(2), names)
  return other === undefined ? '' : `: only weir start takes --${other}`
}

/** Checks the number of arguments. Positionals are `<needed>` or `[optional]`, in order. */
function checkPositionals(command: Command, given: readonly string[]): void {
  const missing = command.positionals.find(
    (name, index) => name.startsWith('<') && given[index] === undefined,
  )
  if (missing !== undefined)
    throw new CannotRun(
      `weir ${command.name} needs ${missing}: weir ${[command.name, ...command.positionals].join(' ')}; see weir ${command.name} --help`,
    )
  const extra = given[command.positionals.length]
  if (extra === undefined || command.positionals.at(-1)?.includes('…')) return
  const taken = command.positionals.length === 0 ? 'no arguments' : command.positionals.join(' ')
  throw new CannotRun(`weir ${command.name} takes ${taken}; "${extra}" is one too many`)
}

/** Checks that the action of the command, its first argument, takes the flags. */
function checkActions(
  { name, flags }: Command,
  [action = '']: readonly string[],
  given: CommandInput['flags'],
) {
  const unused = flags.find(({ flag, actions }) => given.has(flag) && actions?.includes(action) === false)
  if (unused !== undefined) throw new CannotRun(`weir ${name} ${action} takes no --${unused.flag}`)
}

/** @throws CannotRun where the command needs a data folder and the store has none */
export function checkStore({ name, instead }: Command, { config, flags }: CommandInput): void {
  if (config.store === 'local' || instead === undefined || flags.has('url')) return
  throw new CannotRun(`weir ${name} needs a data folder, which --store ${config.store} has not: ${instead}`)
}

/** The parsed command line. */
interface CommandLine {
  /** The command that was named. If none was, the first one runs, `start`. */
  readonly named: Command | undefined
  readonly help: boolean
  readonly input: CommandInput
}

/**
 * Reads flags, then the environment, then defaults. The first argument that is no flag names the
 * command. A command takes the common options and its own flags, and `start` takes all options.
 * @param commands all commands; the first is the default
 * @throws CannotRun naming the command, flag, option or argument that is unknown
 */
export function readCommandLine(
  args: readonly string[],
  commands: readonly Command[],
  env?: NodeJS.ProcessEnv,
): CommandLine {
  const { value: name, index = 0 } = firstPositional(args) ?? {}
  const named = name === undefined ? undefined : commands.find(command => command.name === name)
  if (name !== undefined && named === undefined) {
    // In `--prot 1` the option is wrong, and 1 its value.
    if (args[index - 1]?.startsWith('--') === true) parseFlags(args, must(commands[0], 'the default'), true)
    throw new CannotRun(unknownCommand(name, commands))
  }
  const command = named ?? must(commands[0], 'the default command')
  const { values, positionals } = parseFlags(args, command, command === commands[0])
  if (named !== undefined) positionals.shift()
  const help = values['help'] === true
  if (!help) checkPositionals(command, positionals)
  const flags = new Map<string, string>()
  for (const { flag } of command.flags) {
    const value = values[flag]
    if (value !== undefined) flags.set(flag, typeof value === 'string' ? value : '')
  }
  if (!help) checkActions(command, positionals, flags)
  // The help is printed whatever the options say; a wrong one may be why it is asked for.
  const config = help ? readConfig({}, {}) : readConfig(values, env)
  return { named, help, input: { config, positionals, flags } }
}

function unknownCommand(name: string, commands: readonly Command[]): string {
  const names = commands.map(one => one.name)
  const likely = likelyName(name, names)
  const meant = likely === undefined ? '' : `, "${likely}" may be meant`
  return `there is no command "${name}"${meant}; there are ${names.join(', ')}; see weir --help`
}

type ParseOptions = Record<string, { type: 'string' | 'boolean'; multiple?: boolean }>

function flagsOf(isTaken: (one: Option<unknown>) => boolean): ParseOptions {
  const options: ParseOptions = { help: { type: 'boolean' } }
  for (const [, one] of allOptions())
    if (one.flag !== null && isTaken(one)) options[one.flag] = { type: 'string' }
  return options
}

/** The format and the level of lines about a command line, which may be wrong elsewhere. */
export function readLogSettings(args: readonly string[], env?: NodeJS.ProcessEnv): LogSettings {
  return logSettingsOf(parseLeniently(args).values, env)
}

/** The command's name. A flag with a value that comes before it must be an option. */
function firstPositional(args: readonly string[]): { value: string; index: number } | undefined {
  return parseLeniently(args).tokens.find(token => token.kind === 'positional')
}

/** Takes flags that are unknown, and options without their value. */
function parseLeniently(args: readonly string[]) {
  const options = flagsOf(() => true)
  return parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true })
}

function parseFlags(args: readonly string[], command: Command, isDefault: boolean) {
  const options = flagsOf(one => isDefault || one.common === true)
  for (const { flag, value, repeats } of command.flags) {
    assert(options[flag] === undefined, `--${flag} of weir ${command.name} has a name of its own`)
    options[flag] = { type: value === '' ? 'boolean' : 'string', multiple: repeats === true }
  }
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
    const values = Object.entries(parsed.values).map(
      ([name, value]) => [name, Array.isArray(value) ? value.join('\n') : value] as const,
    )
    return { values: Object.fromEntries(values), positionals: parsed.positionals }
  } catch (error) {
    throw new CannotRun(
      `${usageError(error as Error, args, command, isDefault)}; see weir ${command.name} --help`,
    )
  }
}
