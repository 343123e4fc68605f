/**
 * The fields that can be columns, with their types: the leaves of the tree, objects that are no
 * records, and arrays. An object is unpacked down to DEPTH names. A type is the narrowest one that
 * takes all samples and, as far as the name tells, later ones too.
 */

import type { ColumnType } from '../../format/schema.ts'
import type { Facts } from './facts.ts'
import { DEPTH, type Field, type Fields } from './fields.ts'
import { nameWorth, saysDecimal, saysLabel, saysTime, wordsOf } from './words.ts'

/** An object with more names is a map when they look like ids or differ between samples. */
const MAP_NAMES_MIN = 24
/** An object with more names is a map: nobody asks for so many columns. */
const MAP_NAMES_SURE = 200
/** Bytes of a text that is long on average. */
const LONG_TEXT_BYTES = 256
/** Indexes at the end of a step of a path. */
const INDEXES = /^(?:\[\d{1,4}\])+$/
const DIGITS = /^\d+$/
const HEX = /^[0-9a-f-]+$/i
/** Characters of a UUID without its dashes, halved: shorter names of such letters may be words. */
const HEX_NAME_MIN = 16

/** A field that can be a column. */
export interface Candidate {
  readonly field: Field
  readonly chosen: ChosenType
  /** How much a column of it is asked for, compared with others. */
  readonly worth: number
  /** It stands in the first element of an array. */
  readonly isInArray: boolean
}

/** A field that gets no column, and why. */
export interface LeftOut {
  readonly jsonProperty: string
  readonly reason: string
}

export interface Candidates {
  readonly columns: readonly Candidate[]
  readonly leftOut: readonly LeftOut[]
}

/** The candidates among the headers and the fields of the samples, in their order. */
export function collectCandidates(headers: Iterable<Field>, fields: Fields): Candidates {
  const { events } = fields
  const columns: Candidate[] = []
  const leftOut: LeftOut[] = []
  const leave = ({ jsonProperty }: Field, reason: string) => leftOut.push({ jsonProperty, reason })
  const add = (field: Field, isInArray: boolean): void => {
    const chosen = chooseType(field.facts, wordsOf(field.names.at(-1)!))
    if (chosen === undefined) leave(field, 'It is null in every sample.')
    else columns.push({ field, chosen, worth: worthOf(field, chosen, events), isInArray })
  }
  const visit = (field: Field, isInArray: boolean): void => {
    const { facts, children, element } = field
    if (isRecord(field)) {
      for (const child of children.values()) visit(child, isInArray)
      return
    }
    if (isAmbiguous(field, fields)) leave(field, 'A name with dots and a path have this same text.')
    else add(field, isInArray)
    if (facts.arrays === facts.values && facts.elementsMax === 1 && element !== undefined)
      for (const child of element.children.values()) visit(child, true)
  }
  for (const header of headers) add(header, false)
  for (const field of fields.root.children.values()) visit(field, false)
  return { columns, leftOut }
}

/** An object whose names are worth columns of their own. */
function isRecord({ facts, children, names, isStep }: Field): boolean {
  const { objects, values } = facts
  const isUnpacked = objects > 0 && objects === values && isStep && names.length < DEPTH && children.size > 0
  if (!isUnpacked || children.size < MAP_NAMES_MIN) return isUnpacked
  if (children.size > MAP_NAMES_SURE) return false
  let [ids, present] = [0, 0]
  for (const [name, child] of children) {
    if ((name.length < HEX_NAME_MIN ? DIGITS : HEX).test(name)) ids++
    present += child.facts.values + child.facts.nulls
  }
  return 2 * ids < children.size && 2 * present > objects * children.size
}

/**
 * True where the text of the property stands for two values. A name at the top that equals the
 * whole text is read where an event has it, and the path through objects and arrays elsewhere.
 */
function isAmbiguous({ jsonProperty, names, facts }: Field, { root, events, isFull }: Fields): boolean {
  const top = root.children.get(jsonProperty)
  if (names.length > 1) return top !== undefined
  const step = jsonProperty.split('.', 1)[0]!
  const index = step.indexOf('[')
  const first = index >= 0 && INDEXES.test(step.slice(index)) ? step.slice(0, index) : step
  if (first === jsonProperty || facts.values + facts.nulls === events) return false
  // A name without letters is not in the tree.
  return isFull || first === '' || root.children.has(first)
}

function worthOf({ facts, names }: Field, { type }: ChosenType, events: number): number {
  const presence = Math.floor((50 * Math.min(facts.values, events)) / events)
  const isLong = facts.textBytes > LONG_TEXT_BYTES * facts.strings
  const ofType = type === 'JSON' ? -60 : type === 'BOOLEAN' ? -40 : 0
  return presence + nameWorth(wordsOf(names.at(-1)!)) + ofType - 15 * names.length - (isLong ? 40 : 0)
}

interface ChosenType {
  readonly type: ColumnType
  /** The column takes numbers, booleans and dates in strings. */
  readonly coerce: boolean
  /** What the samples hold, as the beginning of a sentence. */
  readonly reason: string
}

/** The type of a field with these facts; undefined where it is null in every sample. */
function chooseType(facts: Facts, words: readonly string[]): ChosenType | undefined {
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
