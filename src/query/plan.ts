/**
 * A planned question: what it computes, as a value in which no engine's SQL stands. The planner
 * makes plans, a Dialect writes each in the SQL of its engine, and only then is it run.
 *
 *   question ──► planner ──► QueryPlan ──► Dialect ──► Statement ──► engine
 */
import type { Typed } from './expression/typed.ts'
import type { BadQuery, Pruning, Statement } from './query-types.ts'

/** A column of an answer. */
export interface Output {
  readonly name: string
  readonly value: Typed
}

export interface Order {
  readonly value: Typed
  readonly direction: 'ASC' | 'DESC'
  /** Nulls come last in either direction unless this says so. */
  readonly nulls?: 'FIRST'
}

/** The rows that a SELECT reads. Its columns name each table by its alias. */
export type Source =
  /** The visible rows of a pool; 0 is the plan's own, others are those of `others`. */
  | { readonly kind: 'rows'; readonly pool: number; readonly alias: string }
  /** A table of `commons`. */
  | { readonly kind: 'common'; readonly name: string; readonly alias: string }
  | { readonly kind: 'select'; readonly select: Select; readonly alias: string }
  /** Two selects with equal columns, one below the other. */
  | {
      readonly kind: 'combination'
      readonly operator: 'UNION' | 'INTERSECT' | 'EXCEPT'
      readonly isAll: boolean
      readonly left: Select
      readonly right: Select
      readonly alias: string
    }
  | {
      readonly kind: 'join'
      readonly join: 'INNER' | 'LEFT' | 'RIGHT' | 'FULL' | 'CROSS'
      readonly left: Source
      readonly right: Source
      /** Of each join but CROSS. */
      readonly on: Typed | undefined
    }
  /** One row without columns. */
  | { readonly kind: 'nothing' }

/** One SELECT. */
export interface Select {
  /**
   * Absent: the rows of the pool that the question is about. A list: the rows of all, whose outputs
   * have equal names and types.
   */
  readonly from?: Select | Source | readonly Select[]
  /** Absent: every row. */
  readonly where?: Typed | undefined
  readonly outputs: readonly Output[]
  /** Absent: no grouping. With aggregates among the outputs and no grouping there is one row. */
  readonly groupBy?: readonly Typed[]
  /**
   * Instead of `groupBy`: the rows of several groupings. A value that a grouping lacks is null in
   * its rows, and `is_absent` of it is 1.
   */
  readonly groupingSets?: readonly (readonly Typed[])[]
  /** A condition on groups. */
  readonly having?: Typed | undefined
  readonly isDistinct?: boolean
  readonly orderBy?: readonly Order[]
  readonly limit?: number
  readonly offset?: number
}

/** An output of the SELECT that another one reads `from`. */
export function outputOf({ name, value: { kind, bits } }: Output): Typed {
  return { op: 'output', kind, bits, operands: [], word: name }
}

/** The part of a pool that a reader may see. */
export interface VisibleRows {
  /** Names; null: all. */
  readonly columns: readonly string[] | null
  /** Absent: all rows. */
  readonly where: Typed | undefined
}

/** A question over one pool, planned for one schema. */
export interface QueryPlan extends Pruning {
  readonly select: Select
  /** The rows and columns that `select` reads. Absent: all live rows, all columns. */
  readonly visible?: VisibleRows | undefined
  /** Its rows have ROW_NUMBER and SEQUENCE too. The plan then reads one segment at a time. */
  readonly hasPositions?: true
  /** Tables that `select` reads by name. Each may read those before it. */
  readonly commons?: readonly CommonTable[]
  /** Further pools that the plan reads: pool 1 of its sources, pool 2 and so on. */
  readonly others?: readonly PoolPart[]
}

/** A further pool of a plan. */
export interface PoolPart extends Pruning {
  readonly visible?: VisibleRows | undefined
}

/** A table that a plan computes and reads by its name, which the planner made. */
export interface CommonTable {
  readonly name: string
  readonly select: Select
  /** It is read more than once: the engine computes it once and keeps it. */
  readonly isKept: boolean
}

/** The part of a plan that its statement says. */
type WrittenPart = Pick<QueryPlan, 'select' | 'visible' | 'hasPositions' | 'commons' | 'others'>

/** The SQL of an engine. */
export interface Dialect {
  /** The statement of a plan; BadQuery where it has more patterns than a query may have. */
  write(plan: WrittenPart): Statement | BadQuery
}

/** Every condition that is there, joined by AND; undefined: there is none. */
export function allOf(conditions: readonly (Typed | undefined)[]): Typed | undefined {
  const given = conditions.flatMap(each => (each?.op === 'and' ? each.operands : (each ?? [])))
  return given.length > 1 ? { op: 'and', kind: 'boolean', bits: 0, operands: given } : given[0]
}

/** True where the answer is the number of live rows: no row needs to be read. */
export function countsAllRows({ select, visible, commons = [], others = [] }: WrittenPart): boolean {
  const { from, outputs, limit, offset = 0 } = select
  const [output] = outputs
  const isOwnRows = from === undefined || ('kind' in from && from.kind === 'rows' && from.pool === 0)
  return (
    isOwnRows &&
    commons.length === 0 &&
    others.length === 0 &&
    select.where === undefined &&
    select.groupBy === undefined &&
    select.groupingSets === undefined &&
    select.having === undefined &&
    outputs.length === 1 &&
    output?.value.op === 'count_rows' &&
    output.value.filter === undefined &&
    limit !== 0 &&
    offset === 0 &&
    visible?.where === undefined
  )
}
