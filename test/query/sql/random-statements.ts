/** Random statements of the forms that DuckDB reads as Weir does. */
import { below, type Random } from '../../util/random.ts'

type Type = 'integer' | 'real' | 'text' | 'boolean' | 'time'

interface Column {
  readonly sql: string
  readonly type: Type
}

/** Tables after FROM, and the columns that they have. */
interface From {
  readonly sql: string
  readonly columns: readonly Column[]
}

/** A query whose outputs are named o1, o2 and so on. */
interface Query {
  readonly sql: string
  readonly types: readonly Type[]
}

const POOL_COLUMNS: Readonly<Record<string, readonly (readonly [string, Type])[]>> = {
  orders: [
    ['id', 'integer'],
    ['customer', 'integer'],
    ['plan', 'text'],
    ['amount', 'real'],
    ['quantity', 'integer'],
    ['paid', 'boolean'],
    ['seen', 'time'],
  ],
  customers: [
    ['id', 'integer'],
    ['name', 'text'],
    ['country', 'text'],
    ['score', 'real'],
  ],
}
const LITERALS: Readonly<Record<Type, readonly string[]>> = {
  integer: ['0', '3', '-2'],
  real: ['0.5::DOUBLE', '2::DOUBLE'],
  text: ["'pro'", "'DE'", "'it''s'"],
  boolean: ['true', 'false'],
  time: ["TIMESTAMP '2024-03-20'"],
}
const TYPES = Object.keys(LITERALS) as readonly Type[]

export class RandomStatements {
  readonly #random: Random
  #aliases = 0
  /** Queries of WITH by their names. */
  #commons: { readonly name: string; readonly query: Query }[] = []

  constructor(random: Random) {
    this.#random = random
  }

  /** A statement whose answer has one order, but for rows that are equal. */
  statement(): string {
    this.#commons = []
    this.#aliases = 0
    for (let i = this.#below(3); i > 0; i--) {
      const query = this.#query(1)
      this.#commons.push({ name: `with_${i}`, query })
    }
    const commons = this.#commons.map(({ name, query }) => `${name} AS (${query.sql})`)
    const { sql, types } = this.#query(2)
    const order = types.map(
      (_, index) => `${index + 1} ${this.#pick(['ASC', 'DESC'])} NULLS ${this.#pick(['FIRST', 'LAST'])}`,
    )
    const limit = this.#chance(0.3) ? ` LIMIT ${this.#below(20)} OFFSET ${this.#below(4)}` : ''
    const withs = commons.length === 0 ? '' : `WITH ${commons.join(', ')} `
    return `${withs}${sql} ORDER BY ${order.join(', ')}${limit}`
  }

  #query(depth: number): Query {
    const first = this.#select(depth)
    if (depth < 1 || !this.#chance(0.25)) return first
    const operator = this.#pick(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])
    const from = this.#from(0)
    const outputs = first.types.map((type, index) => `${this.#value(type, from, 1)} AS o${index + 1}`)
    return {
      sql: `${first.sql} ${operator} SELECT ${outputs.join(', ')} FROM ${from.sql}`,
      types: first.types,
    }
  }

