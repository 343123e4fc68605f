/**
 * Names of query parameters that a route does not take. The routes of Weir refuse them: a filter
 * with a misspelt name would be ignored, and the answer would be another one than was asked for.
 */
import { likelyName } from '../util/misspelt.ts'
import { printable } from '../util/say.ts'

const SHOWN_CHARACTERS_MAX = 100

export function shown(text: string): string {
  const short = text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text
  return printable(short)
}

export function noSuchParameter(name: string, known: readonly string[]): string {
  const likely = likelyName(name, known)
  const meant = likely === undefined ? '' : `, ${likely} may be meant`
  const all = known.length === 0 ? 'this route takes none' : `this route takes ${known.join(', ')}`
  return `${shown(name)}: there is no such parameter${meant}; ${all}`
}

/**
 * The parameters by their names, each of `known` and given once; or what is wrong.
 * @param repeated one of them that may be given several times
 */
export function readParameters(
  query: string,
  known: readonly string[],
  repeated?: string,
): ReadonlyMap<string, string> | string {
  const texts = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(query)) {
    if (!known.includes(name)) return noSuchParameter(name, known)
    if (texts.has(name) && name !== repeated) return `${name}: it is given more than once`
    texts.set(name, value)
  }
  return texts
}

export function unknownParameter(query: string, known: readonly string[]): string | undefined {
  for (const name of new URLSearchParams(query).keys())
    if (!known.includes(name)) return noSuchParameter(name, known)
  return undefined
}
