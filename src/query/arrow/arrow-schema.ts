/** The Arrow schema of exported columns, and the message that begins a stream. */
import * as arrow from 'apache-arrow'
import { Field, Schema, Table, tableToIPC } from 'apache-arrow'
import { arrowType, MESSAGE_HEAD_BYTES, metadataBytes } from '../../format/arrow.ts'
import { PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import type { QueryColumn } from '../expression/operand.ts'

/**
 * Every column is nullable except the service's own two: a column that was added later is null in
 * older rows.
 */
export function arrowSchema(columns: readonly QueryColumn[]): Schema {
  return new Schema(
    columns.map(({ name, type }) => {
      const nullable = name !== RECEIVED_AT && name !== PAYLOAD
      return new Field(name, arrowType(arrow, type), nullable)
    }),
  )
}

/** The first message of a stream of these columns. */
export function schemaMessage(columns: readonly QueryColumn[]): Uint8Array {
  return messageOf(arrowSchema(columns))
}

export function messageOf(schema: Schema): Uint8Array {
  const stream = tableToIPC(new Table(schema), 'stream')
  return stream.slice(0, firstMessageBytes(stream))
}

/** Bytes of the first message of a stream: of its schema, which has no body. */
export function firstMessageBytes(stream: Uint8Array): number {
  return MESSAGE_HEAD_BYTES + must(metadataBytes(stream), 'a message at the beginning')
}
