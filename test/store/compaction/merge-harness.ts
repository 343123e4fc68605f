/**
 * A pool of real segments and a model of it: the real writer flushes, the model sets deletion
 * vectors as the index would, the real merge thread merges, and after each merge everything is
 * compared with the model.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { parquetMetadata } from 'hyparquet'
import { expect } from 'vitest'
import { readDeleteFile } from '../../../src/format/delete-file.ts'
import { changedName, ROW_NUMBER } from '../../../src/format/row-changes.ts'
import { KEY_RECEIVED_AT, type PoolSchema } from '../../../src/format/schema.ts'
import type { SegmentMeta } from '../../../src/format/segment-meta.ts'
import type { MergeDone, MergeTask } from '../../../src/store/compaction/compaction-types.ts'
import { storedType } from '../../../src/store/compaction/merge-changes.ts'
import { MergerClient } from '../../../src/store/compaction/merge-client.ts'
import { tryAssemblerNative } from '../../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../../src/store/segment/parquet-encoder-js.ts'
import { FlushWriter } from '../../../src/store/segment/write-segment.ts'
import { disk } from '../../../src/util/disk.ts'
import { ROW_GROUP_ROWS } from '../../../src/util/limits.ts'
import { deleteFile, segmentFile } from '../../../src/util/paths.ts'
import { quoteText } from '../../../src/util/sql.ts'
import { encodeKeyParts, type KeyPart } from '../../util/key-parts.ts'
import { keysOf } from '../../util/key-runs.ts'
import type { Row, Value } from '../../util/make-batch.ts'
import { expectedRows, readByDuckDb, textsByHyparquet } from '../readers.ts'
import { post, remove } from '../rows.ts'

export const DAY_US = 86_400_000_000

/** A written row, or a delete. */
interface Written {
  readonly key: string
  readonly sequence: number
  /** Primary timestamp, µs. */
  readonly time: bigint
  /** The texts as readers give them; undefined for a delete. */
  text: readonly (string | null)[] | undefined
  segment: number
  row: number
}

interface Segment {
  readonly meta: SegmentMeta
  readonly deletionVectors: Set<number>
  readonly deletes: Written[]
  readonly rows: Written[]
}

/** A request's rows: values in the order of the schema's columns. */
export interface Post {
  readonly values: readonly (readonly Value[])[]
  readonly payloads?: readonly string[]
}

export class MergeHarness {
  readonly schema: PoolSchema
  readonly root = mkdtempSync(join(tmpdir(), 'weir-merge-'))
  readonly folder = join(this.root, 'pool')
  readonly client: MergerClient
  readonly threadFailures: Error[] = []
  readonly segments: Segment[] = []
  readonly live = new Map<string, Written>()
  readonly #writers: readonly FlushWriter[]
  duck!: DuckDBConnection
  #instance!: DuckDBInstance
  /** The latest cutoff of a merge. */
  #keptFromUs = BigInt(Number.MIN_SAFE_INTEGER)
  sequence = 1
  nextSegment = 1

  constructor(schema: PoolSchema) {
    this.schema = schema
    this.client = this.startClient()
    const native = new FlushWriter(tryAssemblerNative() ?? assemblerJs, tryEncoderNative() ?? encoderJs, disk)
    this.#writers = [native, new FlushWriter(assemblerJs, encoderJs, disk)]
  }

  /** Starts a client with a folder of its own. */
  startClient(folder = 'merge', idleMs?: number): MergerClient {
    const data = { crashAt: '', nice: 0, speed: 'full', temporary: join(this.root, 'tmp', folder) } as const
    return new MergerClient(data, error => this.threadFailures.push(error), idleMs)
  }

  async open(): Promise<this> {
    this.#instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    this.duck = await this.#instance.connect()
    await this.duck.run("SET TimeZone = 'UTC'")
    return this
  }

  async close(): Promise<void> {
    await this.client.stop()
    this.duck.closeSync()
    this.#instance.closeSync()
    rmSync(this.root, { recursive: true })
    expect(this.threadFailures).toEqual([])
  }

  file(segment: number): string {
    return join(this.folder, segmentFile(segment))
  }

