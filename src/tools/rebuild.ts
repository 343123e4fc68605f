/** `weir rebuild`: the key index made anew from segments, delete files and catalog; the log is replayed by the next start. */
import type { Command } from '../engine/command.ts'

export const REBUILD: Command = {
  name: 'rebuild',
  positionals: [],
  flags: [],
  why: 'makes the key index of a stopped folder anew from its segments',
  run: async input => (await import('./rebuild-index.ts')).rebuild(input),
}
