/**
 * The second gate of users' SQL: names become columns and functions of the lists, and every value
 * gets a type. A checked expression can be run by the engine without an error of its own: types
 * fit, numbers cannot overflow, division by zero is null.
 *
 *   literals   One that meets a column or a typed value is read as that type, as filters read it.
 *              A number that is compared with whole numbers is compared exactly.
 *   filter     true, false or null for each row, without aggregates
 *   value      a value of a column's type for each row, without aggregates
 *   metric     every column stands inside an aggregate, and no aggregate inside another
 */
import { TEXTS_JOINED_MAX } from '../../util/limits.ts'
import { quoteText } from '../../util/sql.ts'
import type { ComparisonOperator, Expression, Literal, Subquery } from './ast.ts'
import { checkCall } from './check-call.ts'
import { type AnyLiteral, coerce, isCastable, type Rounding, unify, valueOfLiteral } from './kinds.ts'
import { notOfType, type PoolView, type QueryColumn, quoted, similarColumn, tryValue } from './operand.ts'
import { boundValue, castTo, columnOf, nullOf, operation, type Typed } from './typed.ts'
import { Refused } from './values.ts'

/** A value of a token's `policy_values`. */
export type PolicyValue = string | number | boolean

export interface CheckOptions {
  readonly view: PoolView
  /** The time of now(). */
  readonly nowMs: number
  /** The values of placeholders by index; `unknown` while a policy is only checked. */
  readonly policyValues?: readonly PolicyValue[] | 'unknown'
}

/** Where an expression stands: over single rows, or around and inside of aggregates. */
type Place = 'filter' | 'outside' | 'inside'

/** The names that an expression may use, and what they stand for. */
export interface Names {
  /** The column, or undefined. Throws Refused if the name stands for several. */
  column(reference: Extract<Expression, { kind: 'column' }>): Typed | undefined
  /** GROUP BY's value for the whole of `expression`. Absent: there can be no GROUP BY. */
  group?(expression: Expression): Typed | undefined
  /** The value of a subquery. Where it is absent, no subquery may stand here. */
  subquery?(subquery: Subquery, checker: Checker): Typed
  /** Called with the number of texts that a call joins. */
  joinTexts?(count: number): void
}

/** A condition on rows. Throws Refused. */
export function checkCondition(expression: Expression, options: CheckOptions): Typed {
  return new Checker(options, 'filter', columnsOf(options.view)).condition(expression)
}

/**
 * The value of an expression over one row for a column of the pool. A literal is read as the
 * column's type, which must hold it. A computed number beyond the column's range is null. Throws
 * Refused.
 */
export function checkValue(expression: Expression, column: QueryColumn, options: CheckOptions): Typed {
  const checker = new Checker(options, 'filter', columnsOf(options.view))
  const { kind } = columnOf(column)
  if (isLiteral(expression)) return checker.literalOf(expression, column)
  const [, value] = checker.group([{ kind: 'column', name: column.name }, expression])
  if (value?.kind !== kind)
    throw new Refused(
      `the column ${quoted(column.name)} is ${column.type}, and the value is of type ${value?.kind}: CAST it`,
    )
  return kind === 'integer' || kind === 'real' ? castTo(column.type, value) : value
}

function columnsOf(view: PoolView): Names {
  return {
    column({ name }) {
      const column = similarColumn(view, name)
      return column && columnOf(column)
    },
  }
}

/** A metric over rows. Throws Refused. */
export function checkMetric(expression: Expression, options: CheckOptions): Typed {
  const checker = new Checker(options, 'outside', columnsOf(options.view))
  const metric = checker.check(expression)
  if (!checker.hasAggregate) throw new Refused('an aggregate such as COUNT() or SUM(column) is needed')
  if (metric.kind === 'interval') throw new Refused('an interval is no value of a metric')
  return metric
}

/** Checks one expression. Throws Refused. */
export class Checker {
  readonly nowMs: number
  hasAggregate = false
  readonly #policyValues: CheckOptions['policyValues']
  readonly #names: Names
  #place: Place
  #textsJoined = 0

  constructor({ nowMs, policyValues }: Omit<CheckOptions, 'view'>, place: Place, names: Names) {
    this.nowMs = nowMs
    this.#policyValues = policyValues
    this.#place = place
    this.#names = names
  }

  check(expression: Expression): Typed {
    const group = this.#place === 'outside' ? this.#names.group?.(expression) : undefined
    return group ?? this.#check(expression)
  }

