/** The Arrow schema of exported columns, and the message that begins a stream of them. */
import { Field, Schema, Table, tableToIPC } from 'apache-arrow'
import { PAYLOAD, RECEIVED_AT } from '../batch/plan.ts'
import { MESSAGE_HEAD_BYTES, metadataBytes } from '../util/arrow-frame.ts'
import { arrowType } from '../util/arrow-types.ts'
import { must } from '../util/assert.ts'
import type { ExportColumn } from './protocol.ts'

/** All nullable but the service's own two: a column added later is null in older rows, required or not. */
export function schemaOf(columns: readonly ExportColumn[]): Schema {
  return new Schema(
    columns.map(({ name, type }) => {
      const nullable = name !== RECEIVED_AT && name !== PAYLOAD
      return new Field(name, arrowType(type), nullable)
    }),
  )
}

/** The stream's first message. */
export function schemaMessage(columns: readonly ExportColumn[]): Uint8Array {
  const stream = tableToIPC(new Table(schemaOf(columns)), 'stream')
  // A schema message has no body.
  return stream.slice(0, MESSAGE_HEAD_BYTES + must(metadataBytes(stream), 'a message at the beginning'))
}
