/**
 * A plan in two steps, of which the first is computed for some segments and then kept:
 *
 *   rows ──► partial: groups with counts, sums, minima and maxima ──► merged: the plan's answer
 *
 * The partial groups of many segments together are those of their rows. Sums of real numbers stay
 * exact in between, so an answer is the same whatever was kept (duckdb/kept-partials.ts).
 *
 * Source of the split: "partial aggregates" of distributed databases, as in Gray et al., Data Cube,
 * 1997: distributive and algebraic functions.
 */
import { isAggregate } from '../expression/functions.ts'
import { internal, type Output, outputOf, type Select } from '../expression/select.ts'
import { castTo, operation, type Typed } from '../expression/typed.ts'
import type { QueryPlan, Statement } from './plan.ts'

/** The table of partial groups that a merged plan reads. */
const PARTIALS = internal('partials')
/** The kept ones of them, which the engine defines. */
export const KEPT = internal('kept')

export interface PartialPlans {
  readonly partial: QueryPlan
  /** It reads the partial groups of the task's rows, and of KEPT. */
  readonly merged: QueryPlan
}

/** What an engine needs to keep partial groups of a question. */
export interface PartialStatements {
  /** Equal for equal questions. */
  readonly key: string
  /** The application. */
  readonly fairKey: string
  /** Of a partial group. */
  readonly columns: number
  readonly partial: Statement
  readonly merged: Statement
}

/**
 * Undefined where a plan cannot be split: it reads other pools, joins, keeps rows apart, or has an
 * aggregate of which parts cannot be put together, such as a median.
 */
export function partialPlans(plan: QueryPlan): PartialPlans | undefined {
  const { select, commons = [], others = [], native, hasPositions } = plan
  if (native !== undefined || hasPositions === true || commons.length + others.length > 0) return undefined
  const leaf = leafOf(select)
  const split = leaf && splitLeaf(leaf)
  if (leaf === undefined || split === undefined) return undefined
  const columns = split.partial.outputs.map(output => ({ name: output.name, value: outputOf(output) }))
  const kept: Select = { from: { kind: 'common', name: KEPT, alias: KEPT }, outputs: columns }
  const table = { from: [split.partial, kept], outputs: columns }
  return {
    partial: { ...plan, select: split.partial },
    merged: {
      ...plan,
      select: withLeaf(select, split.merged),
      commons: [{ name: PARTIALS, select: table, isKept: false }],
    },
  }
}

/** The innermost select of a chain, if it reads the pool's rows. */
function leafOf({ from, ...select }: Select): Select | undefined {
  if (from === undefined) return select
  if ('outputs' in from) return leafOf(from)
  if (!('kind' in from) || from.kind !== 'rows' || from.pool !== 0) return undefined
  return { from, ...select }
}

function withLeaf(select: Select, leaf: Select): Select {
  const { from } = select
  return from !== undefined && 'outputs' in from ? { ...select, from: withLeaf(from, leaf) } : leaf
}

function splitLeaf(leaf: Select): { readonly partial: Select; readonly merged: Select } | undefined {
  const { from, where, groupBy, groupingSets, having, orderBy, isDistinct = false } = leaf
  const groups = [...new Set([...(groupBy ?? []), ...(groupingSets ?? []).flat()])]
  const split = new Split(groups)
  const outputs = leaf.outputs.map(({ name, value }) => ({ name, value: split.merge(value) }))
  const merged: Select = {
    ...leaf,
    from: { kind: 'common', name: PARTIALS, alias: PARTIALS },
    where: undefined,
    outputs,
    ...(groupBy && { groupBy: groupBy.map(each => split.merge(each)) }),
    ...(groupingSets && { groupingSets: groupingSets.map(set => set.map(each => split.merge(each))) }),
    having: having && split.merge(having),
    ...(orderBy && { orderBy: orderBy.map(each => ({ ...each, value: split.merge(each.value) })) }),
  }
  const partial: Select = {
    ...(from === undefined ? {} : { from }),
    where,
    outputs: [...split.keys, ...split.parts],
    ...(groups.length === 0 ? {} : { groupBy: groups }),
  }
  const isAggregate = groups.length > 0 || split.parts.length > 0
  return isDistinct || !isAggregate || !split.isPossible ? undefined : { partial, merged }
}

/** Values over partial groups, instead of those over rows. */
class Split {
  readonly keys: readonly Output[]
  readonly parts: Output[] = []
  isPossible = true
  /** One value stays one value: outputs, groups and orders are told by identity. */
  readonly #merged = new Map<Typed, Typed>()

  constructor(groups: readonly Typed[]) {
    this.keys = groups.map((value, at) => ({ name: internal(`k${at}`), value }))
    for (const key of this.keys) this.#merged.set(key.value, outputOf(key))
  }

  merge(typed: Typed): Typed {
    const known = this.#merged.get(typed)
    if (known !== undefined) return known
    const merged = this.#aggregate(typed) ?? this.#scalar(typed)
    this.#merged.set(typed, merged)
    return merged
  }

  #aggregate(typed: Typed): Typed | undefined {
    const { op, kind, operands } = typed
    const part = () => this.#part(typed)
    switch (op) {
      case 'count_rows':
      case 'count':
        return total(part())
      case 'min':
      case 'max':
        return operation(op, kind, [part()])
      case 'sum':
        return kind === 'integer'
          ? operation(op, kind, [part()])
          : operation('sum_of_states', 'real', [this.#state(typed)])
      case 'average': {
        const [operand] = operands
        if (operand?.kind !== 'integer' || operand.bits > 63)
          return operation('average_of_states', 'real', [this.#state(typed)])
        const sum = this.#part({ ...typed, op: 'sum', kind: 'integer', bits: operand.bits })
        const count = this.#part({ ...typed, op: 'count', kind: 'integer', bits: 63 })
        return operation('average_of_sums', 'real', [sum, count])
      }
      default:
        return undefined
    }
  }

  /** An exact sum of real numbers, with their count. */
  #state(typed: Typed): Typed {
    return this.#part({ ...typed, op: 'sum_state', kind: 'text', bits: 0 })
  }

  /** A value of each partial group. */
  #part(value: Typed): Typed {
    const output = { name: internal(`a${this.parts.length}`), value }
    this.parts.push(output)
    return outputOf(output)
  }

  #scalar(typed: Typed): Typed {
    const { op, operands, select } = typed
    // A column that is no key, rows of another table, or an aggregate that has no parts.
    if (op === 'column' || op === 'output' || select !== undefined || isAggregate(op)) this.isPossible = false
    return operands.length === 0 ? typed : { ...typed, operands: operands.map(each => this.merge(each)) }
  }
}

/** The sum of counts. Without groups there is one, which may be 0. */
function total(counts: Typed): Typed {
  return castTo('INT64', operation('sum', 'integer', [counts]))
}