  #check(expression: Expression): Typed {
    switch (expression.kind) {
      case 'text':
      case 'number':
      case 'boolean':
      case 'null':
      case 'policyValue':
        return valueOfLiteral(this.#literal(expression))
      case 'interval':
        return {
          op: 'interval',
          kind: 'interval',
          bits: 0,
          operands: [],
          interval: { count: expression.count, unit: expression.unit },
        }
      case 'column':
        return this.#column(expression)
      case 'call':
        return checkCall(expression, this)
      case 'and':
      case 'or':
        return operation(
          expression.kind,
          'boolean',
          expression.operands.map(each => this.condition(each)),
        )
      case 'not':
        return operation('not', 'boolean', [this.condition(expression.operand)])
      case 'compare':
        return this.#compare(expression.operator, expression.left, expression.right)
      case 'in':
        return this.#in(expression)
      case 'between':
        return this.#between(expression)
      case 'like':
        return this.#like(expression)
      case 'isNull': {
        const op = expression.isNegated ? 'is_not_null' : 'is_null'
        return operation(op, 'boolean', [this.value(expression.operand)])
      }
      case 'case':
        return this.#case(expression)
      case 'cast':
        return this.cast(expression.operand, expression.type)
      case 'subquery':
        return this.#subquery(expression)
    }
  }

  condition(expression: Expression): Typed {
    const condition = this.check(expression)
    if (condition.kind === 'null') return nullOf('boolean')
    if (condition.kind !== 'boolean')
      throw new Refused(`a condition is needed, and this is a value of type ${condition.kind}`)
    return condition
  }

  /**
   * The values in one type. Literals are read as the type of the others.
   * @param rounding of each literal that meets whole numbers alone; the last one is that of further
   *   literals too
   */
  group(
    expressions: readonly Expression[],
    rounding: readonly (Rounding | undefined)[] = [],
  ): readonly Typed[] {
    const typed = expressions.map(each => (isLiteral(each) ? undefined : this.value(each)))
    const target = typed.find(each => each !== undefined && each.kind !== 'null')
    const isReal = typed.some(each => each?.kind === 'real')
    return unify(
      expressions.map((each, index) => {
        const known = typed[index]
        if (known !== undefined) return known
        const literal = this.#literal(each)
        if (target === undefined) return valueOfLiteral(literal)
        return coerce(literal, target, isReal ? undefined : rounding[Math.min(index, rounding.length - 1)])
      }),
    )
  }

  /** A value that must equal another one. A literal is read as the type of that one. */
  equal(expression: Expression, other: Typed): Typed {
    return isLiteral(expression) ? coerce(this.#literal(expression), other, 'never') : this.value(expression)
  }

  /** A literal as a value that the column can hold. */
  literalOf(expression: Expression, column: QueryColumn): Typed {
    const literal = this.#literal(expression)
    const value = coerce(literal, columnOf(column))
    if (value.op === 'null' || value.bound?.type === column.type) return value
    throw notOfType(column.type, textOfLiteral(literal) ?? '')
  }

  cast(expression: Expression, type: Parameters<typeof castTo>[0]): Typed {
    if (isLiteral(expression)) {
      const literal = this.#literal(expression)
      const text = textOfLiteral(literal)
      const bound = text === undefined ? undefined : tryValue(type, text)
      if (bound !== undefined) return boundValue(bound)
      if (literal.kind === 'text') throw notOfType(type, literal.text)
    }
    const operand = this.value(expression)
    if (!isCastable(operand.kind, type)) throw new Refused(`${operand.kind} cannot become ${type}`)
    return castTo(type, operand)
  }

  aggregate(check: () => Typed): Typed {
    if (this.#place === 'filter')
      throw new Refused('aggregates such as COUNT and SUM have no place in a filter or in a value of one row')
    if (this.#place === 'inside') throw new Refused('an aggregate cannot stand inside another one')
    this.#place = 'inside'
    this.hasAggregate = true
    const typed = check()
    this.#place = 'outside'
    return typed
  }

  /** Bounds the length of the texts that `||` and concat make. */
  joinTexts(count: number): void {
    this.#names.joinTexts?.(count)
    this.#textsJoined += count
    if (this.#textsJoined > TEXTS_JOINED_MAX)
      throw new Refused(`an expression joins at most ${TEXTS_JOINED_MAX} texts`)
  }

  /** A value that can be compared and answered: an interval cannot. */
  value(expression: Expression): Typed {
    const typed = this.check(expression)
    if (typed.kind === 'interval') throw new Refused('an interval is added to a time, or taken from it')
    return typed
  }

  #column(reference: Extract<Expression, { kind: 'column' }>): Typed {
    const { name, table } = reference
    const column = this.#names.column(reference)
    if (column === undefined) {
      const known = table === undefined && /^current_(date|timestamp)$/i.test(name)
      if (known) return checkCall({ ...NO_ARGUMENTS, name: name.toLowerCase() }, this)
      if (table !== undefined) throw new Refused(`there is no column ${quoted(`${table}.${name}`)}`)
      throw new Refused(
        `there is no column ${quoted(name)}; a text is in single quotes: ${quoteText(name.slice(0, 80))}`,
      )
    }
    if (this.#place === 'outside') {
      const where = this.#names.group === undefined ? '' : ', and GROUP BY does not have it'
      throw new Refused(`column ${quoted(name)} stands outside of an aggregate such as SUM(…)${where}`)
    }
    return column
  }

  #subquery(subquery: Subquery): Typed {
    if (this.#names.subquery === undefined) throw new Refused('a subquery is not allowed here')
    return this.#names.subquery(subquery, this)
  }

  #compare(operator: ComparisonOperator, left: Expression, right: Expression): Typed {
    const operands = this.group([left, right], ROUNDING[operator])
    if (operator !== '=' && operator !== '<>') {
      refuseJson(operands)
      for (const [index, literal] of [left, right].entries())
        if (
          literal.kind === 'number' &&
          operands[index]?.kind === 'text' &&
          operands[1 - index]?.op !== 'column'
        )
          throw new Refused('a text and a number have no order: CAST one of them')
    }
    return operation(operator, 'boolean', operands)
  }

  #between({ operand, low, high }: Extract<Expression, { kind: 'between' }>): Typed {
    // A literal is rounded one way for each side.
    if (isLiteral(operand))
      return operation('and', 'boolean', [
        this.#compare('<=', low, operand),
        this.#compare('>=', high, operand),
      ])
    const operands = this.group([operand, low, high], [undefined, 'ceil', 'floor'])
    refuseJson(operands)
    return operation('between', 'boolean', operands)
  }

  #in({ operand, list, isNegated }: Extract<Expression, { kind: 'in' }>): Typed {
    const operands = this.group([operand, ...list], ['never'])
    const found = operation('in', 'boolean', operands)
    return isNegated ? operation('not', 'boolean', [found]) : found
  }

