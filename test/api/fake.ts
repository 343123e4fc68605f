/**
 * The functions of other layers that the front end calls, in one process: parse() uses JSON.parse,
 * and commit() checks the spans byte by byte. A valid event is an object with a string `id`.
 */
import { strict as assert } from 'node:assert'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { crc32, gunzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import type { Api, ApiDeps, ApiOptions, CommitBatch, IngestTarget } from '../../src/api/api-types.ts'
import { createApi } from '../../src/api/create-api.ts'
import { chooseTransport } from '../../src/api/http/choose-transport.ts'
import type { Transport } from '../../src/api/http/transport.ts'
import { IngestPool, type IngestSchema } from '../../src/api/ingest/ingest-pool.ts'
import { committedTogether } from '../../src/app/commit-to-log.ts'
import type { Identity } from '../../src/catalog/access/token.ts'
import { shareSchema } from '../../src/catalog/documents/model.ts'
import { type BatchCost, batchCostOf } from '../../src/format/batch-layout.ts'
import {
  RECORD_HEADER_BYTES,
  RECORD_MAGIC,
  recordBytes,
  writeRecordHeader,
} from '../../src/format/log-record.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { Jobs } from '../../src/jobs/run-jobs.ts'
import type { Span } from '../../src/log/log-types.ts'
import { DOCUMENT, EVENT_ERROR, errorWord, FOUND } from '../../src/parse/event-error.ts'
import { FLAG, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParsedBatch, ParseResult, ParseTask, ParseTaskGroup } from '../../src/parse/parse-task.ts'
import type { RejectedRows } from '../../src/parse/rejected-rows.ts'
import type { EarlyAnswer } from '../../src/parse/sender/received.ts'
import { ENTRY_WORDS } from '../../src/store/flush/memtable.ts'
import { RisingClock } from '../../src/util/clock.ts'
import { BODY_BYTES_MAX, EVENTS_MAX } from '../../src/util/limits.ts'

import { MemoryCatalog } from './memory-catalog.ts'

const SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [{ name: 'id', type: 'STRING', jsonProperty: 'id', required: true }],
  timestamp: -1,
  tenant: -1,
  key: { columns: [-1, 0], version: -1 },
}

/** A pool with a required STRING column `id`. */
export function targetOf(
  pool: number,
  { cost, ...more }: Partial<IngestTarget> & { readonly cost?: BatchCost } = {},
): IngestTarget {
  return {
    poolNumber: pool,
    poolId: `DPO${pool}`,
    pool: new IngestPool(pool, ingestSchemaOf(pool, 1, cost)),
    basicAuth: null,
    hasKey: true,
    received: new RisingClock(),
    eventClock: undefined,
    sender: undefined,
    rejects: undefined,
    ...more,
  }
}

/** A version of the schema of such a pool. `cost`: of a batch; by default that of its columns. */
export function ingestSchemaOf(pool: number, version: number, cost?: BatchCost): IngestSchema {
  const schema: PoolSchema = { ...SCHEMA, pool, version }
  return { version, bytes: shareSchema(schema), cost: cost ?? batchCostOf(schema) }
}

/** A record as the log would get it. */
export interface Logged {
  readonly pool: number
  readonly kind: number
  readonly events: number
  readonly accepted: number
  readonly body: string
  readonly bits: boolean
}

