/**
 * Two kernels over the same generated requests: all their results must be the same bytes.
 *
 * A kernel may answer DOCUMENT.undecided for a request, which the reference parser then decides.
 * Such a request must have left no row and no error behind. The requests beside it are compared one
 * by one.
 */

import type { PoolSchema, RequestKind } from '../../src/format/schema.ts'
import { DOCUMENT } from '../../src/parse/event-error.ts'
import {
  ERROR_WORDS,
  FLAG,
  type Kernel,
  type MakeKernel,
  OUTCOME,
  OUTCOME_WORDS,
  type Parsed,
  REQUEST,
  REQUEST_WORDS,
} from '../../src/parse/kernel.ts'
import { JsonMaker, makePoolSchema } from './json.ts'
import { Random } from './random.ts'

/** One call of a kernel, made from a seed alone. */
export interface KernelCase {
  readonly seed: number
  readonly schema: PoolSchema
  readonly kind: RequestKind
  readonly slab: Uint8Array
  readonly table: Float64Array
}

/** A difference of two kernels. `seed` alone makes the case again (`makeCase`). */
export interface Mismatch {
  readonly seed: number
  readonly what: string
  readonly schema: PoolSchema
  readonly kind: RequestKind
  readonly bodies: readonly string[]
}

/** The counts of a comparison. They show whether its cases were worth something. */
export interface Comparison {
  readonly cases: number
  readonly requests: number
  readonly accepted: number
  readonly refused: number
  readonly undecided: number
  readonly mismatch: Mismatch | null
}

/** The case of a seed: one to five requests for one schema. */
export function makeCase(seed: number): KernelCase {
  const random = new Random(seed)
  const schema = makePoolSchema(random)
  const kind: RequestKind = schema.key !== null && random.once(5) ? 'delete' : 'post'
  const maker = new JsonMaker(random, random.pick([0, 0, 40, 400]), random.once(4))
  const bodies = Array.from({ length: 1 + random.below(5) }, () => maker.body())
  return { seed, schema, kind, ...layOut(bodies, random) }
}

/** Bodies in a shared slab with odd gaps between them, and their table. */
export function layOut(
  bodies: readonly Uint8Array[],
  random: Random,
): { slab: Uint8Array; table: Float64Array } {
  const bitmapBytes = 64
  const bytes = bodies.reduce((sum, body) => sum + body.length + bitmapBytes + 16, 0)
  const slab = new Uint8Array(new SharedArrayBuffer(bytes + 64))
  for (let i = 0; i < slab.length; i++) slab[i] = random.below(256)
  const table = new Float64Array(bodies.length * REQUEST_WORDS)
  let end = random.below(9)
  bodies.forEach((body, index) => {
    const at = index * REQUEST_WORDS
    slab.set(body, end)
    table[at + REQUEST.offset] = end
    table[at + REQUEST.bytes] = body.length
    table[at + REQUEST.flags] = random.once(4) ? FLAG.all_or_nothing : 0
    table[at + REQUEST.receivedAtUs] = 1_700_000_000_000_000 + random.below(1e12)
    end += body.length
    table[at + REQUEST.bits] = random.once(5) ? end : -1
    end += bitmapBytes + random.below(9)
  })
  return { slab, table }
}

/**
 * Drives both kernels through `cases` cases from `seed` on and stops at the first difference.
 * `a` is the reference parser (js). `b` may leave requests undecided (native).
 */
export function compareKernels(a: MakeKernel, b: MakeKernel, seed: number, cases: number): Comparison {
  const sum = { cases: 0, requests: 0, accepted: 0, refused: 0, undecided: 0 }
  for (; sum.cases < cases; sum.cases++) {
    const one = makeCase(seed + sum.cases)
    const mismatch = compareCase(a, b, one, sum)
    if (mismatch !== null) return { ...sum, mismatch }
  }
  return { ...sum, mismatch: null }
}

