/** `weir verify`: is everything in a stopped folder as it should be? */
import { type Command, JSON_FLAG } from '../engine/command.ts'

export const VERIFY: Command = {
  name: 'verify',
  positionals: [],
  flags: [JSON_FLAG],
  why: 'checks log, segments, keys and marks of a stopped folder; changes nothing',
  run: async input => (await import('./verify-folder.ts')).verify(input),
}
