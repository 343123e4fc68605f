/**
 * The options of all questions, and their conversion to numbers. A wrong one ends the bench with
 * one line, exit 2.
 */

/** For parseArgs. */
export const OPTIONS = {
  seconds: { type: 'string' },
  rate: { type: 'string' },
  pairs: { type: 'string' },
  connections: { type: 'string' },
  kernel: { type: 'string' },
  keys: { type: 'string' },
  pattern: { type: 'string' },
  'no-peers': { type: 'boolean' },
  generator: { type: 'string' },
  pause: { type: 'string' },
  only: { type: 'string' },
  minutes: { type: 'string' },
  pools: { type: 'string' },
  rounds: { type: 'string' },
  rows: { type: 'string' },
  updates: { type: 'string' },
  deletes: { type: 'string' },
  python: { type: 'string' },
  server: { type: 'string' },
  memory: { type: 'string' },
  http: { type: 'string' },
  packages: { type: 'string' },
  tries: { type: 'string' },
  forms: { type: 'string' },
  readers: { type: 'string' },
  bucket: { type: 'string' },
} as const

export type OptionName = keyof typeof OPTIONS

/** The command line is wrong. */
export class Usage extends Error {}

/** The number of an option, 0 or more; `otherwise` where it is missing. Throws Usage. */
export function numberOf(name: OptionName, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new Usage(`--${name} takes a number, not '${text}'`)
  return value
}

/** The word of an option, one of `words`; undefined where it is missing. Throws Usage. */
export function oneOf<T extends string>(
  name: OptionName,
  text: string | undefined,
  words: readonly T[],
): T | undefined {
  const word = words.find(one => one === text)
  if (word === undefined && text !== undefined)
    throw new Usage(`--${name} takes one of ${words.join(', ')}, not '${text}'`)
  return word
}
