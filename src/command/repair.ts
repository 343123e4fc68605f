/** `weir repair`: goes on without what is damaged. */
import type { Command } from './protocol.ts'

export const REPAIR: Command = {
  name: 'repair',
  positionals: [],
  flags: [
    { flag: 'dry-run', value: '', why: 'says what it would do, and changes nothing' },
    { flag: 'yes', value: '', why: 'goes on where something is lost' },
  ],
  why: 'sets damaged parts of a stopped folder aside, so that the rest starts again',
  run: async input => (await import('./repair-folder.ts')).repair(input),
}