export class Fake {
  readonly targets = new Map<string, IngestTarget>([
    ['open', targetOf(1)],
    ['second', targetOf(2)],
    ['closed', targetOf(3, { basicAuth: { username: 'user', password: 'pässword' } })],
    ['nameless', targetOf(4, { basicAuth: { username: '', password: 'p' } })],
    ['keyless', targetOf(5, { hasKey: false })],
    ['a b/c', targetOf(6)],
  ])
  readonly logged: Logged[] = []
  readonly batches: CommitBatch[] = []
  readonly tasks: ParseTask[] = []
  readonly dead = new Set<number>()
  readonly statuses: number[] = []
  readonly codes: string[] = []
  health: ReturnType<ApiDeps['health']> = { ready: true }
  hasRoom = true
  hasParseRoom = true
  /** Awaited in front of each parse and commit. */
  parseGate: Promise<unknown> | undefined
  commitGate: Promise<unknown> | undefined
  readonly catalog = new MemoryCatalog(...this.targets.keys())
  readonly jobs = new Jobs({
    memory: this.catalog.read,
    runners: {} as never, // no job is there at the start
    onFatal: error => {
      throw error
    },
    retryMs: 50,
  })
  /** The caller of each import. */
  importer: Pick<Identity, 'applicationId' | 'scopes'> = {
    applicationId: 'APP1',
    scopes: new Set(['admin']),
  }
  /** Asked before each batch of an import. */
  verifyAgain = (): void => {}
  #roomListener = () => {}
  #parseListener = () => {}
  #releaseListener = () => {}

  /** Ends the pause of a pool. */
  resume(pool: IngestPool, schema: IngestSchema): void {
    pool.resume(schema)
    this.#releaseListener()
  }

  openRoom(): void {
    this.hasRoom = true
    this.#roomListener()
  }

  openParse(): void {
    this.hasParseRoom = true
    this.#parseListener()
  }

  deps(more: Partial<ApiDeps> = {}): ApiDeps {
    return {
      target: id => this.targets.get(id),
      rejectedTarget: () => undefined,
      isLive: pool => !this.dead.has(pool),
      health: () => this.health,
      room: () => this.hasRoom,
      onRoom: listener => {
        this.#roomListener = listener
      },
      parse: async task => {
        this.tasks.push(task)
        await this.parseGate
        return parse(task)
      },
      parseRoom: () => this.hasParseRoom,
      onParseRoom: listener => {
        this.#parseListener = listener
      },
      onReleased: listener => {
        this.#releaseListener = listener
      },
      commit: batch => committedTogether(Promise.resolve(this.commitGate).then(() => this.#log(batch))),
      graphql: async request => ({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ seen: Buffer.from(request.body).toString(), type: request.contentType }),
      }),
      token: async request => ({ status: 200, body: request.authorization }),
      pages: [],
      routes: [
        {
          methods: ['GET'],
          path: '/v1/pools/:pool/arrow',
          bodyBytesMax: 1000,
          handle: async request => ({
            status: 200,
            body: `${request.parameters[0]}?${request.query}`,
          }),
        },
      ],
      imports: {
        verify: async () => ({
          ...this.importer,
          verifyAgain: () => this.verifyAgain(),
        }),
        temporaryFolder: tmpdir(),
        catalog: this.catalog,
        jobs: this.jobs,
      },
      metricsAccess: () => undefined,
      metricsText: async () => 'weir_up 1\n',
      meter: {
        request: status => this.statuses.push(status),
        bodyBytes: () => {},
        events: () => {},
        refused: code => this.codes.push(code),
        signatureRefused: () => {},
        rejectedRows: () => {},
        poolName: poolId => poolId,
      },
      storeSecret: () => Promise.resolve(),
      ...more,
    }
  }

  #log(batch: CommitBatch): void {
    this.batches.push(batch)
    const before = this.logged.length
    for (const span of batch.spans) this.logged.push(...readSpan(span))
    assert.equal(this.logged.length - before, batch.records)
    let rows = 0
    for (const part of batch.parts) {
      for (let at = 0; at < part.requests.length; at += ENTRY_WORDS) {
        const record = this.logged[before + part.requests[at]!]!
        assert.equal(record.pool, part.pool)
        assert.equal(record.accepted, part.requests[at + 2])
        rows += record.accepted
      }
    }
    const accepted = this.logged.slice(before).reduce((sum, record) => sum + record.accepted, 0)
    assert.equal(rows, accepted)
  }
}

/**
 * The HTTP library of `start()`: uWebSockets.js where its binary loads, or the one that `over()`
 * sets.
 */
export let frontEnd: Transport = (await chooseTransport('', '')).transport

