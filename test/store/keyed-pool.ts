/**
 * A pool of real segments with a real index, in this process, and a model of its records: the real
 * writers flush, the real merge thread merges, the real index commits and is built again from the
 * files. Nothing of the network, the log or the catalog.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { keyHasTimestamp } from '../../src/format/key.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import { readColumns } from '../../src/format/segment-file.ts'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import { valueReader } from '../../src/format/zone-map.ts'
import type { DeletionVector, FlushCommitted } from '../../src/index/index-types.ts'
import { type Opened, openIndexFolder } from '../../src/index/open-index.ts'
import { MergerClient } from '../../src/store/compaction/merge-client.ts'
import { olderThan } from '../../src/store/compaction/pick-compaction.ts'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import { tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { FlushWriter } from '../../src/store/segment/write-segment.ts'
import { disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import type { KernelChoice } from '../../src/util/native.ts'
import { deleteFile, pathsOf, segmentFile } from '../../src/util/paths.ts'
import { encodeKeyParts } from '../util/key-parts.ts'
import type { Row, Value } from '../util/make-batch.ts'
import { temporaryFolder } from '../util/server.ts'
import { post, remove } from './rows.ts'

const DAY_US = 86_400_000_000
const BASE_DAY = 19_000

/** Four values of each type of a version column, rising. */
export const VERSIONS: Readonly<Partial<Record<ColumnType, readonly Value[]>>> = {
  INT8: [-128, -1, 0, 127],
  INT16: [-32_768, -1, 0, 32_767],
  INT32: [-2_147_483_648, -1, 0, 2_147_483_647],
  INT64: [-(2n ** 63n), -1n, 0n, 2n ** 63n - 1n],
  FLOAT: [-3.5, Math.fround(-1e-45), 0, Math.fround(3e38)],
  DOUBLE: [-1e300, -5e-324, 0, 1.5],
  DATE: [-719_162, -1, 0, 20_000],
  TIMESTAMP: [-62_135_596_800_000_000n, -1n, 0n, 1_700_000_000_123_456n],
}

/** Places of the columns of `schemaWith`. */
export const COLUMN = { id: 0, at: 1, region: 2, ver: 3, stamp: 4 } as const

/** A pool with the key of these columns, and the version column of this type. */
export function schemaWith(key: readonly number[], version = -1, type: ColumnType = 'INT64'): PoolSchema {
  const column = (name: string, of: ColumnType) => ({ name, type: of, jsonProperty: name, required: true })
  return {
    pool: 1,
    version: 1,
    columns: [
      column('id', 'STRING'),
      column('at', 'TIMESTAMP'),
      column('region', 'STRING'),
      column('ver', type),
      column('stamp', 'INT64'),
    ],
    timestamp: COLUMN.at,
    tenant: -1,
    key: { columns: key, version },
  }
}

/** One event. `rank` is the place of its version in VERSIONS. */
export interface Event {
  readonly id: string
  readonly region: string
  readonly day: number
  readonly rank: number
}

/** The event that is a record of the model. */
interface Winner {
  readonly event: Event
  readonly stamp: number
}

interface Segment {
  meta: SegmentMeta
  readonly deletedRows: Set<number>
}

/** A flush whose entries a later one may write again. */
interface Recent {
  readonly segment: number
  readonly from: number
  readonly entries: readonly MemtableEntry[]
}

