/** `weir --help` and `weir <command> --help`. */

import type { Command } from '../engine/command.ts'
import { optionLines } from '../engine/config.ts'

const EXIT = [
  '  0  clean; the server stopped as it was told',
  '  1  damage was found, or is in the way',
  '  2  could not run',
]

/** What `weir --help` prints. */
export function helpText(commands: readonly Command[]): string {
  return [
    'weir: a webhook data pool',
    '',
    'usage: weir [command] [arguments] [options]',
    '',
    ...commands.map(one => `  ${usageOf(one).padEnd(28)} ${one.why}`),
    '',
    'weir <command> --help prints what a command takes. <pool> is an id or a unique name.',
    '',
    `  ${'option'.padEnd(28)} ${'environment'.padEnd(20)} meaning [default]`,
    ...optionLines(false),
    `  ${'--help'.padEnd(28)} ${''.padEnd(20)} this text`,
    '',
    'Commands but start take only --data-dir, --kernel and flags of their own, and want the folder for themselves.',
    '',
    'exit code:',
    ...EXIT,
  ].join('\n')
}

/** What `weir <command> --help` prints; `takesAll`: every option, not only the common ones. */
export function commandHelp(command: Command, takesAll: boolean): string {
  const own = command.flags.map(({ flag, value, why }) => {
    const left = value === '' ? `--${flag}` : `--${flag} ${value}`
    return `  ${left.padEnd(28)} ${why}`
  })
  return [
    `weir ${usageOf(command)}: ${command.why}`,
    '',
    ...(own.length === 0 ? [] : [...own, '']),
    `  ${'option'.padEnd(28)} ${'environment'.padEnd(20)} meaning [default]`,
    ...optionLines(!takesAll),
    '',
    'exit code:',
    ...EXIT,
  ].join('\n')
}

function usageOf({ name, positionals }: Command): string {
  return [name, ...positionals].join(' ')
}