/** Both kernels on one case. Adds to `sum`. */
export function compareCase(
  a: MakeKernel,
  b: MakeKernel,
  one: KernelCase,
  sum: { requests: number; accepted: number; refused: number; undecided: number },
): Mismatch | null {
  const reference = a(one.schema, one.kind)
  const other = b(one.schema, one.kind)
  const requests = one.table.length / REQUEST_WORDS
  const all = other.parse(one.slab, one.table, 0, requests)
  const undecided = new Set<number>()
  for (let i = 0; i < requests; i++)
    if (all.outcomes[i * OUTCOME_WORDS + OUTCOME.document] === DOCUMENT.undecided) undecided.add(i)
  const want = reference.parse(one.slab, one.table, 0, requests)
  for (let i = 0; i < requests; i++) {
    sum.requests++
    sum.accepted += want.outcomes[i * OUTCOME_WORDS + OUTCOME.accepted]!
    if (want.outcomes[i * OUTCOME_WORDS + OUTCOME.document] !== DOCUMENT.ok) sum.refused++
  }
  sum.undecided += undecided.size
  const what =
    undecided.size === 0
      ? difference(want, all)
      : differenceWithUndecided(reference, other, one, all, undecided)
  return what === null
    ? null
    : { seed: one.seed, what, schema: one.schema, kind: one.kind, bodies: bodiesOf(one) }
}

/** Compares the decided requests one by one. Undecided ones must have left nothing behind. */
function differenceWithUndecided(
  reference: Kernel,
  other: Kernel,
  one: KernelCase,
  all: Parsed,
  undecided: ReadonlySet<number>,
): string | null {
  for (let i = 0; i < all.errors.length; i += ERROR_WORDS)
    if (undecided.has(all.errors[i]!)) return `request ${all.errors[i]}: undecided, and an error was reported`
  let rows = 0
  for (let i = 0; i < one.table.length / REQUEST_WORDS; i++) {
    const accepted = all.outcomes[i * OUTCOME_WORDS + OUTCOME.accepted]!
    rows += accepted
    if (undecided.has(i)) {
      if (accepted !== 0) return `request ${i}: undecided, and rows were accepted`
      continue
    }
    const what = difference(
      reference.parse(one.slab, one.table, i, i + 1),
      other.parse(one.slab, one.table, i, i + 1),
    )
    if (what !== null) return `request ${i} alone: ${what}`
  }
  return new Int32Array(all.batch, 0, 3)[2] === rows ? null : 'an undecided request left rows in the batch'
}

/** The first difference of two results in words; null where they are the same. */
function difference(want: Parsed, have: Parsed): string | null {
  return (
    differentWords('outcomes', want.outcomes, have.outcomes) ??
    differentWords('errors', want.errors, have.errors) ??
    differentWords('batch', new Int32Array(want.batch), new Int32Array(have.batch))
  )
}

function differentWords(what: string, want: Int32Array, have: Int32Array): string | null {
  for (let i = 0; i < Math.max(want.length, have.length); i++)
    if (want[i] !== have[i])
      return `${what}[${i}]: want ${want[i]}, have ${have[i]} (${want.length}, ${have.length} words)`
  return null
}

/** The bodies as text that can be pasted into a test. */
function bodiesOf(one: KernelCase): string[] {
  return Array.from({ length: one.table.length / REQUEST_WORDS }, (_, index) => {
    const from = one.table[index * REQUEST_WORDS + REQUEST.offset]!
    const bytes = one.slab.slice(from, from + one.table[index * REQUEST_WORDS + REQUEST.bytes]!)
    return JSON.stringify(Buffer.from(bytes).toString('latin1')).slice(0, 2000)
  })
}

/** A mismatch as lines for a person. */
export function describeMismatch(mismatch: Mismatch): string {
  return [
    `seed ${mismatch.seed}: ${mismatch.what}`,
    `kind ${mismatch.kind}, schema ${JSON.stringify(mismatch.schema)}`,
    ...mismatch.bodies.map((body, index) => `body ${index} (latin1): ${body}`),
  ].join('\n')
}
