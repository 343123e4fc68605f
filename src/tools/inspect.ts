/** `weir inspect`: what stands in a stopped folder. */
import { type Command, JSON_FLAG } from '../engine/command.ts'

export const INSPECT: Command = {
  name: 'inspect',
  positionals: ['[pool]'],
  flags: [JSON_FLAG],
  why: 'shows pools, segments, log and index of a stopped folder; changes nothing',
  run: async input => (await import('./inspect-folder.ts')).inspect(input),
}
