/**
 * The native kernel: the signature of kernel.ts over native/ (C++ on simdjson). Its rows are byte
 * for byte those of the TypeScript kernel. A request that it cannot decide has the outcome
 * DOCUMENT.undecided and no row.
 */

import { COLUMN_TYPE, deleteSchema, type PoolSchema, type RequestKind } from '../format/schema.ts'
import { type KernelChoice, tryNative } from '../util/native.ts'
import {
  exactly,
  type Kernel,
  type KernelOptions,
  type MakeKernel,
  OUTCOME,
  OUTCOME_WORDS,
  type Parsed,
} from './kernel.ts'

/** See native/kernel_calls.cpp. */
interface NativeParse {
  makeKernel(properties: string[], columns: Int32Array, key: Int32Array, deletes: boolean): object
  parse(kernel: object, slab: Uint8Array, table: Float64Array, from: number, to: number): NativeParsed
  writeBatch(kernel: object, into: Uint8Array): void
  freeKernel(kernel: object): void
}

/** A result whose batch is still to be written, into `batchBytes` bytes. */
interface NativeParsed extends Omit<Parsed, 'batch'> {
  readonly batchBytes: number
}

/** Makes native kernels; undefined where they are not wanted or were not built. */
export function tryNativeKernel(kernel?: KernelChoice): MakeKernel | undefined {
  const native = tryNative<NativeParse>(kernel)
  if (native === undefined) return undefined
  return (schema, kind, options) => bind(native, schema, kind, options)
}

/** A kernel belongs to the thread that made it. */
function bind(
  native: NativeParse,
  schema: PoolSchema,
  kind: RequestKind,
  { allocate = exactly, deletesHaveColumns = false }: KernelOptions = {},
): Kernel {
  const { columns, key, cutsEpochs } = kind === 'delete' ? deleteSchema(schema) : schema
  const deletes = kind === 'delete' && !deletesHaveColumns
  const properties = columns.map(column => column.jsonProperty)
  const cut = cutsEpochs === true ? 2 : 0
  const words = columns.flatMap(column => [COLUMN_TYPE[column.type].number, cut + (column.required ? 1 : 0)])
  const keyColumns = Int32Array.from(key?.columns ?? [])
  const kernel = native.makeKernel(properties, Int32Array.from(words), keyColumns, deletes)
  return {
    parse(slab, table, from, to) {
      const { batchBytes, outcomes, errors } = native.parse(kernel, slab, table, from, to)
      let rows = 0
      for (let at = OUTCOME.accepted; at < outcomes.length; at += OUTCOME_WORDS) rows += outcomes[at]!
      const batch = allocate(batchBytes, rows)
      native.writeBatch(kernel, new Uint8Array(batch, 0, batchBytes))
      return { batch, outcomes, errors }
    },
    free: () => native.freeKernel(kernel),
  }
}
