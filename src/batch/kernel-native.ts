/**
 * The native kernel: kernel.ts's signature over native/ (C++ on simdjson). Its rows are byte for byte those of
 * the TypeScript kernel; a request that it cannot decide exactly so has the outcome DOCUMENT.judge and no row.
 */
import { CannotRun } from '../errors.ts'
import { type NativeModule, tryNative } from '../util/native.ts'
import type { Allocate, Cut, Kernel, MakeKernel } from './kernel.ts'
import { COLUMN_TYPES, type CutKind, deletePlan, type Plan } from './plan.ts'

/** What native/cut.cpp adds to the module. */
interface NativeBatch extends NativeModule {
  makeKernel(properties: string[], columns: Int32Array, key: Int32Array | null, deletes: boolean): object
  cut(kernel: object, slab: Uint8Array, table: Float64Array, from: number, to: number): NativeCut
  writeBatch(kernel: object, into: Uint8Array): void
}

/** A cut whose batch is still to be written, into `batchBytes` bytes. */
interface NativeCut extends Omit<Cut, 'batch'> {
  readonly batchBytes: number
}

/** Kernels of the native module, or undefined where set-up found no compiler. Throws where it cannot be loaded. */
export function tryNativeKernel(): MakeKernel | undefined {
  const module = tryNative()
  if (module === undefined) return undefined
  const native = module as NativeBatch
  return (plan, kind, allocate = exactly) => bind(native, plan, kind, allocate)
}

/** A native kernel for one plan. Throws CannotRun where the module was not built. */
export const makeNativeKernel: MakeKernel = (plan, kind, allocate) => {
  const make = tryNativeKernel()
  if (make === undefined) throw new CannotRun('the native kernel was asked for, but its module is not built')
  return make(plan, kind, allocate)
}

/** Not zeroed: the kernel writes every byte of a batch. */
function exactly(bytes: number): ArrayBuffer {
  return Buffer.allocUnsafeSlow(bytes).buffer
}

/** A kernel belongs to the thread that made it. */
function bind(native: NativeBatch, plan: Plan, kind: CutKind, allocate: Allocate): Kernel {
  const deletes = kind === 'delete'
  const { columns, key } = deletes ? deletePlan(plan) : plan
  const properties = columns.map(column => column.jsonProperty)
  const words = columns.flatMap(column => [COLUMN_TYPES.indexOf(column.type), column.required ? 1 : 0])
  const keyColumns = key === null ? null : Int32Array.from(key.columns)
  const kernel = native.makeKernel(properties, Int32Array.from(words), keyColumns, deletes)
  return {
    cut(slab, table, from, to) {
      const { batchBytes, outcomes, faults } = native.cut(kernel, slab, table, from, to)
      const batch = allocate(batchBytes)
      native.writeBatch(kernel, new Uint8Array(batch, 0, batchBytes))
      return { batch, outcomes, faults }
    },
  }
}
