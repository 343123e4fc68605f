/** Names for values inside of an expression. */

/** SQL over values by short names, each of which is written once. */
export type Let = (values: readonly string[], write: (...names: string[]) => string) => string

/**
 * A value that is used twice would double the SQL at each level. ClickHouse has no names inside of
 * an expression but those of a lambda, so a long value becomes an array of one.
 */
export function newLet(): Let {
  let names = 0
  return (values, write) => {
    if (values.every(isShort)) return write(...values)
    const own = values.map(() => `v${++names}`)
    return `arrayMap((${own.join(', ')}) -> ${write(...own)}, ${values.map(each => `[${each}]`).join(', ')})[1]`
  }
}

/** A column, a value, a name, or a function of one. */
function isShort(sql: string): boolean {
  const [, argument = sql] = CALL.exec(sql) ?? []
  return VALUE.test(argument)
}

const CALL = /^\w+\((.*)\)$/s
const VALUE = /^(?:\w+(?:\.`[^`\\]*`)?|\{p\d+:\w+\})$/