  #select(depth: number): Query {
    const from = this.#from(depth)
    const where = this.#chance(0.6) ? ` WHERE ${this.#condition(from, 2)}` : ''
    const types = Array.from({ length: 1 + this.#below(3) }, () => this.#pick(TYPES))
    if (this.#chance(0.4)) return this.#grouped(from, where, types)
    const distinct = this.#chance(0.2) ? 'DISTINCT ' : ''
    const outputs = types.map((type, index) => `${this.#value(type, from, 2)} AS o${index + 1}`)
    return { sql: `SELECT ${distinct}${outputs.join(', ')} FROM ${from.sql}${where}`, types }
  }

  #grouped(from: From, where: string, types: readonly Type[]): Query {
    const keys = types.map(type => this.#value(type, from, 1))
    const outputs = keys.map((key, index) => `${key} AS o${index + 1}`)
    const aggregates = Array.from({ length: 1 + this.#below(2) }, () => this.#aggregate(from))
    const all = [...outputs, ...aggregates.map(({ sql }, index) => `${sql} AS o${types.length + index + 1}`)]
    const groups = keys.map((key, index) => (this.#chance(0.5) && /\bt\d/.test(key) ? key : `${index + 1}`))
    const having = this.#chance(0.3) ? ` HAVING COUNT(*) > ${this.#below(4)}` : ''
    return {
      sql: `SELECT ${all.join(', ')} FROM ${from.sql}${where} GROUP BY ${groups.join(', ')}${having}`,
      types: [...types, ...aggregates.map(({ type }) => type)],
    }
  }

  #aggregate(from: From): Column {
    const filter = this.#chance(0.3) ? ` FILTER (WHERE ${this.#condition(from, 1)})` : ''
    switch (this.#below(5)) {
      case 0:
        return { sql: `COUNT(*)${filter}`, type: 'integer' }
      case 1:
        return { sql: `COUNT(DISTINCT ${this.#value('text', from, 1)})${filter}`, type: 'integer' }
      case 2:
        return { sql: `SUM(${this.#value('real', from, 1)})${filter}`, type: 'real' }
      case 3:
        return { sql: `SUM(${this.#value('integer', from, 1)})${filter}`, type: 'integer' }
      default:
        return {
          sql: `${this.#pick(['MIN', 'MAX'])}(${this.#value('time', from, 1)})${filter}`,
          type: 'time',
        }
    }
  }

  #from(depth: number): From {
    const left = this.#table(depth)
    if (depth < 1 || this.#chance(0.5)) return left
    const right = this.#table(depth - 1)
    const columns = [...left.columns, ...right.columns]
    const join = this.#pick(['JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN', 'CROSS JOIN'])
    if (join === 'CROSS JOIN') return { sql: `${left.sql} ${join} ${right.sql}`, columns }
    const on = `${this.#column('integer', left)} = ${this.#column('integer', right)}`
    // No subquery stands in ON.
    const value = this.#column('text', right)
    const more = this.#chance(0.3) ? ` AND (${value} IS NULL OR ${value} > 'b')` : ''
    return { sql: `${left.sql} ${join} ${right.sql} ON ${on}${more}`, columns }
  }

  #table(depth: number): From {
    this.#aliases += 1
    const alias = `t${this.#aliases}`
    const common = this.#chance(0.3)
      ? this.#commons[this.#below(Math.max(1, this.#commons.length))]
      : undefined
    if (common !== undefined) return outputsOf(`${common.name} AS ${alias}`, common.query, alias)
    if (depth > 0 && this.#chance(0.3)) {
      const query = this.#query(depth - 1)
      return outputsOf(`(${query.sql}) AS ${alias}`, query, alias)
    }
    const name = this.#pick(Object.keys(POOL_COLUMNS))
    const columns = POOL_COLUMNS[name]!.map(([column, type]) => ({ sql: `${alias}.${column}`, type }))
    return { sql: `${name} AS ${alias}`, columns }
  }

  #condition(from: From, depth: number): string {
    if (depth > 1 && this.#chance(0.4))
      return `(${this.#condition(from, 1)} ${this.#pick(['AND', 'OR'])} NOT ${this.#condition(from, 1)})`
    const type = this.#pick(TYPES)
    const value = this.#value(type, from, 1)
    switch (this.#below(4)) {
      case 0:
        return `(${value} IS ${this.#pick(['', 'NOT '])}NULL)`
      case 1:
        return `(${value} ${this.#pick(['=', '<>', '<', '>=', 'IS DISTINCT FROM'])} ${this.#value(type, from, 1)})`
      case 2:
        return `(${value} IN (${this.#pick(LITERALS[type])}, ${this.#value(type, from, 0)}))`
      default: {
        const inner = this.#table(0)
        return `(${value} IN (SELECT ${this.#value(type, inner, 0)} FROM ${inner.sql}))`
      }
    }
  }

  #value(type: Type, from: From, depth: number): string {
    if (depth < 2 || this.#chance(0.5)) return this.#column(type, from)
    const inner = () => this.#value(type, from, depth - 1)
    const ofCase = `CASE WHEN ${this.#condition(from, 1)} THEN ${inner()} ELSE ${inner()} END`
    switch (type) {
      case 'integer':
        return this.#pick([`(${inner()} + ${inner()})`, `(${inner()} * 2)`, `abs(${inner()})`, ofCase])
      case 'real':
        return this.#pick([`(${inner()} - ${inner()})`, `(${inner()} / 2::DOUBLE)`, ofCase])
      case 'text':
        return this.#pick([
          `upper(${inner()})`,
          `substring(${inner()}, 1, 2)`,
          `coalesce(${inner()}, 'x')`,
          ofCase,
        ])
      case 'time':
        return this.#pick([`date_trunc('hour', ${inner()})`, ofCase])
      default:
        return this.#pick([this.#condition(from, 1), ofCase])
    }
  }

  /** A column of the type, else a literal. */
  #column(type: Type, from: From): string {
    const columns = from.columns.filter(column => column.type === type)
    return columns.length === 0 ? this.#pick(LITERALS[type]) : this.#pick(columns).sql
  }

  #below(limit: number): number {
    return below(this.#random, limit)
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#below(list.length)]!
  }
}

function outputsOf(sql: string, { types }: Query, alias: string): From {
  return { sql, columns: types.map((type, index) => ({ sql: `${alias}.o${index + 1}`, type })) }
}
