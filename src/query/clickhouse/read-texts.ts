/**
 * Texts that are cast, as SQL of ClickHouse: what DuckDB reads as a number or a time, as it does. A
 * regular expression takes a text apart, and any other text is null.
 */
import type { Let } from './write-lambda.ts'
import { firstOfMonth, IN_DATES, IN_TIMES } from './write-times.ts'

/** Digits with single underscores between them. */
const DIGITS = '[0-9]+(?:_[0-9]+)*'
const SPACES = '[ \\t-\\r]*'
/** Sign, digits before and behind the point, exponent. */
const NUMBER = `\\A${SPACES}(\\+?-?)(?:(${DIGITS})(?:\\.(${DIGITS})?)?|\\.(${DIGITS}))(?:[eE]([+-]?${DIGITS}))?${SPACES}\\z`
const HEXADECIMAL = `\\A${SPACES}0[xX]0*([0-9a-fA-F]{1,16})${SPACES}\\z`
const BINARY = `\\A${SPACES}0[bB]0*([01]{1,64})${SPACES}\\z`
/** Sign, year, separator, month, separator, day, and the mark of years before 1. */
const DAY = `${SPACES}(-?)0*([0-9]{1,6})([-/ \\\\])([0-9]{1,2})([-/ \\\\])([0-9]{1,2})`
const BEFORE_CHRIST = '( \\([bB][cC]\\))'
const DATE = `\\A${DAY}(?:${BEFORE_CHRIST}.*|[^0-9].*|)\\z`
/** Then hour, minute, second, fraction, and the sign, hours, minutes and seconds of the offset. */
const OFFSET = '(?:Z|([+-])([0-9]{2}):?(?:([0-9]{2})(?::([0-9]{2}))?)?| [uU][tT][cC])?'
const SECOND = `([0-9]{1,2})(?:\\.([0-9]*))?${OFFSET}${SPACES}`
const TIME = `0*([0-9]{1,2}):([0-9]{0,2})(?::(?:${SECOND})?)?`
const INSTANT = `\\A${DAY}${BEFORE_CHRIST}?(?:(?:T|[ \\t-\\r]+)${TIME})?\\z`
const EPOCH = quotedText(`\\A${SPACES}(?i)epoch${SPACES}\\z`)

/** The groups of a text, as an array; empty where it has another form. */
function groupsOf(text: string, pattern: string): string {
  return `extractGroups(ifNull(${text}, ''), ${quotedText(`(?s)${pattern}`)})`
}

function quotedText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

const plain = (digits: string) => `replaceAll(${digits}, '_', '')`

/** A text that is cast to a real number: null where it is no finite one. */
export function realOfText(text: string, isSingle: boolean, name: Let): string {
  const read = isSingle ? 'toFloat32OrNull' : 'toFloat64OrNull'
  return name([groupsOf(text, NUMBER)], g => {
    const before = `if(${g}[2] = '', '0', ${g}[2])`
    const all = `concat(if(endsWith(${g}[1], '-'), '-', ''), ${before}, '.', ${g}[3], ${g}[4], '0e', if(${g}[5] = '', '0', ${g}[5]))`
    const value = `${read}(${plain(`replaceAll(${all}, '+', '')`)})`
    return name([value], x => `if(empty(${g}) OR NOT isFinite(${x}), NULL, ${x})`)
  })
}

/** A text that is cast to a whole number: Int128, half rounded away from zero. */
export function integerOfText(text: string, name: Let): string {
  return name([text], t => {
    const hexadecimal = name(
      [groupsOf(t, HEXADECIMAL)],
      g => `if(empty(${g}), NULL, toInt128(reinterpretAsUInt64(reverse(unhex(leftPad(${g}[1], 16, '0'))))))`,
    )
    const binary = name(
      [groupsOf(t, BINARY)],
      g => `if(empty(${g}), NULL, toInt128(reinterpretAsUInt64(reverse(unbin(leftPad(${g}[1], 64, '0'))))))`,
    )
    return `coalesce(${name([groupsOf(t, NUMBER)], g => decimal(g, name))}, ${hexadecimal}, ${binary})`
  })
}

