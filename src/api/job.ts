/** Ready requests of one slab become a job: a table with a row per request, grouped by pool, plan and kind. */
import {
  FLAG_ALL_OR_NOTHING,
  FLAG_GZIP,
  REQUEST_BITS,
  REQUEST_BYTES,
  REQUEST_FLAGS,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from '../batch/kernel.ts'
import { batchBytesMax } from '../batch/layout.ts'
import type { Job, JobGroup } from '../batch/protocol.ts'
import {
  BATCH_BYTES_MAX,
  BODY_BYTES_MAX,
  GZIP_RATIO_MAX,
  JOB_BYTES_MAX,
  JOB_REQUESTS_MAX,
} from '../limits.ts'
import type { IngestTarget } from './protocol.ts'
import type { IngestRequest } from './request.ts'
import type { Slab } from './slab.ts'

/** A job with the requests it was made of. */
export interface Batch {
  readonly job: Job
  /** By the table's rows. */
  readonly requests: readonly IngestRequest[]
  /** The group of each row. */
  readonly groupOf: Uint16Array
  /** Rows in the order in which their bodies were complete: neighbours in the slab come one after the other. */
  readonly order: Uint16Array
  readonly bytes: number
  /** What its cut may take. */
  readonly cutBytesMax: number
  /** Of a slab for small bodies. */
  readonly isSmall: boolean
}

/**
 * Takes the oldest ready requests of a slab, up to JOB_BYTES_MAX, BATCH_BYTES_MAX (at least one) and
 * JOB_REQUESTS_MAX.
 *
 * A row takes its columns' widths whatever its event holds: 1.5 kB of `{}` are 2 MB of 500 nullable DOUBLE
 * columns. And 500 STRING columns of one property make 500 MB of a body of 1 MB: such a request goes alone.
 *
 * A job holds one plan version of a pool: its groups' records are numbered in the order of arrival, and rows of two
 * versions must not take turns in the tail.
 */
export function takeBatch(slab: Slab<IngestRequest>): Batch {
  const ready = slab.ready
  let count = 0
  let bytes = 0
  let cutBytesMax = 0
  const versions = new Versions()
  while (count < ready.length && count < JOB_REQUESTS_MAX) {
    const request = ready[count]!
    const isOver =
      bytes + request.bytesMax > JOB_BYTES_MAX || cutBytesMax + request.cutBytesMax > BATCH_BYTES_MAX
    if (count > 0 && isOver) break
    if (!versions.agree(request.admission.target)) break
    bytes += request.bytesMax
    cutBytesMax += request.cutBytesMax
    count += 1
  }
  slab.readyBytes -= bytes
  slab.readyCutBytes -= cutBytesMax
  slab.ready = ready.splice(count)
  return { ...batchOf(slab.memory, ready), bytes, cutBytesMax, isSmall: !slab.large }
}

/** The plan version of each pool in a job. Neighbours are mostly of one target. */
class Versions {
  readonly #versionOf = new Map<number, number>()
  #last: IngestTarget | undefined

  agree(target: IngestTarget): boolean {
    if (target === this.#last) return true
    this.#last = target
    const known = this.#versionOf.get(target.poolNumber) ?? target.planVersion
    this.#versionOf.set(target.poolNumber, known)
    return known === target.planVersion
  }
}

/** Sets what a complete body may become: a job, and the group of its records, stay small whatever a gzip body holds. */
export function weigh(request: IngestRequest): void {
  const { gzip, target } = request.admission
  request.bytesMax = gzip ? Math.min(BODY_BYTES_MAX, request.bytes * GZIP_RATIO_MAX) : request.bytes
  request.cutBytesMax = batchBytesMax(target.cost, request.bytesMax)
}

function batchOf(
  slab: SharedArrayBuffer,
  taken: readonly IngestRequest[],
): Pick<Batch, 'job' | 'requests' | 'groupOf' | 'order'> {
  const lists = group(taken)
  const requests: IngestRequest[] = []
  const order = new Uint16Array(taken.length)
  const groupOf = new Uint16Array(taken.length)
  const table = new Float64Array(taken.length * REQUEST_WORDS)
  const groups: JobGroup[] = []
  for (const list of lists) {
    const from = requests.length
    for (const arrival of list) {
      const request = taken[arrival]!
      writeRow(table, requests.length * REQUEST_WORDS, request)
      groupOf[requests.length] = groups.length
      order[arrival] = requests.length
      requests.push(request)
    }
    groups.push(groupFor(requests[from]!, from, requests.length))
  }
  return { job: { slab, table, groups }, requests, groupOf, order }
}

/** Indexes into `taken`, by pool, plan version and kind. Most jobs have one group. */
function group(taken: readonly IngestRequest[]): number[][] {
  const lists = new Map<string, number[]>()
  let lastTarget: object | undefined
  let lastKind = ''
  let list: number[] = []
  for (let index = 0; index < taken.length; index += 1) {
    const { target, kind } = taken[index]!.admission
    if (target !== lastTarget || kind !== lastKind) {
      lastTarget = target
      lastKind = kind
      const key = `${target.poolNumber} ${target.planVersion} ${kind}`
      list = lists.get(key) ?? []
      lists.set(key, list)
    }
    list.push(index)
  }
  return [...lists.values()]
}

function groupFor(request: IngestRequest, from: number, to: number): JobGroup {
  const { target, kind } = request.admission
  return { kind, pool: target.poolNumber, version: target.planVersion, plan: target.plan, from, to }
}

function writeRow(table: Float64Array, at: number, request: IngestRequest): void {
  const { allOrNothing, gzip } = request.admission
  table[at + REQUEST_OFFSET] = request.offset
  table[at + REQUEST_BYTES] = request.bytes
  table[at + REQUEST_FLAGS] = (allOrNothing ? FLAG_ALL_OR_NOTHING : 0) | (gzip ? FLAG_GZIP : 0)
  table[at + REQUEST_RECEIVED_AT] = request.receivedAtMs
  table[at + REQUEST_BITS] = -1
}
