/**
 * Replayed records as rows of numbers: objects of tens of thousands of records took both threads longer to pass on than to
 * read and to cut.
 */
import { must } from '../util/assert.ts'
import type { ReplayChunk, Replayed } from './protocol.ts'

export const REPLAYED_WORDS = 12
/** Words of a row, as the fields of Replayed. */
export const REPLAYED = {
  sequence: 0,
  /** REPLAYED_POST or REPLAYED_DELETE. */
  kind: 1,
  pool: 2,
  version: 3,
  receivedAtMs: 4,
  events: 5,
  accepted: 6,
  offset: 7,
  bodyBytes: 8,
  bitsOffset: 9,
  /** Index in the chunk's files. */
  file: 10,
  fileOffset: 11,
} as const
export const REPLAYED_POST = 0
const REPLAYED_DELETE = 1

/** The table and the files of records in sequence order. */
export function tableOf(records: readonly Replayed[]): Pick<ReplayChunk, 'table' | 'files'> {
  const byPool = [...records].sort((a, b) => a.pool - b.pool) // stable: by sequence within a pool
  const table = new Float64Array(records.length * REPLAYED_WORDS)
  const files: string[] = []
  let at = 0
  for (const record of byPool) {
    let file = files.indexOf(record.file)
    if (file < 0) file = files.push(record.file) - 1
    table[at + REPLAYED.sequence] = record.sequence
    table[at + REPLAYED.kind] = record.kind === 'post' ? REPLAYED_POST : REPLAYED_DELETE
    table[at + REPLAYED.pool] = record.pool
    table[at + REPLAYED.version] = record.version
    table[at + REPLAYED.receivedAtMs] = record.receivedAtMs
    table[at + REPLAYED.events] = record.events
    table[at + REPLAYED.accepted] = record.accepted
    table[at + REPLAYED.offset] = record.offset
    table[at + REPLAYED.bodyBytes] = record.bodyBytes
    table[at + REPLAYED.bitsOffset] = record.bitsOffset
    table[at + REPLAYED.file] = file
    table[at + REPLAYED.fileOffset] = record.fileOffset
    at += REPLAYED_WORDS
  }
  return { table, files }
}

/** How many records a chunk has. */
export function replayedCount({ table }: ReplayChunk): number {
  return table.length / REPLAYED_WORDS
}

/** One row, as an object: for messages, and for tests. */
export function replayedAt({ table, files }: ReplayChunk, row: number): Replayed {
  const word = (name: keyof typeof REPLAYED) => must(table[row * REPLAYED_WORDS + REPLAYED[name]], name)
  return {
    sequence: word('sequence'),
    kind: word('kind') === REPLAYED_POST ? 'post' : 'delete',
    pool: word('pool'),
    version: word('version'),
    receivedAtMs: word('receivedAtMs'),
    events: word('events'),
    accepted: word('accepted'),
    offset: word('offset'),
    bodyBytes: word('bodyBytes'),
    bitsOffset: word('bitsOffset'),
    file: must(files[word('file')], 'the file of a record'),
    fileOffset: word('fileOffset'),
  }
}
