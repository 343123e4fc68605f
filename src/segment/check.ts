/**
 * The entries of a seal are what their headers say: checked once, before any pass reads them, so that the native
 * passes need no bounds of their own. A fault here is ours: batches come from our own kernels.
 */
import {
  BATCH_MAGIC,
  BATCH_VERSION,
  type BatchBuffer,
  batchColumns,
  batchRows,
  columnView,
  FIRST_PLAN_COLUMN,
  HEADER_WORDS,
  KEY_COLUMN,
  KIND,
  KIND_OF_TYPE,
  type Kind,
  PAYLOAD_COLUMN,
  WIDTH_OF_KIND,
} from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import { assert } from '../util/assert.ts'
import { ENTRY_WORDS, type SealJob, type TailEntry } from './protocol.ts'

/** Throws AssertionFailed where an entry does not fit the job's plan or its own header. */
export function checkEntries(job: SealJob): void {
  const { plan, entries, sequenceFrom, sequenceTo } = job
  for (const entry of entries) {
    const header = new Int32Array(entry.batch, 0, HEADER_WORDS)
    assert(header[0] === BATCH_MAGIC && header[1] === BATCH_VERSION, 'an entry holds a batch')
    assert(header[4]! <= entry.batch.byteLength, 'a batch is complete')
    assert(entry.kind === 'post' || plan.key !== null, 'deletes come to pools with a unique id')
    checkRequests(entry, sequenceFrom, sequenceTo)
    checkColumns(entry, plan)
  }
}

function checkRequests({ batch, requests }: TailEntry, sequenceFrom: number, sequenceTo: number): void {
  let rows = 0
  for (let r = 0; r < requests.length; r += ENTRY_WORDS) {
    const sequence = requests[r]!
    assert(sequence >= sequenceFrom && sequence <= sequenceTo, 'a sequence is in the range of its seal')
    rows += requests[r + 2]!
  }
  assert(rows === batchRows(batch), 'the requests of an entry have its rows')
}

function checkColumns({ kind, batch }: TailEntry, plan: Plan): void {
  const columns = batchColumns(batch)
  const wanted = FIRST_PLAN_COLUMN + (kind === 'post' ? plan.columns.length : 0)
  assert(columns === wanted, `a batch of pool ${plan.pool} has ${wanted} columns`)
  if (kind === 'post') checkColumn(batch, PAYLOAD_COLUMN, KIND.binary)
  if (plan.key !== null) checkColumn(batch, KEY_COLUMN, KIND.binary)
  for (let c = FIRST_PLAN_COLUMN; c < columns; c++)
    checkColumn(batch, c, KIND_OF_TYPE[plan.columns[c - FIRST_PLAN_COLUMN]!.type])
}

function checkColumn(batch: BatchBuffer, index: number, kind: Kind): void {
  const rows = batchRows(batch)
  const view = columnView(batch, index)
  const bytes = kind === KIND.bool ? Math.ceil(rows / 8) : rows * WIDTH_OF_KIND[kind]
  assert(view.kind === kind, `batch column ${index} has the plan's kind`)
  assert(view.dataOffset + view.dataBytes <= batch.byteLength, 'a column ends inside its batch')
  assert(kind === KIND.binary || view.dataBytes >= bytes, 'a column has a value for each row')
  assert(view.nulls === 0 || view.validityOffset > 0, 'a column with nulls has a bitmap')
  assert(view.validityOffset + Math.ceil(rows / 8) <= batch.byteLength, 'a bitmap ends inside its batch')
  if (kind !== KIND.binary) return
  assert(view.offsetsOffset > 0, 'a variable-width column has offsets')
  const offsets = new Int32Array(batch, view.offsetsOffset, rows + 1)
  assert(offsets[0] === 0 && offsets[rows] === view.dataBytes, 'offsets end with the data')
}
