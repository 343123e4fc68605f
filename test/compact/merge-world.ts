/**
 * A pool of real segments and a model of it: seals through the segment stage's own writer, marks as the index would
 * set them, merges through the real merge thread, and after each merge everything compared.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { parquetMetadata } from 'hyparquet'
import { expect } from 'vitest'
import { encodeKeyParts, type KeyPart } from '../../src/batch/key.ts'
import { KEY_RECEIVED_AT, type Plan } from '../../src/batch/plan.ts'
import { MergerClient } from '../../src/compact/merger-client.ts'
import type { MergeDone, MergeJob } from '../../src/compact/protocol.ts'
import { viewRun } from '../../src/keys/key-run.ts'
import type { SegmentMeta } from '../../src/keys/protocol.ts'
import { ROW_GROUP_ROWS } from '../../src/limits.ts'
import { deleteFile, segmentFile } from '../../src/paths.ts'
import { assemblerJs, tryAssemblerNative } from '../../src/segment/assembler.ts'
import { readDeleteFile } from '../../src/segment/deletes.ts'
import { tryEncoderNative } from '../../src/segment/encoder.ts'
import { encoderJs } from '../../src/segment/encoder-js.ts'
import { Writer } from '../../src/segment/write.ts'
import { disk } from '../../src/util/disk.ts'
import { expectedRows, readByDuckDb, readByHyparquet } from '../segment/readers.ts'
import { post, remove } from '../segment/rows.ts'
import type { Row, Value } from '../util/make-batch.ts'

export const DAY_US = 86_400_000_000

/** A row that was written, or a delete, by its key. */
interface Written {
  readonly key: string
  readonly sequence: number
  /** Primary timestamp, µs. */
  readonly time: bigint
  /** As readers give it; undefined: a delete. */
  readonly text: readonly (string | null)[] | undefined
  segment: number
  row: number
}

interface Segment {
  readonly meta: SegmentMeta
  readonly marks: Set<number>
  readonly deletes: Written[]
  readonly rows: Written[]
}

/** A request's rows: values in the plan's order. */
export interface Post {
  readonly values: readonly (readonly Value[])[]
  readonly payloads?: readonly string[]
}

export class World {
  readonly plan: Plan
  readonly root = mkdtempSync(join(tmpdir(), 'weir-merge-'))
  readonly folder = join(this.root, 'pool')
  readonly client: MergerClient
  readonly faults: Error[] = []
  readonly segments: Segment[] = []
  readonly live = new Map<string, Written>()
  readonly #writers: readonly Writer[]
  duck!: DuckDBConnection
  #instance!: DuckDBInstance
  sequence = 1
  nextSegment = 1

  constructor(plan: Plan) {
    this.plan = plan
    this.client = this.startClient()
    const native = new Writer(tryAssemblerNative() ?? assemblerJs, tryEncoderNative() ?? encoderJs, disk)
    this.#writers = [native, new Writer(assemblerJs, encoderJs, disk)]
  }

  /** A thread with a folder of its own. */
  startClient(folder = 'merge', idleMs?: number): MergerClient {
    const data = { crashAt: '', nice: 0, pace: 'alone', temporary: join(this.root, 'tmp', folder) } as const
    return new MergerClient(data, error => this.faults.push(error), idleMs)
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
    expect(this.faults).toEqual([])
  }

  file(segment: number): string {
    return join(this.folder, segmentFile(segment))
  }

