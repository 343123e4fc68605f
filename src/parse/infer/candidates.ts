/**
 * The fields that can be columns, with their types: the leaves of the tree, objects that are no
 * records, and arrays. An object is unpacked down to DEPTH names.
 */
import { type ChosenType, chooseType } from './choose-type.ts'
import { DEPTH, type Field, type Fields } from './fields.ts'
import { nameWorth, wordsOf } from './words.ts'

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