  #like({ operand, pattern, isNegated, ignoresCase }: Extract<Expression, { kind: 'like' }>): Typed {
    const text = this.value(operand)
    if (text.kind !== 'text' && text.kind !== 'null')
      throw new Refused(`LIKE is for texts, not for ${text.kind}`)
    if (pattern.kind !== 'text') throw new Refused('the pattern of LIKE is written as a text')
    const operands = [text.kind === 'null' ? nullOf('text') : text]
    const like = operation(ignoresCase ? 'ilike' : 'like', 'boolean', operands, { word: pattern.text })
    return isNegated ? operation('not', 'boolean', [like]) : like
  }

  #case({ branches, otherwise }: Extract<Expression, { kind: 'case' }>): Typed {
    const conditions = branches.map(branch => this.condition(branch.when))
    const values = this.group([...branches.map(branch => branch.value), otherwise])
    const kind = values[0]?.kind ?? 'null'
    const operands = conditions.flatMap((condition, index) => [condition, values[index] as Typed])
    const { bits } = operation('case', kind, values)
    return operation('case', kind, [...operands, values.at(-1) as Typed], { bits })
  }

  #literal(expression: Expression): AnyLiteral {
    if (expression.kind !== 'policyValue') return expression as Literal
    const values = this.#policyValues
    if (values === 'unknown') return { kind: 'unknown' }
    const value = values?.[expression.index]
    if (typeof value === 'string') return { kind: 'text', text: value }
    if (typeof value === 'number') return { kind: 'number', text: String(value) }
    if (typeof value === 'boolean') return { kind: 'boolean', value }
    throw new Refused('there is no function policy_value')
  }
}

/** How the operands of a comparison are rounded where they are literals. */
const ROUNDING: Readonly<Record<ComparisonOperator, readonly [Rounding, Rounding]>> = {
  '=': ['never', 'never'],
  '<>': ['never', 'never'],
  DISTINCT_FROM: ['never', 'never'],
  NOT_DISTINCT_FROM: ['never', 'never'],
  '<': ['floor', 'ceil'],
  '<=': ['ceil', 'floor'],
  '>': ['ceil', 'floor'],
  '>=': ['floor', 'ceil'],
}

const NO_ARGUMENTS = { kind: 'call', arguments: [], isDistinct: false, filter: null } as const

function isLiteral({ kind }: Expression): boolean {
  return ['text', 'number', 'boolean', 'null', 'policyValue'].includes(kind)
}

function textOfLiteral(literal: AnyLiteral): string | undefined {
  if (literal.kind === 'boolean') return String(literal.value)
  return 'text' in literal ? literal.text : undefined
}

function refuseJson(operands: readonly Typed[]): void {
  if (operands.some(({ kind }) => kind === 'json'))
    throw new Refused('JSON values have no order: read a part of one with ->>')
}
