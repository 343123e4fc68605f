/**
 * Parts of JSON as SQL of ClickHouse, with the texts that the local store has.
 *
 *   numbers   ClickHouse prints 1.0 as 1, takes integers of more than 64 bits for texts, and has no
 *             document with 1e999. Where that matters the document is read with such numbers as
 *             marked texts, which become numbers again behind it.
 *   indexes   A number in a path is the place in an array or the name of a key.
 */
import type { Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import type { Let } from './write-lambda.ts'
import type { Binder } from './write-values.ts'

interface JsonWriter {
  readonly name: Let
  readonly binder: Binder
}

/** Each doubles the SQL. */
const INDEXES_MAX = 4
const INDEX = /^(?:0|[1-9]\d{0,8})$/
/** How the mark stands in JSON, in a text of SQL. */
const MARK_SQL = '\\\\u0001weir'
const NUMBERS = `(?:0|[1-9][0-9]*)(?:\\\\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|[1-9][0-9]{18,}`
/** A text, or one of these numbers. */
const TOKENS = `'("(?:[^"\\\\\\\\]|\\\\\\\\.)*")|(-?(?:${NUMBERS}))'`

/** The part of a document at the pointer `word` (RFC 6901): as JSON, a text, or its length. */
export function jsonSql(json: string, { op, word = '' }: Typed, { name, binder }: JsonWriter): string {
  const keys = word
    .split('/')
    .slice(1)
    .map(key => key.replaceAll('~1', '/').replaceAll('~0', '~'))
  if (keys.filter(key => INDEX.test(key)).length > INDEXES_MAX)
    throw new Refused(`a JSON path has at most ${INDEXES_MAX} numbers in a cluster`)
  const bound = keys.map(key => ({ text: binder.text(key), index: INDEX.test(key) ? Number(key) + 1 : 0 }))
  const at = (doc: string, read: (path: string) => string, path = doc, from = 0): string => {
    const [key] = bound.slice(from)
    if (key === undefined) return read(path)
    const byKey = at(doc, read, `${path}, ${key.text}`, from + 1)
    if (key.index === 0) return byKey
    return `if(JSONType(${path}) = 'Array', ${at(doc, read, `${path}, ${key.index}`, from + 1)}, ${byKey})`
  }
  return name([json], doc => {
    const type = at(doc, path => `toString(JSONType(${path}))`)
    const hasNumbers = `match(${doc}, '[0-9](?:[.eE]|[0-9]{18})')`
    const isJson = op === 'json_value'
    const isMarked = `(${isJson ? hasNumbers : `${type} IN ('Array', 'Object') AND ${hasNumbers}`} OR NOT isValidJSON(${doc}))`
    const plain = at(doc, path => partOf(path, op, name))
    return `if(${isMarked}, ${name([marked(doc)], other => `if(${isWhole(other)}, ${at(other, path => partOf(path, op, name))}, NULL)`)}, ${plain})`
  })
}

/** A part of a document, whose numbers may be marked. */
function partOf(path: string, op: string, name: Let): string {
  const isJson = op === 'json_value'
  return name([`toString(JSONType(${path}))`, `JSONExtractRaw(${path})`], (type = '', raw = '') => {
    if (op === 'json_array_length')
      return `multiIf(${raw} IS NULL OR ${raw} = '', NULL, ${type} = 'Array', toInt64(JSONLength(${path})), 0)`
    const text = `JSONExtractString(${path})`
    const real = `if(match(${raw}, '[.e]'), ${raw}, concat(${raw}, '.0'))`
    const marked = unmarked(unescaped(raw), name)
    const string = isJson ? marked : `if(startsWith(${text}, '\\x01weir'), ${marked}, ${text})`
    const isNull = isJson ? `${raw} = ''` : `${type} = 'Null'`
    return `multiIf(${raw} IS NULL OR ${isNull}, NULL, ${type} = 'Double', ${real}, ${type} = 'String', ${string}, ${marked})`
  })
}

/** The document with the numbers that ClickHouse would print otherwise as marked texts. */
function marked(doc: string): string {
  const all = `replaceRegexpAll(${doc}, ${TOKENS}, '\\\\1"\\\\${MARK_SQL}\\\\2"')`
  return `replaceAll(${all}, '""${MARK_SQL}"', '"')`
}

/** False where a number stood in the place of a key. */
function isWhole(doc: string): string {
  return `(isValidJSON(${doc}) AND NOT match(${doc}, '\\\\${MARK_SQL}[^"]*"[ \\\\t\\\\r\\\\n]*:'))`
}

/** Marked texts as numbers again: as DuckDB prints them, and infinite ones as they are. */
function unmarked(raw: string, name: Let): string {
  const number = (part: string) =>
    name([`substring(${part}, 1, position(${part}, '"') - 1)`], text => {
      const printed = name(
        [`toString(toFloat64OrZero(${text}))`],
        real => `if(match(${real}, '[.ein]'), ${real}, concat(${real}, '.0'))`,
      )
      return `if(match(${text}, '[.eE]') AND isFinite(toFloat64OrZero(${text})), ${printed}, ${text})`
    })
  const parts = `splitByString('"${MARK_SQL}', assumeNotNull(${raw}))`
  const joined = `arrayStringConcat(arrayMap((part, place) -> if(place = 1, part, concat(${number('part')}, substring(part, position(part, '"') + 1))), ${parts}, arrayEnumerate(${parts})))`
  return `if(position(${raw}, '"${MARK_SQL}') = 0, ${raw}, ${joined})`
}

/** ClickHouse escapes two separators of lines that DuckDB does not. */
function unescaped(raw: string): string {
  const once = (sql: string, code: string) =>
    `replaceRegexpAll(${sql}, '(^|[^\\\\\\\\])((?:\\\\\\\\\\\\\\\\)*)\\\\\\\\u${code}', '\\\\1\\\\2${String.fromCodePoint(Number.parseInt(code, 16))}')`
  const all = ['2028', '2028', '2029', '2029'].reduce(once, raw)
  return `if(position(${raw}, '\\\\u202') = 0, ${raw}, ${all})`
}
