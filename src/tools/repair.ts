/** `weir repair`: goes on without what is damaged. */
import type { Command } from '../engine/command.ts'

export const REPAIR: Command = {
  name: 'repair',
  positionals: [],
  flags: [
    { flag: 'dry-run', value: '', why: 'says what it would do, changes nothing, and exits with 1' },
    {
      flag: 'yes',
      value: '',
      why: 'goes on where something is lost; without it repair says what, changes nothing, and exits with 2',
    },
  ],
  why: 'sets damaged parts of a stopped folder aside, so that the rest starts again; loses nothing without --yes',
  run: async input => (await import('./repair-folder.ts')).repair(input),
}
