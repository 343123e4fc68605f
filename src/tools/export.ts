/** `weir export`: exactly the live rows of a pool, as one file. */
import type { Command } from '../engine/command.ts'

export const EXPORT: Command = {
  name: 'export',
  positionals: ['<pool>'],
  flags: [
    { flag: 'format', value: 'parquet|arrow|ndjson|csv', why: 'of the file; parquet unless given' },
    { flag: 'columns', value: 'a,b', why: 'these columns in this order; all unless given' },
    { flag: 'where', value: 'JSON', why: 'rows that match: a list of filters as GraphQL takes them' },
    { flag: 'start', value: 'time', why: 'rows with the primary timestamp at or after this' },
    { flag: 'stop', value: 'time', why: 'rows with the primary timestamp before this' },
    { flag: 'compression', value: 'zstd|snappy|gzip|none', why: 'of parquet; zstd unless given' },
    { flag: 'out', value: 'file', why: 'where to; - is standard output' },
    { flag: 'force', value: '', why: 'replaces a file that is there' },
  ],
  why: 'writes the live rows of a pool to a file',
  run: async input => (await import('./export-pool.ts')).exportCommand(input),
}
