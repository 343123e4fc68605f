/**
 * An SQL expression that a user wrote, as a tree of plain JSON: the only form in which it leaves
 * the parser. It names columns and functions, which check.ts looks up. A new kind of SQL text, such
 * as a whole statement, is a new tree over these nodes.
 */
import type { ColumnType } from '../../format/schema.ts'

export const INTERVAL_UNITS = [
  'years',
  'quarters',
  'months',
  'weeks',
  'days',
  'hours',
  'minutes',
  'seconds',
] as const
export type IntervalUnit = (typeof INTERVAL_UNITS)[number]

/** DISTINCT_FROM and NOT_DISTINCT_FROM treat null as a value. */
export type ComparisonOperator = '=' | '<>' | '<' | '<=' | '>' | '>=' | 'DISTINCT_FROM' | 'NOT_DISTINCT_FROM'

/** A value that the text itself spells. */
export type Literal =
  | { readonly kind: 'text'; readonly text: string }
  /** A JSON number. */
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'null' }

export type Expression =
  | Literal
  /** `table`: the alias before the name, in statements alone. */
  | { readonly kind: 'column'; readonly name: string; readonly table?: string }
  | { readonly kind: 'interval'; readonly count: number; readonly unit: IntervalUnit }
  /** The value of a token that takes the place of a placeholder; see placeholders.ts. */
  | { readonly kind: 'policyValue'; readonly index: number }
  | Call
  | { readonly kind: 'and' | 'or'; readonly operands: readonly Expression[] }
  | { readonly kind: 'not'; readonly operand: Expression }
  | {
      readonly kind: 'compare'
      readonly operator: ComparisonOperator
      readonly left: Expression
      readonly right: Expression
    }
  | {
      readonly kind: 'in'
      readonly operand: Expression
      readonly list: readonly Expression[]
      readonly isNegated: boolean
    }
  | {
      readonly kind: 'between'
      readonly operand: Expression
      readonly low: Expression
      readonly high: Expression
    }
  | {
      readonly kind: 'like'
      readonly operand: Expression
      readonly pattern: Expression
      readonly isNegated: boolean
      readonly ignoresCase: boolean
    }
  | { readonly kind: 'isNull'; readonly operand: Expression; readonly isNegated: boolean }
  | { readonly kind: 'case'; readonly branches: readonly Branch[]; readonly otherwise: Expression }
  | { readonly kind: 'cast'; readonly operand: Expression; readonly type: ColumnType }
  | Subquery

interface Branch {
  readonly when: Expression
  readonly value: Expression
}

/** A function or an operator such as `+`. */
export interface Call {
  readonly kind: 'call'
  /** In lower case. */
  readonly name: string
  readonly arguments: readonly Expression[]
  readonly isDistinct: boolean
  /** The condition of FILTER (WHERE …). */
  readonly filter: Expression | null
}

/** A query inside of a statement's expression: `(SELECT …)`, `EXISTS (…)`, `operand IN (…)`. */
export interface Subquery {
  readonly kind: 'subquery'
  readonly form: 'scalar' | 'exists' | 'in'
  readonly query: SqlQuery
  /** Of `in`. */
  readonly operand: Expression | null
}

/**
 * A whole statement. Its names of tables are resolved to common tables and pools, so that one name
 * cannot mean two things in two steps.
 */
export interface SqlStatement {
  /** The names of tables that no WITH explains, as they are written. */
  readonly pools: readonly string[]
  /** The tables of all WITH clauses. Each refers to earlier ones alone. */
  readonly commons: readonly SqlCommon[]
  readonly query: SqlQuery
}

/** A common table expression: `name (columns) AS (query)`. */
export interface SqlCommon {
  readonly columns: readonly string[]
  readonly query: SqlQuery
}

export interface SqlQuery {
  readonly body: SqlSelect | SqlCombination
  readonly orderBy: readonly SqlOrder[]
  readonly limit: number | null
  readonly offset: number
}

export interface SqlSelect {
  readonly kind: 'select'
  readonly isDistinct: boolean
  readonly items: readonly SqlItem[]
  readonly from: SqlTable | null
  readonly where: Expression | null
  readonly groupBy: readonly Expression[]
  readonly having: Expression | null
}

/** Two queries, one below the other. */
export interface SqlCombination {
  readonly kind: 'combination'
  readonly operator: 'UNION' | 'INTERSECT' | 'EXCEPT'
  readonly isAll: boolean
  readonly left: SqlQuery
  readonly right: SqlQuery
}

export type SqlItem =
  /** `*`, or `table.*`. */
  | { readonly kind: 'star'; readonly table: string | null }
  | { readonly kind: 'value'; readonly value: Expression; readonly alias: string | null }

export interface SqlOrder {
  readonly value: Expression
  readonly direction: 'ASC' | 'DESC'
  /** Null where the dialect's default holds. */
  readonly nulls: 'FIRST' | 'LAST' | null
}

export type SqlTable =
  | (Aliased & { readonly kind: 'pool'; readonly pool: number })
  | (Aliased & { readonly kind: 'common'; readonly common: number })
  | (Aliased & { readonly kind: 'query'; readonly query: SqlQuery })
  | {
      readonly kind: 'join'
      readonly join: JoinKind
      readonly left: SqlTable
      readonly right: SqlTable
      readonly on: Expression | null
      readonly using: readonly string[]
    }

export type JoinKind = 'INNER' | 'LEFT' | 'RIGHT' | 'FULL' | 'CROSS'

interface Aliased {
  readonly alias: string
  /** New names of the first columns. */
  readonly columns: readonly string[]
}