export class KeyedPool {
  readonly schema: PoolSchema
  readonly #paths = pathsOf(temporaryFolder())
  readonly folder = join(this.#paths.segment, 'POOL1')
  readonly #merger: MergerClient
  readonly #failures: Error[] = []
  readonly #writers: readonly FlushWriter[]
  #opened!: Opened
  #entries: MemtableEntry[] = []
  #from = 1
  #sequence = 1
  #stamp = 0
  #nextSegment = 1
  #recent: Recent | undefined
  readonly #segments = new Map<number, Segment>()
  readonly records = new Map<string, Winner>()
  /** Rows before it may be gone, or be back after a rebuild until retention reaches them again. */
  #cutoffUs = 0

  constructor(schema: PoolSchema) {
    this.schema = schema
    const data = { crashAt: '', nice: 0, speed: 'full', temporary: this.#paths.merge } as const
    this.#merger = new MergerClient(data, error => this.#failures.push(error))
    const native = new FlushWriter(tryAssemblerNative() ?? assemblerJs, tryEncoderNative() ?? encoderJs, disk)
    this.#writers = [native, new FlushWriter(assemblerJs, encoderJs, disk)]
  }

  async open(kernel: KernelChoice): Promise<void> {
    this.#opened = await openIndexFolder({
      disk,
      folder: this.#paths.index,
      segmentFolder: this.#paths.segment,
      identity: 'here',
      pools: [{ pool: 1, poolId: 'POOL1', schemas: [this.schema] }],
      kernel,
      loggedSequences: () => undefined,
      onProgress: () => undefined,
    })
  }

  async close(): Promise<void> {
    this.#opened.index.close()
    await this.#merger.stop()
    expect(this.#failures).toEqual([])
  }

  get segments(): number {
    return this.#segments.size
  }

  /** Rows that lost to a row of an older segment, or were superseded since. */
  get deletedRows(): number {
    return [...this.#segments.values()].reduce((sum, { deletedRows }) => sum + deletedRows.size, 0)
  }

  #valuesOf({ id, region, day, rank }: Event, stamp: number): Value[] {
    const type = this.schema.columns[COLUMN.ver]!.type
    const at = BigInt(BASE_DAY + day) * BigInt(DAY_US)
    return [id, at, region, VERSIONS[type]![rank]!, BigInt(stamp)]
  }

  #keyOf(event: Event): Uint8Array {
    const values = this.#valuesOf(event, 0)
    return encodeKeyParts(
      this.schema.key!.columns.map(index => ({
        type: this.schema.columns[index]!.type,
        value: values[index] as bigint | string,
      })),
    )
  }