/** Sets the HTTP library of later calls of `start()`. */
export function over(other: Transport): void {
  frontEnd = other
}

/** Starts the front end on a free port. */
export function start(
  fake: Fake,
  options: Partial<ApiOptions> = {},
  more: Partial<ApiDeps> = {},
): Promise<Api> {
  const fixed = { host: '127.0.0.1', port: 0, rateLimit: 0, chunked: true, transport: frontEnd }
  return createApi(fake.deps(more), { ...fixed, ...options })
}

/** The fake stages and the front end over them that the running test uses. */
export let fake: Fake
export let api: Api
/** Keeps its connections to the front end open between requests. */
export let agent: Agent

/** Starts a front end over a new Fake for each test, and stops it afterwards. */
export function startForEachTest(options: Partial<ApiOptions> = {}): void {
  beforeEach(() => open(options))
  afterEach(close)
}

/** Starts one front end for all tests of the file. */
export function startForFile(): void {
  beforeAll(() => open({}))
  afterAll(close)
}

async function open(options: Partial<ApiOptions>): Promise<void> {
  fake = new Fake()
  api = await start(fake, options)
  agent = new Agent({ keepAlive: true })
}

async function close(): Promise<void> {
  agent.destroy()
  expect(api.stats().tasksRunning).toBe(0)
  expect(await api.stop(1000)).toBe(true)
}

/** A body with one event that the Fake accepts. */
export const good = '{"id":"a"}'

/** A promise, and the function that resolves it. */
export function gate(): { readonly promise: Promise<void>; readonly open: () => void } {
  let open = () => {}
  const promise = new Promise<void>(resolve => {
    open = resolve
  })
  return { promise, open }
}

/** Waits, turn by turn, until `condition` holds: for states that no event announces. */
export async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + 60_000
  while (!condition()) {
    if (Date.now() > end) throw new Error('the awaited state did not come')
    await new Promise(resolve => setImmediate(resolve))
  }
}

function readSpan(span: Span): Logged[] {
  const view = new DataView(span.slab)
  const records: Logged[] = []
  let at = span.offset
  while (at < span.offset + span.bytes) {
    assert.equal(view.getUint32(at, true), RECORD_MAGIC, 'a record stands here')
    const bytes = view.getUint32(at + 40, true)
    const body = Buffer.from(new Uint8Array(span.slab, at + RECORD_HEADER_BYTES, bytes))
    assert.equal(view.getUint32(at + 44, true), crc32(body), 'the checksum is that of the body')
    const end = at + recordBytes(bytes)
    const padding = new Uint8Array(
      span.slab,
      at + RECORD_HEADER_BYTES + bytes,
      end - at - RECORD_HEADER_BYTES - bytes,
    )
    assert.ok(
      padding.every(byte => byte === 0),
      'the padding is zero',
    )
    records.push({
      pool: view.getUint32(at + 32, true),
      kind: view.getUint16(at + 56, true),
      events: view.getUint32(at + 48, true),
      accepted: view.getUint32(at + 52, true),
      body: body.toString(),
      bits: (view.getUint16(at + 58, true) & 1) === 1,
    })
    at = end
  }
  assert.equal(at, span.offset + span.bytes)
  assert.equal(records.length, span.records)
  const withBits = records.filter(record => record.bits).length
  assert.equal(withBits, span.bits === undefined ? 0 : 1)
  if (withBits === 1) assert.ok(records.at(-1)!.bits, 'a record with bits ends its span')
  return records
}

interface Result {
  readonly outcomes: Int32Array
  readonly recordBytes: Int32Array
  readonly errors: number[]
  readonly batches: ParsedBatch[]
  readonly ownRecords: Map<number, SharedArrayBuffer>
  readonly bits: Map<number, Uint8Array>
  readonly early: Map<number, EarlyAnswer>
  readonly rejected: Map<number, RejectedRows>
}

