/**
 * The kernels of a thread. A kernel takes 40 to 60 µs to make and 4 kB to keep, and a server
 * may have tens of thousands of pools, of which many have one schema: tenants of a program, sources
 * of a preset. Pools whose schemas differ in nothing but the pool share their kernels.
 *
 *   W-9  The numbers of kernels and of names are bounded.
 */
import { createHash } from 'node:crypto'
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import type { KernelChoice } from '../util/native.ts'
import { partsBeforeReceivedAt } from './event-times.ts'
import type { Kernel, KernelOptions, MakeKernel } from './kernel.ts'
import { makeJsKernel } from './kernel-js.ts'
import { tryNativeKernel } from './kernel-native.ts'
import type { ParseTaskGroup } from './parse-task.ts'

/** Different schemas and kinds in the cache. Beyond it the one that was made first is freed. */
const KERNELS_MAX = 4_096
/** Pools, versions and kinds whose schema is known, some 200 bytes each. */
const NAMES_MAX = 65_536

/**
 * The two kernels of a schema and kind. The reference parser is made when it is first needed: it
 * takes 43 kB.
 */
export interface GroupKernels {
  /** Of whichever pool came first: its number and version mean nothing here. */
  readonly schema: PoolSchema
  readonly first: Kernel
  /** As `partsBeforeReceivedAt`. */
  readonly partsBefore: readonly ColumnType[] | undefined
  reference(): Kernel
}

/** SHA-256 of what a kernel is made of. */
type KernelDigest = string

/** One thread's kernels, made as its tasks need them. */
export class KernelCache {
  readonly #makeNative: ReturnType<typeof tryNativeKernel>
  readonly #options: KernelOptions
  readonly #made = new Map<KernelDigest, GroupKernels>()
  /** By pool, version and kind: a task's schema is read once. */
  readonly #digests = new Map<string, KernelDigest>()

  constructor(kernel: KernelChoice, options: KernelOptions = {}) {
    this.#makeNative = tryNativeKernel(kernel)
    this.#options = options
  }

  /** The kernels of a group. They are its own until the next call, which may drop them. */
  of(group: ParseTaskGroup): GroupKernels {
    const name = `${group.pool}.${group.version}.${group.kind}`
    const digest = this.#digests.get(name)
    return (digest !== undefined && this.#made.get(digest)) || this.#read(group, name)
  }

  #read(group: ParseTaskGroup, name: string): GroupKernels {
    const schema = JSON.parse(Buffer.from(new Uint8Array(group.schema)).toString()) as PoolSchema
    const text = `${group.kind} ${JSON.stringify({ ...schema, pool: 0, version: 0 })}`
    const digest = createHash('sha256').update(text).digest('base64')
    const kernels = this.#made.get(digest) ?? this.#make(schema, group)
    keep(this.#made, digest, kernels, KERNELS_MAX)?.first.free?.()
    keep(this.#digests, name, digest, NAMES_MAX)
    return kernels
  }

  #make(schema: PoolSchema, { kind }: ParseTaskGroup): GroupKernels {
    let js: Kernel | undefined
    const make = (maker: MakeKernel) => maker(schema, kind, this.#options)
    const reference = () => {
      js ??= make(makeJsKernel)
      return js
    }
    const native =
      needsReference(schema) || this.#makeNative === undefined ? undefined : make(this.#makeNative)
    return { schema, first: native ?? reference(), reference, partsBefore: partsBeforeReceivedAt(schema) }
  }
}

/** Returns the value that had to leave. */
function keep<Value>(map: Map<string, Value>, key: string, value: Value, sizeMax: number): Value | undefined {
  const oldest = map.size >= sizeMax && !map.has(key) ? (map.keys().next().value as string) : undefined
  const leaving = oldest === undefined ? undefined : map.get(oldest)
  if (oldest !== undefined) map.delete(oldest)
  map.set(key, value)
  return leaving
}

/** True where a column has what the native kernel lacks (docs/decisions/0068). */
function needsReference({ columns }: PoolSchema): boolean {
  return columns.some(({ from, path, coerce }) => from !== undefined || path !== undefined || coerce === true)
}