  /** What the key means, without its encoding. */
  #nameOf(event: Event): string {
    const values = this.#valuesOf(event, 0)
    return this.schema.key!.columns.map(index => String(values[index])).join(' · ')
  }

  /** The rank that decides; 0 for all without a version column. */
  #rankOf(event: Event): number {
    const { version } = this.schema.key!
    return version < 0 ? 0 : version === COLUMN.at ? event.day : event.rank
  }

  /** One request of posts. */
  post(events: readonly Event[]): void {
    const rows: Row[] = events.map(event => {
      const stamp = ++this.#stamp
      const name = this.#nameOf(event)
      const before = this.records.get(name)
      if (before === undefined || this.#rankOf(event) >= this.#rankOf(before.event))
        this.records.set(name, { event, stamp })
      return { key: this.#keyOf(event), payload: '{}', values: this.#valuesOf(event, stamp) }
    })
    const sequence = this.#sequence++
    this.#entries.push(post(this.schema, rows, [[sequence, 1_700_000_000_000_000 + sequence, rows.length]]))
  }

  /** One request of deletes. */
  delete(events: readonly Event[]): void {
    for (const event of events) this.records.delete(this.#nameOf(event))
    const sequence = this.#sequence++
    const keys = events.map(event => this.#keyOf(event))
    this.#entries.push(remove(keys, [[sequence, 1_700_000_000_000_000 + sequence, keys.length]]))
  }

  /** Flushes what came since the last flush; `again`: with the rows of that flush. */
  flush(writer: number, again: boolean): void {
    if (this.#entries.length === 0) return
    const rewritten = again ? this.#recent : undefined
    const segment = this.#nextSegment++
    const from = rewritten?.from ?? this.#from
    const entries = [...(rewritten?.entries ?? []), ...this.#entries]
    const replaces = rewritten === undefined ? [] : [rewritten.segment]
    const { meta, keys } = this.#writers[writer]!.write({
      poolId: 'POOL1',
      schema: this.schema,
      segment,
      folder: this.folder,
      entries,
      replaces,
      sequenceFrom: from,
      sequenceTo: this.#sequence - 1,
    })
    const commit = { pool: 1, add: meta, remove: replaces, keys, flushedSequence: this.#sequence - 1 }
    const [committed] = this.#opened.index.commit([commit])
    this.#apply(meta, replaces, must(committed, 'an answer'))
    this.#recent = meta === undefined ? undefined : { segment, from, entries }
    this.#entries = []
    this.#from = this.#sequence
  }

  #apply(add: SegmentMeta | undefined, removed: readonly number[], committed: FlushCommitted): void {
    if (add !== undefined) this.#segments.set(add.segment, { meta: add, deletedRows: new Set() })
    for (const { segment, rows } of committed.deletionVectors)
      for (const row of rows) must(this.#segments.get(segment), 'a segment').deletedRows.add(row)
    for (const segment of removed) this.#removeFiles(segment)
  }

  #removeFiles(segment: number): void {
    this.#segments.delete(segment)
    for (const name of [segmentFile(segment), deleteFile(segment)])
      rmSync(join(this.folder, name), { force: true })
  }

  #inOrder(): Segment[] {
    return [...this.#segments.values()].sort((a, b) => a.meta.sequenceFrom - b.meta.sequenceFrom)
  }

  /** True where retention is allowed: see table-settings.ts. */
  get canExpire(): boolean {
    const { key, timestamp } = this.schema
    return key!.version < 0 || key!.version === timestamp || keyHasTimestamp(this.schema)
  }

  /** Merges `count` segments from place `from` on; rows of days before `keepFrom` expire. */
  async merge(from: number, count: number, keepFrom?: number): Promise<void> {
    const all = this.#inOrder()
    const inputs = all.slice(from, from + count)
    const first = must(inputs[0], 'an input').meta
    const expireBeforeUs = keepFrom === undefined ? undefined : (BASE_DAY + keepFrom) * DAY_US
    const segments = all.map(({ meta, deletedRows }) => ({ ...meta, deletedRows: deletedRows.size }))
    const segment = this.#nextSegment++
    const expired = expireBeforeUs === undefined ? [] : await this.#expired(inputs, expireBeforeUs)
    const done = await this.#merger.merge({
      poolId: 'POOL1',
      schema: this.schema,
      folder: this.folder,
      segment,
      inputs: inputs.map(({ meta, deletedRows }) => ({
        meta,
        deletionVectors: vectorsOf(meta.segment, deletedRows),
      })),
      expireBeforeUs,
      older: olderThan(first.sequenceFrom, segments, []),
      leavesSegment: from + count >= all.length,
    })
    // A flush commits while the merge runs.
    this.#recent = undefined
    this.flush(0, false)
    const removed = inputs.map(({ meta }) => meta.segment)
    const commit = { pool: 1, add: done.meta, remove: removed, keys: done.keys }
    this.#apply(done.meta, removed, this.#opened.index.commitCompaction(commit))
    for (const [name, { stamp }] of this.records) if (expired.includes(stamp)) this.records.delete(name)
    this.#cutoffUs = Math.max(this.#cutoffUs, expireBeforeUs ?? 0)
  }

  async #expired(inputs: readonly Segment[], beforeUs: number): Promise<number[]> {
    const rows = (await Promise.all(inputs.map(segment => this.#visible(segment)))).flat()
    return rows.filter(({ atUs }) => atUs < beforeUs).map(({ stamp }) => stamp)
  }

  async #visible({ meta, deletedRows }: Segment): Promise<{ stamp: number; atUs: number }[]> {
    if (meta.rows === 0) return []
    const columns = await readColumns(join(this.folder, segmentFile(meta.segment)), ['stamp', 'at'])
    const ats = columns.column('at', 'TIMESTAMP')
    const rows = columns.column('stamp', 'INT64').flatMap((piece, i) => {
      const [stampAt, atAt] = [valueReader(piece, 'INT64'), valueReader(ats[i]!, 'TIMESTAMP')]
      return Array.from({ length: piece.length }, (_, row) => ({
        stamp: Number(stampAt(row)),
        atUs: Number(atAt(row)),
      }))
    })
    return rows.filter((_, row) => !deletedRows.has(row))
  }

  /** The visible rows are the records of the model, and the index has a key for each. */
  async check(): Promise<void> {
    const rows = (await Promise.all(this.#inOrder().map(segment => this.#visible(segment)))).flat()
    expect(this.#opened.index.countKeys(1)).toBe(rows.length)
    const isNew = (day: number) => (BASE_DAY + day) * DAY_US >= this.#cutoffUs
    const wanted = [...this.records.values()].filter(({ event }) => isNew(event.day))
    const found = rows.filter(({ atUs }) => atUs >= this.#cutoffUs)
    const order = (a: number, b: number) => a - b
    expect(found.map(({ stamp }) => stamp).sort(order)).toEqual(wanted.map(({ stamp }) => stamp).sort(order))
    const marks = this.#opened.index.readDeletionVectors(1).deletionVectors
    const known = this.#inOrder().filter(({ deletedRows }) => deletedRows.size > 0)
    expect(marks.map(({ segment, rows: deleted }) => [segment, [...deleted]])).toEqual(
      known
        .map(({ meta, deletedRows }) => [meta.segment, [...deletedRows].sort(order)] as const)
        .sort(([a], [b]) => a - b),
    )
  }

  /**
   * Removes the index and builds it from the files. What expired may be back; all else is equal.
   */
  async rebuild(kernel: KernelChoice): Promise<void> {
    this.#opened.index.close()
    rmSync(this.#paths.index, { recursive: true })
    await this.open(kernel)
    expect(this.#opened.rebuiltBecause).toBeDefined()
    const { segments } = this.#opened.pools[0] ?? { segments: [] }
    const before = this.#inOrder().map(({ meta }) => meta)
    const metas = segments.map(({ deletedRows: _, ...meta }) => meta)
    metas.sort((a, b) => a.sequenceFrom - b.sequenceFrom)
    expect(metas.map(comparable)).toEqual(before.map(comparable))
    for (const meta of metas) must(this.#segments.get(meta.segment), 'a segment').meta = meta
    const vectors = this.#opened.index.readDeletionVectors(1).deletionVectors
    if (this.#cutoffUs === 0)
      expect(vectors.map(({ segment, rows }) => [segment, [...rows]])).toEqual(
        before
          .map(({ segment }) => [
            segment,
            [...this.#segments.get(segment)!.deletedRows].sort((a, b) => a - b),
          ])
          .filter(([, rows]) => (rows as number[]).length > 0)
          .sort(([a], [b]) => (a as number) - (b as number)),
      )
    for (const { deletedRows } of this.#segments.values()) deletedRows.clear()
    for (const { segment, rows } of vectors)
      for (const row of rows) this.#segments.get(segment)!.deletedRows.add(row)
    this.#recent = undefined
  }

  /** Closes the index and opens it with the other store. */
  async reopen(kernel: KernelChoice): Promise<void> {
    this.#opened.index.close()
    await this.open(kernel)
    expect(this.#opened.rebuiltBecause).toBeUndefined()
  }
}

/** Received-at of a segment of deletes alone is not in its file. */
function comparable(meta: SegmentMeta): SegmentMeta {
  return meta.rows > 0 ? meta : { ...meta, receivedFromUs: 0, receivedToUs: 0 }
}

function vectorsOf(segment: number, rows: ReadonlySet<number>): DeletionVector[] {
  return rows.size === 0 ? [] : [{ segment, rows: Uint32Array.from(rows).sort() }]
}