function parse(task: ParseTask): ParseResult {
  const rows = task.table.length / REQUEST_WORDS
  const result: Result = {
    outcomes: new Int32Array(rows * OUTCOME_WORDS),
    recordBytes: new Int32Array(rows),
    errors: [],
    batches: [],
    ownRecords: new Map(),
    bits: new Map(),
    early: new Map(),
    rejected: new Map(),
  }
  for (const group of task.groups) {
    const parsedRows: number[] = []
    for (let row = group.from; row < group.to; row += 1)
      if (parseRow(task, group, row, result)) parsedRows.push(row)
    if (parsedRows.length > 0)
      result.batches.push({ batch: new ArrayBuffer(8), requests: Int32Array.from(parsedRows) })
  }
  return { ...result, errors: Int32Array.from(result.errors) }
}

function parseRow(task: ParseTask, group: ParseTaskGroup, row: number, result: Result): boolean {
  const at = row * REQUEST_WORDS
  let slab = task.slab
  let offset = task.table[at + REQUEST.offset]!
  let body = Buffer.from(new Uint8Array(slab, offset, task.table[at + REQUEST.bytes]!))
  const refused = task.received?.get(row)?.refused
  if (refused !== undefined) {
    result.early.set(row, refused.refusal)
    result.outcomes.set([0, 0, DOCUMENT.early, -1], row * OUTCOME_WORDS)
    return false
  }
  const refuse = (document: number): false => {
    result.outcomes.set([0, 0, document, -1], row * OUTCOME_WORDS)
    return false
  }
  if ((task.table[at + REQUEST.flags]! & FLAG.received) !== 0) {
    try {
      body = gunzipSync(body, { maxOutputLength: BODY_BYTES_MAX })
    } catch (error) {
      const tooLarge = (error as { code: string }).code === 'ERR_BUFFER_TOO_LARGE'
      return refuse(tooLarge ? DOCUMENT.body_too_large : DOCUMENT.broken_gzip)
    }
    slab = new SharedArrayBuffer(recordBytes(body.byteLength))
    offset = RECORD_HEADER_BYTES
    new Uint8Array(slab).set(body, offset)
    result.ownRecords.set(row, slab)
  }
  let value: unknown
  try {
    value = JSON.parse(body.toString())
  } catch {
    return refuse(DOCUMENT.not_json)
  }
  if (typeof value !== 'object' || value === null) return refuse(DOCUMENT.not_object_or_array)
  const events: unknown[] = Array.isArray(value) ? value : [value]
  if (events.length > EVENTS_MAX) return refuse(DOCUMENT.too_many_events)
  const bits = new Uint8Array(Math.ceil(events.length / 8))
  let accepted = 0
  for (const [index, event] of events.entries()) {
    const id = (event as { id?: unknown } | null)?.id
    if (typeof id === 'string') {
      accepted += 1
      bits[index >> 3]! |= 1 << (index & 7)
    } else if (typeof event !== 'object' || event === null)
      result.errors.push(row, index, errorWord(EVENT_ERROR.not_object, FOUND.number), -1)
    else
      result.errors.push(
        row,
        index,
        errorWord(EVENT_ERROR.missing, FOUND.nothing),
        group.kind === 'delete' ? 1 : 0,
      )
  }
  if (accepted < events.length && (task.table[at + REQUEST.flags]! & FLAG.all_or_nothing) !== 0) accepted = 0
  result.outcomes.set([events.length, accepted, 0, -1], row * OUTCOME_WORDS)
  if (accepted === 0) return false
  const partly = accepted < events.length
  if (partly) result.bits.set(row, bits)
  result.recordBytes[row] = recordBytes(body.byteLength)
  writeRecordHeader(new DataView(slab), offset - RECORD_HEADER_BYTES, {
    kind: group.kind === 'post' ? 1 : 2,
    pool: group.pool,
    version: group.version,
    receivedAtUs: task.table[at + REQUEST.receivedAtUs]!,
    receivedAtStepUs: 0,
    bodyBytes: body.byteLength,
    contextBytes: 0,
    bodyCrc: crc32(body),
    events: events.length,
    accepted,
    hasBits: partly,
    bitsCrc: 0,
  })
  return true
}
