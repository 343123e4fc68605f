/**
 * Replay chunks: recovered records on their way from the log thread to the parse workers.
 *
 * A chunk has the bodies and bitmaps in shared memory and its records as a table of numbers. One
 * object per record would take both threads longer to pass on than reading and parsing it.
 */
import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES } from '../format/log-record.ts'
import { assert, must } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { bitmapBytes, isRequest, type ReadRecord } from './record-codec.ts'

/**
 * Bytes of a replay chunk. A start parses its records together, and each pool's records become one
 * batch. A large chunk has several records of each of thousands of pools that take turns.
 */
const REPLAY_CHUNK_BYTES = 16 * MiB

/** A recovered record above its pool's flushed sequence: one row of a chunk's table. */
export interface Replayed
  extends Omit<ReadRecord, 'lastSequence' | 'kind' | 'hasBits' | 'bytes' | 'recordBytes'> {
  readonly kind: 'post' | 'delete'
  /** Offset of the body in the chunk's slab: of the context, where the record has one. */
  readonly offset: number
  /** Offset of the bitmap in the chunk's slab; -1 without one. */
  readonly bitsOffset: number
}

/** Replayed records: at most REPLAY_CHUNK_BYTES of bodies and bitmaps, or one record. */
export interface ReplayChunk {
  readonly slab: SharedArrayBuffer
  /**
   * One row of REPLAYED_WORDS numbers per record, sorted by pool, then sequence. Transferred
   * between threads.
   */
  readonly table: Float64Array
  /** Paths that the rows name by index. */
  readonly files: readonly string[]
}

/** Numbers in a row. */
export const REPLAYED_WORDS = 14
/** Position of each field of Replayed in a row. */
export const REPLAYED = {
  sequence: 0,
  /** REPLAYED_POST or REPLAYED_DELETE. */
  kind: 1,
  pool: 2,
  version: 3,
  receivedAtUs: 4,
  events: 5,
  accepted: 6,
  offset: 7,
  bodyBytes: 8,
  bitsOffset: 9,
  /** Index into the chunk's files. */
  file: 10,
  fileOffset: 11,
  receivedAtStepUs: 12,
  contextBytes: 13,
} as const
export const REPLAYED_POST = 0
const REPLAYED_DELETE = 1

/** The table and the files of a chunk; `records` are in sequence order. */
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
    table[at + REPLAYED.receivedAtUs] = record.receivedAtUs
    table[at + REPLAYED.receivedAtStepUs] = record.receivedAtStepUs
    table[at + REPLAYED.events] = record.events
    table[at + REPLAYED.accepted] = record.accepted
    table[at + REPLAYED.offset] = record.offset
    table[at + REPLAYED.bodyBytes] = record.bodyBytes
    table[at + REPLAYED.contextBytes] = record.contextBytes
    table[at + REPLAYED.bitsOffset] = record.bitsOffset
    table[at + REPLAYED.file] = file
    table[at + REPLAYED.fileOffset] = record.fileOffset
    at += REPLAYED_WORDS
  }
  return { table, files }
}

export function replayedCount({ table }: ReplayChunk): number {
  return table.length / REPLAYED_WORDS
}

/** One row as an object, for messages and tests. */
export function replayedAt({ table, files }: ReplayChunk, row: number): Replayed {
  const word = (name: keyof typeof REPLAYED) => must(table[row * REPLAYED_WORDS + REPLAYED[name]], name)
  return {
    sequence: word('sequence'),
    kind: word('kind') === REPLAYED_POST ? 'post' : 'delete',
    pool: word('pool'),
    version: word('version'),
    receivedAtUs: word('receivedAtUs'),
    receivedAtStepUs: word('receivedAtStepUs') === 1 ? 1 : 0,
    events: word('events'),
    accepted: word('accepted'),
    offset: word('offset'),
    bodyBytes: word('bodyBytes'),
    contextBytes: word('contextBytes'),
    bitsOffset: word('bitsOffset'),
    file: must(files[word('file')], 'the file of a record'),
    fileOffset: word('fileOffset'),
  }
}

/**
 * Builds chunks from records in sequence order. It builds the next chunk while one is being
 * replayed.
 */
export class ChunkBuilder {
  readonly #replay: (chunk: ReplayChunk) => Promise<void>
  #records: Replayed[] = []
  #parts: Uint8Array[] = []
  #bytes = 0
  /** The chunk that is being replayed. Rejects where its replay fails. */
  #replaying: Promise<void> = Promise.resolve()

  constructor(replay: (chunk: ReplayChunk) => Promise<void>) {
    this.#replay = replay
  }

  /** Adds a post or delete. Hands the chunk over first where the record does not fit. */
  async add(record: ReadRecord): Promise<void> {
    assert(isRequest(record), 'only requests are replayed')
    const from = record.fileOffset + RECORD_HEADER_BYTES
    const bytes = record.recordBytes - RECORD_HEADER_BYTES
    if (this.#records.length > 0 && this.#bytes + bytes > REPLAY_CHUNK_BYTES) await this.#handOver()
    const { sequence, pool, version, events, accepted, bodyBytes, contextBytes, file, fileOffset } = record
    const { receivedAtUs, receivedAtStepUs } = record
    const kind = record.kind === 'post' ? 'post' : 'delete'
    const offset = this.#bytes
    const bitsOffset = record.hasBits ? offset + align8(bodyBytes) : -1
    const places = { offset, bodyBytes, contextBytes, bitsOffset, file, fileOffset }
    const received = { receivedAtUs, receivedAtStepUs }
    this.#records.push({ sequence, kind, pool, version, ...received, events, accepted, ...places })
    assert(!record.hasBits || bytes >= align8(bodyBytes) + bitmapBytes(events), 'a bitmap is in its record')
    // The file's bytes stay as they are until the next chunk: the copy changes headers only.
    this.#parts.push(record.bytes.subarray(from, from + bytes))
    this.#bytes += bytes
  }

  /** Hands over the last chunk. Resolves when everything is replayed. */
  async finish(): Promise<void> {
    if (this.#records.length > 0) await this.#handOver()
    await this.#replaying
  }

  /**
   * Starts the replay of one chunk after the one before has ended: memtables take the records in
   * order.
   */
  async #handOver(): Promise<void> {
    const slab = new SharedArrayBuffer(this.#bytes)
    const into = new Uint8Array(slab)
    for (let index = 0; index < this.#parts.length; index++) {
      into.set(this.#parts[index]!, this.#records[index]!.offset)
    }
    const { table, files } = tableOf(this.#records)
    this.#records = []
    this.#parts = []
    this.#bytes = 0
    await this.#replaying
    this.#replaying = this.#replay({ slab, table, files })
    this.#replaying.catch(() => undefined) // the next `await` gets the error
  }
}