  /** Received-at of the request with this sequence. */
  #receivedMs(sequence: number): number {
    return 1_700_000_000_000 + sequence
  }

  #part(index: number, values: readonly Value[], sequence: number): KeyPart {
    if (index === KEY_RECEIVED_AT)
      return { type: 'TIMESTAMP', value: BigInt(this.#receivedMs(sequence)) * 1000n }
    return { type: this.plan.columns[index]!.type, value: values[index] as bigint | string }
  }

  keyOf(values: readonly Value[], sequence: number): Uint8Array {
    const columns = this.plan.key?.columns ?? []
    return encodeKeyParts(columns.map(index => this.#part(index, values, sequence)))
  }

  #timeOf(values: readonly Value[], sequence: number): bigint {
    const { value, type } = this.#part(this.plan.timestamp, values, sequence)
    return type === 'DATE' ? BigInt(value as number) * BigInt(DAY_US) : BigInt(value as bigint)
  }

  /** Seals posts and deletes (by their values), one request each, in this order. */
  seal(posts: readonly Post[], deletes: readonly (readonly Value[])[] = [], writer = 0): Segment {
    const { plan } = this
    const from = this.sequence
    const written: Written[] = []
    const entries = posts.map(({ values, payloads }) => {
      const sequence = this.sequence++
      const rows: Row[] = values.map((row, i) => ({
        values: row,
        payload: payloads?.[i] ?? `{"n":${i},"ä":"€"}`,
        ...(plan.key === null ? {} : { key: this.keyOf(row, sequence) }),
      }))
      const requests = [[sequence, this.#receivedMs(sequence), rows.length]]
      for (const [i, text] of expectedRows(plan, rows, requests).entries())
        written.push(this.#written(values[i]!, sequence, text))
      return post(plan, rows, requests)
    })
    if (deletes.length > 0) {
      const sequence = this.sequence++
      for (const values of deletes) written.push(this.#written(values, sequence, undefined))
      const keys = deletes.map(values => this.keyOf(values, sequence))
      entries.push(remove(keys as never, [[sequence, this.#receivedMs(sequence), keys.length]]))
    }
    const segment = this.nextSegment++
    const done = this.#writers[writer]!.write({
      poolId: 'POOL',
      plan,
      segment,
      folder: this.folder,
      entries,
      replaces: [],
      sequenceFrom: from,
      sequenceTo: this.sequence - 1,
      giveBack: false,
    })
    return this.#sealed(segment, done.meta!, written)
  }

  #written(
    values: readonly Value[],
    sequence: number,
    text: readonly (string | null)[] | undefined,
  ): Written {
    const key =
      this.plan.key === null
        ? `${sequence} ${Math.random()}`
        : Buffer.from(this.keyOf(values, sequence)).toString('latin1')
    return { key, sequence, time: this.#timeOf(values, sequence), text, segment: 0, row: -1 }
  }

  /** The later of equal keys wins; what it replaces elsewhere is marked. */
  #sealed(segment: number, meta: SegmentMeta, written: readonly Written[]): Segment {
    const winners = new Set(new Map(written.map(one => [one.key, one])).values())
    const rows = written.filter(one => winners.has(one) && one.text !== undefined)
    for (const [row, one] of rows.entries()) Object.assign(one, { segment, row })
    const made = {
      meta,
      marks: new Set<number>(),
      deletes: [...winners].filter(one => one.text === undefined),
      rows,
    }
    for (const one of winners) {
      const before = this.live.get(one.key)
      if (before !== undefined) this.#segment(before.segment).marks.add(before.row)
      if (one.text === undefined) this.live.delete(one.key)
      else this.live.set(one.key, one)
    }
    this.segments.push(made)
    return made
  }

  #segment(segment: number): Segment {
    return this.segments.find(one => one.meta.segment === segment)!
  }

  /** The job that merges `count` segments from the `from`th on. */
  job(from: number, count: number, expireBeforeUs?: number): MergeJob {
    const inputs = this.segments.slice(from, from + count)
    return {
      poolId: 'POOL',
      plan: this.plan,
      folder: this.folder,
      segment: this.nextSegment++,
      inputs: inputs.map(({ meta, marks }) => {
        const rows = Uint32Array.from(marks).sort()
        const half = rows.length >> 1
        const parts = [rows.subarray(0, half), rows.subarray(half)]
        return { meta, marks: parts.map(part => ({ segment: meta.segment, rows: part })) }
      }),
      expireBeforeUs,
      older: this.segments
        .slice(0, from)
        .filter(({ meta }) => meta.rows > 0)
        .map(({ meta }) => ({ fromUs: meta.timestampFromUs, toUs: meta.timestampToUs })),
    }
  }

  /** Merges, compares everything with the model, and takes the new segment for the inputs. */
  async merge(from: number, count: number, expireBeforeUs?: number): Promise<MergeDone> {
    const job = this.job(from, count, expireBeforeUs)
    const done = await this.client.merge(job)
    const inputs = this.segments.slice(from, from + count)
    const { expired, rows } = this.#split(inputs, expireBeforeUs)
    const deletes = this.#keptDeletes(inputs, rows, job)
    expect(done.rowsRead).toBe(inputs.reduce((sum, { meta }) => sum + meta.rows, 0))
    const order = rows.length === 0 ? [] : await this.#checkRows(job, rows)
    this.#checkKeys(done, order, expired)
    this.#checkMeta(done, job, rows, deletes)
    for (const one of expired) this.live.delete(one.key)
    for (const [row, one] of order.entries()) Object.assign(one, { segment: job.segment, row })
    const made = done.meta && { meta: done.meta, marks: new Set<number>(), deletes, rows: order }
    this.segments.splice(from, count, ...(made === undefined ? [] : [made]))
    return done
  }

  #split(inputs: readonly Segment[], before: number | undefined) {
    const all = inputs.flatMap(({ rows, marks }) => rows.filter(one => !marks.has(one.row)))
    const isOld = (one: Written) => before !== undefined && one.time < BigInt(before)
    return { expired: all.filter(isOld), rows: all.filter(one => !isOld(one)) }
  }

  #keptDeletes(inputs: readonly Segment[], rows: readonly Written[], job: MergeJob): Written[] {
    const last = new Map<string, Written>()
    for (const one of inputs.flatMap(({ deletes }) => deletes)) last.set(one.key, one)
    const own =
      rows.length > 0 || inputs.length === 1 ? [] : inputs.map(({ meta }) => meta).filter(one => one.rows > 0)
    const older = [
      ...job.older,
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

  /** The rows of the new file in its order. */
  async #checkRows(job: MergeJob, rows: readonly Written[]): Promise<Written[]> {
    const file = this.file(job.segment)
    const bytes = readFileSync(file)
    const found = await readByDuckDb(this.duck, this.plan, file)
    expect(await readByHyparquet(this.plan, bytes)).toEqual(found)
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

  /** Tenant, then time; where there is no tenant, time and unique id. */
  #checkOrder(order: readonly Written[]): void {
    const { tenant, key } = this.plan
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
    if (this.plan.key === null) {
      expect(done.keys).toBeUndefined()
      return
    }
    const { count, rows, offsets, bytes } = viewRun(done.keys!)
    const found = Array.from({ length: count }, (_, i) => ({
      key: Buffer.from(bytes.slice(offsets[i], offsets[i + 1])).toString('latin1'),
      row: rows[i]!,
    }))
    const wanted = [
      ...order.map(({ key }, row) => ({ key, row })),
      ...expired.map(({ key }) => ({ key, row: -1 })),
    ]
    expect(found).toEqual(wanted.sort((a, b) => (a.key < b.key ? -1 : 1)))
  }

  #checkMeta(done: MergeDone, job: MergeJob, rows: readonly Written[], deletes: readonly Written[]): void {
    const { meta } = done
    const files = disk.readdir(this.folder)
    const [parquet, dropped] = [segmentFile(job.segment), deleteFile(job.segment)]
    expect([files.includes(parquet), files.includes(dropped)]).toEqual([rows.length > 0, deletes.length > 0])
    expect(disk.readdir(join(this.root, 'tmp', 'merge'))).toEqual(['spill'])
    if (rows.length === 0 && deletes.length === 0) {
      expect(meta).toBeUndefined()
      return
    }
    const [first, last] = [job.inputs[0]!.meta, job.inputs.at(-1)!.meta]
    const span = { sequenceFrom: first.sequenceFrom, sequenceTo: last.sequenceTo }
    const bytes = [parquet, dropped].filter(name => files.includes(name))
    expect(meta).toMatchObject({
      segment: job.segment,
      rows: rows.length,
      deletes: deletes.length,
      bytes: bytes.reduce((sum, name) => sum + disk.size(join(this.folder, name)), 0),
      checksum: rows.length === 0 ? null : crc32(readFileSync(this.file(job.segment))),
      ...span,
    })
    const times = rows.map(one => one.time).sort((a, b) => (a < b ? -1 : 1))
    expect(meta!.timestampFromUs).toBe(rows.length === 0 ? null : Number(times[0]))
    expect(meta!.timestampToUs).toBe(rows.length === 0 ? null : Number(times.at(-1)))
    if (rows.length > 0) this.#checkFooter(job, meta!)
    if (deletes.length > 0) this.#checkDeletes(job, rows, deletes, span)
  }

  #checkFooter(job: MergeJob, meta: SegmentMeta): void {
    const bytes = readFileSync(this.file(job.segment))
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
    const pairs = parquetMetadata(buffer).key_value_metadata ?? []
    const found = Object.fromEntries(pairs.map(({ key, value }) => [key, value]))
    expect(found).toMatchObject({
      'weir.format': '1',
      'weir.pool': 'POOL',
      'weir.pool_number': String(this.plan.pool),
      'weir.plan_version': String(this.plan.version),
      'weir.segment': String(meta.segment),
      'weir.sequence_from': String(meta.sequenceFrom),
      'weir.sequence_to': String(meta.sequenceTo),
      'weir.rows': String(meta.rows),
      'weir.deletes': String(meta.deletes),
      'weir.replaces': job.inputs.map(input => input.meta.segment).join(','),
    })
  }

  #checkDeletes(job: MergeJob, rows: readonly Written[], deletes: readonly Written[], span: object): void {
    const path = join(this.folder, deleteFile(job.segment))
    const found = readDeleteFile(readFileSync(path), path)
    const sorted = [...deletes].sort((a, b) => (a.key < b.key ? -1 : 1))
    expect(found.keys.map(key => Buffer.from(key).toString('latin1'))).toEqual(sorted.map(one => one.key))
    expect([...found.sequences]).toEqual(sorted.map(one => one.sequence))
    expect(found).toMatchObject({
      ...span,
      segment: job.segment,
      rowsOfSeal: rows.length,
      pool: this.plan.pool,
    })
  }
}
