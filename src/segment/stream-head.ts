/**
 * What makes a body an Arrow IPC stream: one schema message and the metadata of one record batch, made with
 * apache-arrow's own classes from buffer lengths. Loaded for parquet-wasm alone.
 */
import { Field, Message, Schema } from 'apache-arrow'
import { BufferRegion, FieldNode, RecordBatch } from 'apache-arrow/ipc/metadata/message'
import { PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { envelope } from '../util/arrow-frame.ts'
import { arrowType } from '../util/arrow-types.ts'
import type { Body } from './stream.ts'

/** The schema message and the record batch's metadata; see HeadOf. */
export function arrowHead(plan: Plan, rows: number, body: Body): Uint8Array {
  const nodes = body.nulls.map(nulls => new FieldNode(rows, nulls))
  const regions = body.regions.map(([offset, length]) => new BufferRegion(offset, length))
  const batch = new RecordBatch(rows, nodes, regions, null)
  const parts = [Message.from(schemaOf(plan)), Message.from(batch, body.bytes)]
  return Uint8Array.from(Buffer.concat(parts.map(part => envelope(Message.encode(part)))))
}

/** The Arrow schema of a plan's segments, in the order in which columns are stored. */
function schemaOf(plan: Plan): Schema {
  return new Schema([
    new Field(RECEIVED_AT, arrowType('TIMESTAMP'), false),
    new Field(PAYLOAD, arrowType('JSON'), false),
    ...plan.columns.map(column => new Field(column.name, arrowType(column.type), !column.required)),
    new Field(SEQUENCE, arrowType('INT64'), false),
  ])
}
