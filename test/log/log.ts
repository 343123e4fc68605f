/**
 * Helpers for tests of the log: bodies as spans, a recovery that collects, threads in one thread.
 */
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { expect } from 'vitest'
import { RECORD_KIND, recordBytes, writeRecordHeader } from '../../src/format/log-record.ts'
import { type LogCalls, type LogEvents, type LogThreadData, serveLog } from '../../src/log/log-thread.ts'
import type { Span } from '../../src/log/log-types.ts'
import { LogWriter } from '../../src/log/log-writer.ts'
import { type LogThreads, type OpenedLog, openOver } from '../../src/log/open-log.ts'
import { bitmapBytes } from '../../src/log/record-codec.ts'
import { type RecoveredLog, recoverLog } from '../../src/log/recover-log.ts'
import { type ReplayChunk, type Replayed, replayedAt, replayedCount } from '../../src/log/replay-chunk.ts'
import { type SpareCalls, type SpareEvents, serveSpares } from '../../src/log/spare-thread.ts'
import type { Disk } from '../../src/util/disk.ts'
import { localThread } from '../util/local-thread.ts'
import { MemoryDisk } from '../util/memory-disk.ts'

export const FOLDER = '/data/log'
export const FILE_BYTES = 64 * 1024

export interface Body {
  readonly text: string
  readonly pool?: number
  readonly kind?: 'post' | 'delete'
  readonly events?: number
  readonly bits?: Uint8Array
}

/** One span of the bodies, as a parse worker leaves it. Only the last may have bits. */
export function spanOf(...bodies: Body[]): Span {
  const encoded = bodies.map(body => new TextEncoder().encode(body.text))
  const bytes = encoded.reduce((sum, each) => sum + recordBytes(each.byteLength), 0)
  const slab = new SharedArrayBuffer(bytes + 64)
  const into = new Uint8Array(slab)
  const view = new DataView(slab)
  let offset = 64
  bodies.forEach((body, index) => {
    const bodyBytes = encoded[index]!
    writeRecordHeader(view, offset, {
      kind: RECORD_KIND[body.kind ?? 'post'],
      pool: body.pool ?? 1,
      version: 7,
      receivedAtUs: 1_700_000_000_123_456,
      receivedAtStepUs: 0,
      bodyBytes: bodyBytes.byteLength,
      bodyCrc: crc32(bodyBytes),
      contextBytes: 0,
      events: body.events ?? 1,
      accepted: body.events ?? 1,
      hasBits: body.bits !== undefined,
      bitsCrc: body.bits === undefined ? 0 : crc32(body.bits),
    })
    into.set(bodyBytes, offset + 64)
    offset += recordBytes(bodyBytes.byteLength)
  })
  const bits = bodies.at(-1)?.bits
  const span = { slab, offset: 64, bytes, records: bodies.length }
  return bits === undefined ? span : { ...span, bits }
}

/** A replayed record with its bytes. */
export interface Found {
  readonly sequence: number
  readonly text: string
  readonly record: Replayed
  readonly bits: Uint8Array | undefined
}

export function foundIn(chunk: ReplayChunk): Found[] {
  const records = Array.from({ length: replayedCount(chunk) }, (_, row) => replayedAt(chunk, row))
  records.sort((a, b) => a.sequence - b.sequence) // they came by pool
  return records.map(record => {
    const bytes = new Uint8Array(chunk.slab).slice(record.offset, record.offset + record.bodyBytes)
    const from = record.bitsOffset
    const bits =
      from < 0 ? undefined : new Uint8Array(chunk.slab).slice(from, from + bitmapBytes(record.events))
    return { sequence: record.sequence, text: new TextDecoder().decode(bytes), record, bits }
  })
}

/** Recovers and collects what is replayed. */
export async function recover(
  disk: Disk,
  flushed: ReadonlyMap<number, number> = new Map([[1, 0]]),
  fileBytesMax = FILE_BYTES,
): Promise<RecoveredLog & { readonly found: readonly Found[]; readonly texts: readonly string[] }> {
  const found: Found[] = []
  const replay = async (chunk: ReplayChunk) => {
    found.push(...foundIn(chunk))
  }
  const log = await recoverLog({ disk, folder: FOLDER, fileBytesMax, flushed, replay })
  return { ...log, found, texts: found.map(each => each.text) }
}

/** A writer over a recovered log. */
export function writerOver(log: RecoveredLog, durability: 'fsync' | 'os' = 'fsync'): LogWriter {
  return new LogWriter(
    log.generation,
    durability,
    log.summary.lastSequence + 1,
    log.spares.map(({ name }) => name),
  )
}

/** The commit stage over `disk`, its threads run in this one. */
export function openOn(
  disk: Disk,
  options: Partial<LogThreadData> & { flushed?: ReadonlyMap<number, number> } = {},
  replay: (chunk: ReplayChunk) => Promise<void> = async () => {},
): Promise<OpenedLog> {
  const data: LogThreadData = {
    folder: FOLDER,
    fileBytesMax: FILE_BYTES,
    durability: 'fsync',
    ...options,
  }
  return openOver(threadsOn(disk, data), data, { flushed: options.flushed ?? new Map([[1, 0]]), replay })
}

function threadsOn(disk: Disk, data: LogThreadData): LogThreads {
  return {
    log: localThread<LogCalls, LogEvents>(port => serveLog(port, data, disk)),
    startSpare: () => localThread<SpareCalls, SpareEvents>(port => serveSpares(port, data, disk)),
  }
}

/** The error that `promise` rejects with. */
export async function errorOf(promise: Promise<unknown>): Promise<Error & { code?: string; file?: string }> {
  try {
    await promise
  } catch (error) {
    return error as Error
  }
  throw new Error('it did not fail')
}

export const SMALL_FILE = 8 * 1024

/** Fills several files of SMALL_FILE, 500 bytes a record; returns the disk and what was written. */
export async function severalFiles(
  count: number,
  poolOf: (sequence: number) => number = () => 1,
): Promise<{ disk: MemoryDisk; texts: string[] }> {
  const disk = new MemoryDisk()
  const log = await recover(disk, undefined, SMALL_FILE)
  const writer = writerOver(log)
  const texts: string[] = []
  for (let sequence = 1; sequence <= count; sequence++) {
    const text = `${sequence}:${'x'.repeat(500)}`
    const group = { firstSequence: sequence, spans: [spanOf({ text, pool: poolOf(sequence) })], sync: false }
    if (writer.write(group) === 'no_spare') {
      const name = `spare-${100 + sequence}.log`
      const file = disk.open(join(FOLDER, name), 'w')
      disk.write(file, [new Uint8Array(SMALL_FILE)], 0)
      disk.fsync(file)
      disk.close(file)
      writer.addSpare(name)
      expect(writer.write(group)).not.toBe('no_spare')
    }
    texts.push(text)
  }
  return { disk: disk.killed(), texts }
}