  /** Received-at of the request with this sequence, µs. */
  #receivedUs(sequence: number): number {
    return 1_700_000_000_000_000 + sequence
  }

  #part(index: number, values: readonly Value[], sequence: number): KeyPart {
    if (index === KEY_RECEIVED_AT) return { type: 'TIMESTAMP', value: BigInt(this.#receivedUs(sequence)) }
    return { type: this.schema.columns[index]!.type, value: values[index] as bigint | string }
  }

  keyOf(values: readonly Value[], sequence: number): Uint8Array {
    const columns = this.schema.key?.columns ?? []
    return encodeKeyParts(columns.map(index => this.#part(index, values, sequence)))
  }

  #timeOf(values: readonly Value[], sequence: number): bigint {
    const { value, type } = this.#part(this.schema.timestamp, values, sequence)
    return type === 'DATE' ? BigInt(value as number) * BigInt(DAY_US) : BigInt(value as bigint)
  }

  /** Flushes posts and deletes (by their values), one request each, in this order. */
  flush(posts: readonly Post[], deletes: readonly (readonly Value[])[] = [], writer = 0): Segment {
    const { schema } = this
    const from = this.sequence
    const written: Written[] = []
    const entries = posts.map(({ values, payloads }) => {
      const sequence = this.sequence++
      const rows: Row[] = values.map((row, i) => ({
        values: row,
        payload: payloads?.[i] ?? `{"n":${i},"ä":"€"}`,
        ...(schema.key === null ? {} : { key: this.keyOf(row, sequence) }),
      }))
      const requests = [[sequence, this.#receivedUs(sequence), rows.length]]
      for (const [i, text] of expectedRows(schema, rows, requests).entries())
        written.push(this.#written(values[i]!, sequence, text))
      return post(schema, rows, requests)
    })
    if (deletes.length > 0) {
      const sequence = this.sequence++
      for (const values of deletes) written.push(this.#written(values, sequence, undefined))
      const keys = deletes.map(values => this.keyOf(values, sequence))
      entries.push(remove(keys as never, [[sequence, this.#receivedUs(sequence), keys.length]]))
    }
    const segment = this.nextSegment++
    const done = this.#writers[writer]!.write({
      poolId: 'POOL',
      schema,
      segment,
      folder: this.folder,
      entries,
      replaces: [],
      sequenceFrom: from,
      sequenceTo: this.sequence - 1,
    })
    return this.#flushed(segment, done.meta!, written)
  }

  #written(
    values: readonly Value[],
    sequence: number,
    text: readonly (string | null)[] | undefined,
  ): Written {
    const key =
      this.schema.key === null
        ? `${sequence} ${Math.random()}`
        : Buffer.from(this.keyOf(values, sequence)).toString('latin1')
    return { key, sequence, time: this.#timeOf(values, sequence), text, segment: 0, row: -1 }
  }

  /** The last of equal keys wins; the row that it replaces in an older segment is deleted. */
  #flushed(segment: number, meta: SegmentMeta, written: readonly Written[]): Segment {
    const winners = new Set(new Map(written.map(one => [one.key, one])).values())
    const rows = written.filter(one => winners.has(one) && one.text !== undefined)
    for (const [row, one] of rows.entries()) Object.assign(one, { segment, row })
    const made = {
      meta,
      deletionVectors: new Set<number>(),
      deletes: [...winners].filter(one => one.text === undefined),
      rows,
    }
    for (const one of winners) {
      const before = this.live.get(one.key)
      if (before !== undefined) this.#segment(before.segment).deletionVectors.add(before.row)
      if (one.text === undefined) this.live.delete(one.key)
      else this.live.set(one.key, one)
    }
    this.segments.push(made)
    return made
  }

  #segment(segment: number): Segment {
    return this.segments.find(one => one.meta.segment === segment)!
  }

  /** The task that merges `count` segments from place `from` on. */
  task(from: number, count: number, expireBeforeUs?: number): MergeTask {
    const inputs = this.segments.slice(from, from + count)
    return {
      poolId: 'POOL',
      schema: this.schema,
      folder: this.folder,
      segment: this.nextSegment++,
      inputs: inputs.map(({ meta, deletionVectors }) => {
        const rows = Uint32Array.from(deletionVectors).sort()
        const half = rows.length >> 1
        const parts = [rows.subarray(0, half), rows.subarray(half)]
        return { meta, deletionVectors: parts.map(part => ({ segment: meta.segment, rows: part })) }
      }),
      expireBeforeUs,
      older: this.segments
        .slice(0, from)
        .filter(({ meta }) => meta.rows > 0)
        .map(({ meta }) => ({ fromUs: meta.timestampFromUs, toUs: meta.timestampToUs })),
      leavesSegment: from + count === this.segments.length,
    }
  }

  /** Merges, compares everything with the model, and replaces the inputs by the new segment. */
  async merge(from: number, count: number, expireBeforeUs?: number): Promise<MergeDone> {
    const task = this.task(from, count, expireBeforeUs)
    const { expired, rows } = this.#split(this.segments.slice(from, from + count), expireBeforeUs)
    const cutoff = BigInt(expireBeforeUs ?? Number.MIN_SAFE_INTEGER)
    if (cutoff > this.#keptFromUs) this.#keptFromUs = cutoff
    return this.#run(task, from, { gone: expired, rows })
  }

  /**
   * Rewrites the segment at `at` as a job does, and compares as `merge` does: the rows that match
   * leave, or get these values in the columns by index.
   */
  async rewrite(
    at: number,
    matches: (row: number) => boolean,
    values?: ReadonlyMap<number, string | null>,
  ): Promise<MergeDone> {
    const { rows: all } = this.#split([this.segments[at]!], undefined)
    const matching = all.filter(({ row }) => matches(row))
    const changes = { file: await this.#changesOf(matching, values), set: [...(values?.keys() ?? [])] }
    const task = { ...this.task(at, 1), changes, leavesSegment: true }
    if (values === undefined) {
      const rows = all.filter(one => !matching.includes(one))
      return this.#run(task, at, { gone: matching, rows, left: this.schema.key === null ? [] : matching })
    }
    for (const one of matching)
      one.text = one.text!.map((text, i) => (values.has(i - 2) ? values.get(i - 2)! : text))
    return this.#run(task, at, { gone: [], rows: all })
  }

  /** The file that a job would write (format/row-changes.ts). */
  async #changesOf(rows: readonly Written[], values: ReadonlyMap<number, string | null> = new Map()) {
    const file = join(this.root, 'changes.parquet')
    const columns = [...values].map(([at, value], index) => {
      const { type } = this.schema.columns[at]!
      return `, ${value === null ? 'NULL' : quoteText(value)}::${storedType(type)} AS ${changedName(index)}`
    })
    const numbers = `SELECT unnest([${rows.map(({ row }) => row).join()}]::BIGINT[]) AS ${ROW_NUMBER}`
    await this.duck.run(
      `COPY (SELECT ${ROW_NUMBER}${columns.join('')} FROM (${numbers})) TO ${quoteText(file)} (FORMAT parquet)`,
    )
    return file
  }

  /**
   * Compares the live rows with those of a rebuild from the files of all segments (W-6). Rows that
   * retention may remove at any time are left out: a rebuild may bring them back until then.
   */
  checkRebuild(): void {
    const last = new Map<string, { readonly sequence: number; readonly row: Written | undefined }>()
    const take = (key: string, sequence: number, row: Written | undefined) => {
      const before = last.get(key)
      if (before === undefined || before.sequence < sequence) last.set(key, { sequence, row })
    }
    for (const { meta, rows } of this.segments) {
      for (const row of rows) take(row.key, row.sequence, row)
      if (meta.deletes === 0) continue
      const path = join(this.folder, deleteFile(meta.segment))
      const { keys, sequences } = readDeleteFile(readFileSync(path), path)
      for (const [i, key] of keys.entries())
        take(Buffer.from(key).toString('latin1'), sequences[i]!, undefined)
    }
    const found = [...last.values()].flatMap(({ row }) => (row === undefined ? [] : [row]))
    const namesOf = (rows: readonly Written[]) =>
      rows.filter(({ time }) => time >= this.#keptFromUs).map(({ key, sequence }) => `${key} ${sequence}`)
    expect(namesOf(found).sort()).toEqual(namesOf([...this.live.values()]).sort())
  }

  /** Runs a merge that is expected to keep `rows`, and deletes of the rows in `left`. */
  async #run(
    task: MergeTask,
    from: number,
    { gone, rows, left = [] }: { gone: readonly Written[]; rows: Written[]; left?: readonly Written[] },
  ): Promise<MergeDone> {
    const done = await this.client.merge(task)
    const count = task.inputs.length
    const inputs = this.segments.slice(from, from + count)
    const deletes = this.#remainingDeletes(inputs, rows, task, left)
    const order = rows.length === 0 ? [] : await this.#checkRows(task, rows)
    this.#checkKeys(done, order, gone)
    this.#checkMeta(done, task, rows, deletes)
    for (const one of gone) this.live.delete(one.key)
    for (const [row, one] of order.entries()) Object.assign(one, { segment: task.segment, row })
    const made = done.meta && { meta: done.meta, deletionVectors: new Set<number>(), deletes, rows: order }
    this.segments.splice(from, count, ...(made === undefined ? [] : [made]))
    // The index would leave the files to no rebuild.
    for (const { meta } of inputs)
      for (const name of [segmentFile(meta.segment), deleteFile(meta.segment)])
        rmSync(join(this.folder, name), { force: true })
    return done
  }

  #split(inputs: readonly Segment[], before: number | undefined) {
    const all = inputs.flatMap(({ rows, deletionVectors }) =>
      rows.filter(one => !deletionVectors.has(one.row)),
    )
    const isOld = (one: Written) => before !== undefined && one.time < BigInt(before)
    return { expired: all.filter(isOld), rows: all.filter(one => !isOld(one)) }
  }

  #remainingDeletes(
    inputs: readonly Segment[],
    rows: readonly Written[],
    task: MergeTask,
    left: readonly Written[],
  ): Written[] {
    const last = new Map<string, Written>()
    for (const one of [...inputs.flatMap(({ deletes }) => deletes), ...left])
      if ((last.get(one.key)?.sequence ?? 0) < one.sequence) last.set(one.key, one)
    const own =
      task.leavesSegment || rows.length > 0 || inputs.length === 1
        ? []
        : inputs.map(({ meta }) => meta).filter(one => one.rows > 0)
    const older = [
      ...task.older,
      ...own.map(({ timestampFromUs, timestampToUs }) => ({ fromUs: timestampFromUs, toUs: timestampToUs })),
    ]
    const canHold = (time: bigint) =>
      older.some(
        ({ fromUs, toUs }) =>
          fromUs === null || toUs === null || (BigInt(fromUs) <= time && time <= BigInt(toUs)),
      )
    return [...last.values()].filter(
      one => canHold(one.time) && !rows.some(row => row.key === one.key && row.sequence > one.sequence),
    )
  }

  /** Compares the rows of the new file; returns them in the order of the file. */
  async #checkRows(task: MergeTask, rows: readonly Written[]): Promise<Written[]> {
    const file = this.file(task.segment)
    const bytes = readFileSync(file)
    const found = await readByDuckDb(this.duck, this.schema, file)
    expect(await textsByHyparquet(this.schema, bytes)).toEqual(found)
    const texts = rows.map(one => JSON.stringify(one.text))
    expect(found.map(text => JSON.stringify(text)).sort()).toEqual([...texts].sort())
    const left = new Map<string, Written[]>()
    for (const one of rows)
      left.set(JSON.stringify(one.text), [...(left.get(JSON.stringify(one.text)) ?? []), one])
    const order = found.map(text => left.get(JSON.stringify(text))!.shift()!)
    this.#checkOrder(order)
    const { row_groups } = parquetMetadata(
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
    )
    for (const group of row_groups) {
      expect(Number(group.num_rows)).toBeLessThanOrEqual(ROW_GROUP_ROWS)
      for (const { meta_data } of group.columns)
        if (!/payload|json/.test(meta_data!.path_in_schema[0]!)) expect(meta_data!.statistics).toBeDefined()
    }
    return order
  }

  /** Rows are ordered by tenant and time; without a tenant by time and unique id. */
  #checkOrder(order: readonly Written[]): void {
    const { tenant, key } = this.schema
    for (const [i, next] of order.entries()) {
      const one = order[i - 1]
      if (one === undefined) continue
      if (tenant >= 0) {
        const [a, b] = [one, next].map(({ text }) => Buffer.from(text![2 + tenant] ?? '')) as [Buffer, Buffer]
        expect(Buffer.compare(a, b)).toBeLessThanOrEqual(0)
        if (Buffer.compare(a, b) === 0) expect(one.time <= next.time).toBe(true)
      } else if (key !== null) {
        const id = 2 + key.columns[1]!
        const isSooner = Buffer.compare(Buffer.from(one.text![id]!), Buffer.from(next.text![id]!)) < 0
        expect(one.time < next.time || (one.time === next.time && isSooner)).toBe(true)
      } else
        expect(one.time < next.time || (one.time === next.time && one.sequence <= next.sequence)).toBe(true)
    }
  }

  #checkKeys(done: MergeDone, order: readonly Written[], expired: readonly Written[]): void {
    if (this.schema.key === null) {
      expect(done.keys).toBeUndefined()
      return
    }
    const found = keysOf(done.keys!)
    const wanted = [
      ...order.map(({ key }, row) => ({ key, row })),
      ...expired.map(({ key }) => ({ key, row: -1 })),
    ]
    expect(found).toEqual(wanted.sort((a, b) => (a.key < b.key ? -1 : 1)))
  }

  #checkMeta(done: MergeDone, task: MergeTask, rows: readonly Written[], deletes: readonly Written[]): void {
    const { meta } = done
    const files = disk.readdir(this.folder)
    const [parquet, dropped] = [segmentFile(task.segment), deleteFile(task.segment)]
    // A segment without rows is a delete file, which may be empty.
    const hasDeleteFile = deletes.length > 0 || (rows.length === 0 && task.leavesSegment)
    expect([files.includes(parquet), files.includes(dropped)]).toEqual([rows.length > 0, hasDeleteFile])
    expect(disk.readdir(join(this.root, 'tmp', 'merge'))).toEqual(['spill'])
    if (rows.length === 0 && !hasDeleteFile) {
      expect(meta).toBeUndefined()
      return
    }
    const [first, last] = [task.inputs[0]!.meta, task.inputs.at(-1)!.meta]
    const span = { sequenceFrom: first.sequenceFrom, sequenceTo: last.sequenceTo }
    const bytes = [parquet, dropped].filter(name => files.includes(name))
    expect(meta).toMatchObject({
      segment: task.segment,
      rows: rows.length,
      deletes: deletes.length,
      bytes: bytes.reduce((sum, name) => sum + disk.size(join(this.folder, name)), 0),
      checksum: rows.length === 0 ? null : crc32(readFileSync(this.file(task.segment))),
      ...span,
    })
    const times = rows.map(one => one.time).sort((a, b) => (a < b ? -1 : 1))
    expect(meta!.timestampFromUs).toBe(rows.length === 0 ? null : Number(times[0]))
    expect(meta!.timestampToUs).toBe(rows.length === 0 ? null : Number(times.at(-1)))
    if (rows.length > 0) this.#checkFooter(task, meta!)
    if (hasDeleteFile) this.#checkDeletes(task, rows, deletes, span)
  }

  #checkFooter(task: MergeTask, meta: SegmentMeta): void {
    const bytes = readFileSync(this.file(task.segment))
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
    const pairs = parquetMetadata(buffer).key_value_metadata ?? []
    const found = Object.fromEntries(pairs.map(({ key, value }) => [key, value]))
    expect(found).toMatchObject({
      'weir.format': '1',
      'weir.pool': 'POOL',
      'weir.pool_number': String(this.schema.pool),
      'weir.schema_version': String(this.schema.version),
      'weir.segment': String(meta.segment),
      'weir.sequence_from': String(meta.sequenceFrom),
      'weir.sequence_to': String(meta.sequenceTo),
      'weir.rows': String(meta.rows),
      'weir.deletes': String(meta.deletes),
      'weir.replaces': task.inputs.map(input => input.meta.segment).join(','),
    })
  }

  #checkDeletes(task: MergeTask, rows: readonly Written[], deletes: readonly Written[], span: object): void {
    const path = join(this.folder, deleteFile(task.segment))
    const found = readDeleteFile(readFileSync(path), path)
    const sorted = [...deletes].sort((a, b) => (a.key < b.key ? -1 : 1))
    expect(found.keys.map(key => Buffer.from(key).toString('latin1'))).toEqual(sorted.map(one => one.key))
    expect([...found.sequences]).toEqual(sorted.map(one => one.sequence))
    expect(found).toMatchObject({
      ...span,
      segment: task.segment,
      rowsOfFlush: rows.length,
      pool: this.schema.pool,
    })
  }
}
