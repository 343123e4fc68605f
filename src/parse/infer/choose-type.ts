/**
 * The type of a column by the facts of its samples: the narrowest one that takes all of them and,
 * as far as the name tells, later ones too.
 */
import type { ColumnType } from '../../format/schema.ts'
import type { Facts } from './facts.ts'
import { saysDecimal, saysLabel, saysTime } from './words.ts'

export interface ChosenType {
  readonly type: ColumnType
  /** The column takes numbers, booleans and dates in strings. */
  readonly coerce: boolean
  /** What the samples hold, as the beginning of a sentence. */
  readonly reason: string
}

/** The type of a field with these facts; undefined where it is null in every sample. */
export function chooseType(facts: Facts, words: readonly string[]): ChosenType | undefined {
  const { values, booleans, numbers, strings, objects } = facts
  if (values === 0) return undefined
  if (booleans === values) return chosen('BOOLEAN', 'true or false')
  if (numbers === values) return typeOfNumbers(facts, words)
  if (strings === values) return typeOfStrings(facts, words)
  if (objects === values) return chosen('JSON', 'an object')
  if (facts.arrays === values) return chosen('JSON', 'an array')
  if (numbers + strings === values && facts.epochs === numbers && facts.times === strings)
    return chosen('TIMESTAMP', 'a time, in some samples a number that counts from 1970')
  if (numbers + strings === values && facts.numberTexts + facts.empty === strings && !saysLabel(words))
    return typeOfNumberTexts(facts, words, 'a number, in some samples in a string')
  return chosen('JSON', 'values of different kinds')
}

function typeOfNumbers(facts: Facts, words: readonly string[]): ChosenType {
  const { numbers, epochs, wideIntegers, reals } = facts
  if (epochs === numbers && saysTime(words))
    return chosen('TIMESTAMP', 'a number that counts from 1970, and the name says that it is a time')
  if (reals > 0) return chosen('DOUBLE', 'a number, with a fraction or an exponent')
  if (wideIntegers === 0) return chosen('INT64', 'a whole number of at most 64 bits')
  return saysLabel(words)
    ? chosen('JSON', 'a whole number beyond 64 bits, of which only JSON keeps every digit')
    : chosen('DOUBLE', 'a whole number beyond 64 bits')
}

function typeOfStrings(facts: Facts, words: readonly string[]): ChosenType {
  const { strings, empty, times, dates, mailDates, booleanTexts, numberTexts } = facts
  const filled = strings - empty
  if (filled === 0) return chosen('STRING', 'empty text')
  // An empty text is no time: only a column that coerces takes it, as null.
  const coerce = empty > 0
  if (dates === filled) return chosen('DATE', 'a date', coerce)
  if (times === filled) return chosen('TIMESTAMP', 'a time', coerce)
  if (times + mailDates === filled) return chosen('TIMESTAMP', 'a date as in mail headers (RFC 2822)', true)
  if (booleanTexts === filled) return chosen('BOOLEAN', 'true or false in a string', true)
  if (numberTexts !== filled) return chosen('STRING', 'text')
  if (facts.epochTexts === filled && saysTime(words))
    return chosen('TIMESTAMP', 'digits that count from 1970, and the name says that it is a time', true)
  if (saysLabel(words)) return chosen('STRING', 'digits, but the name says that they are a label')
  return typeOfNumberTexts(facts, words, 'a number in a string')
}

function typeOfNumberTexts(facts: Facts, words: readonly string[], reason: string): ChosenType {
  const isWhole = facts.fractionTexts + facts.reals + facts.wideIntegers === 0
  return chosen(isWhole && !saysDecimal(words) ? 'INT64' : 'DOUBLE', reason, true)
}

function chosen(type: ColumnType, reason: string, coerce = false): ChosenType {
  return { type, coerce, reason }
}
