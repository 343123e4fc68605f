/** One SELECT, as a value in which no engine's SQL stands. */
import type { Typed } from './typed.ts'

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

export interface Select {
  /**
   * Absent for the rows of the pool that the question is about. A list stands for the rows of all
   * its parts, whose outputs have equal names and types.
   */
  readonly from?: Select | Source | readonly Select[]
  /** Absent for every row. */
  readonly where?: Typed | undefined
  readonly outputs: readonly Output[]
  /** Absent where rows are not grouped: with aggregates among the outputs there is one row. */
  readonly groupBy?: readonly Typed[]
  /**
   * Instead of `groupBy`: the rows of several groupings. A value that a grouping lacks has no
   * meaning in its rows, and `is_absent` of it is 1.
   */
  readonly groupingSets?: readonly (readonly Typed[])[]
  /** A condition on groups. */
  readonly having?: Typed | undefined
  readonly isDistinct?: boolean
  readonly orderBy?: readonly Order[]
  readonly limit?: number
  readonly offset?: number
}

/**
 * A name inside of a statement: of an output or of a table. No column of a pool begins so, in any
 * case, so no engine takes one for the other.
 */
export function internal(name: string): string {
  return `_service_${name}`
}

/** The name of an output of a statement: names of users may be equal. */
export function outputName(index: number): string {
  return internal(`c${index + 1}`)
}

/** An output of the SELECT that another one reads `from`. */
export function outputOf({ name, value: { kind, bits } }: Output): Typed {
  return { op: 'output', kind, bits, operands: [], word: name }
}

/** Every condition that is there, joined by AND, or undefined if there is none. */
export function allOf(conditions: readonly (Typed | undefined)[]): Typed | undefined {
  const given = conditions.flatMap(each => (each?.op === 'and' ? each.operands : (each ?? [])))
  return given.length > 1 ? { op: 'and', kind: 'boolean', bits: 0, operands: given } : given[0]
}