function decimal(g: string, name: Let): string {
  const before = plain(`${g}[2]`)
  const digits = `trimLeft(concat(${before}, ${plain(`concat(${g}[3], ${g}[4])`)}), '0')`
  const zeros = `length(concat(${before}, ${plain(`concat(${g}[3], ${g}[4])`)}))`
  const power = `toInt64OrNull(${plain(`replaceAll(if(${g}[5] = '', '0', ${g}[5]), '+', '')`)})`
  return name([digits, before, power], (d = '', whole = '', exponent = '') =>
    name(
      [`(toInt64(length(${whole})) - (toInt64(${zeros}) - toInt64(length(${d}))) + ${exponent})`],
      point => {
        const kept = `concat(substring(${d}, 1, greatest(${point}, 0)), repeat('0', greatest(least(${point}, 40) - toInt64(length(${d})), 0)))`
        const up = `if(${point} >= 0 AND substring(${d}, ${point} + 1, 1) >= '5', 1, 0)`
        const value = `(toInt128OrNull(concat('0', ${kept})) + ${up})`
        const isNone = `empty(${g}) OR ${g}[1] = '+-' OR ${exponent} IS NULL OR ${exponent} NOT BETWEEN -32768 AND 32767`
        const sign = `if(${g}[1] = '-', -1, 1)`
        const isLarge = `length(trimLeft(${whole}, '0')) > 19 OR ${sign} * toInt128OrZero(${whole}) NOT BETWEEN toInt64(-9223372036854775808) AND 9223372036854775807 OR ${point} > 38`
        return `multiIf(${isNone}, NULL, ${d} = '', toInt128(0), ${isLarge}, NULL, ${sign} * ${value})`
      },
    ),
  )
}

/** A text that is cast to a date: its day, whatever stands behind. */
export function dateOfText(value: string, name: Let): string {
  return name([value], text => plainDate(text, name))
}

function plainDate(text: string, name: Let): string {
  const day = name([groupsOf(text, DATE)], g => dayOf(g, name))
  const known = `if(match(${text}, ${EPOCH}), 0, NULL)`
  return `toInt32(coalesce(${name([day], d => `if(${IN_DATES(d)}, ${d}, NULL)`)}, ${known}))`
}

/** The days of the groups of DAY and BEFORE_CHRIST; null where there is no such day. */
function dayOf(g: string, name: Let): string {
  const number = (index: number) => `toInt64OrZero(${g}[${index}])`
  const year = `if(${g}[7] <> '', 1 - ${number(2)}, if(${g}[1] = '-', -${number(2)}, ${number(2)}))`
  return name([`(${year} * 12 + ${number(4)} - 1)`], months =>
    name([firstOfMonth(months)], first => {
      const isDay = `${number(4)} BETWEEN 1 AND 12 AND ${number(6)} BETWEEN 1 AND ${firstOfMonth(`(${months} + 1)`)} - ${first}`
      const isNone = `empty(${g}) OR ${g}[3] <> ${g}[5] OR (${g}[7] <> '' AND (${g}[1] <> '' OR ${number(2)} = 0))`
      return `if(${isNone} OR NOT (${isDay}), NULL, ${first} + ${number(6)} - 1)`
    }),
  )
}

/** A text that is cast to an instant: UTC, or in the offset that it has. */
export function instantOfText(value: string, name: Let): string {
  return name([value], text => plainInstant(text, name))
}

function plainInstant(text: string, name: Let): string {
  const found = name([groupsOf(text, INSTANT)], g => {
    const number = (index: number) => `toInt64OrZero(${g}[${index}])`
    const [hour, minute, second] = [8, 9, 10].map(number)
    const micros = `toInt64OrZero(substring(concat(${g}[11], '000000'), 1, 6))`
    const clock = `((${hour} * 3600 + ${minute} * 60 + ${second}) * 1000000 + ${micros})`
    const isTime = `(${minute} < 60 AND ${second} < 60 AND (${hour} < 24 OR ${clock} = 86400000000))`
    const offset = `((${number(13)} * 3600 + ${number(14)} * 60 + ${number(15)}) * if(${g}[12] = '-', -1000000, 1000000))`
    return name([dayOf(g, name)], day => {
      const local = `(${day} * 86400000000 + ${clock})`
      return name(
        [`if(${isTime}, ${local}, NULL)`],
        us => `if(${IN_TIMES(us)} AND ${IN_TIMES(`(${us} - ${offset})`)}, ${us} - ${offset}, NULL)`,
      )
    })
  })
  return `coalesce(${found}, if(match(${text}, ${EPOCH}), 0, NULL))`
}
