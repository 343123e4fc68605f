/**
 * Proposes the columns and the key of a pool from sample requests, each with its reason. A pure
 * function: the same samples give the same proposal.
 *
 *   samples.ts      requests → events
 *   fields.ts       events → tree of names with the facts of their values
 *   candidates.ts   tree → fields that can be columns, with their types
 *   infer.ts        → unique id and timestamp (choose-keys.ts), then the most useful columns,
 *                   with valid names (words.ts)
 *
 * A pool with the proposed columns accepts every sample, unless the samples have more names than
 * are read.
 */
import type { ColumnType } from '../../format/schema.ts'
import { JsonScan } from '../json-scan.ts'
import { type Candidate, collectCandidates, type LeftOut } from './candidates.ts'
import { headerIdWorth, timeWorth } from './choose-keys.ts'
import { Field, Fields } from './fields.ts'
import {
  findEvents,
  INFER_BYTES_MAX,
  type InferProblem,
  noSamples,
  SAMPLES_MAX,
  type Sample,
  tooLarge,
  tooMany,
} from './samples.ts'
import { ColumnNames, wordsOf } from './words.ts'

/** More columns cost disk and are seldom asked for; the payload holds everything. */
export const COLUMNS_PROPOSED_MAX = 60
/** In fewer samples a field that all of them have is nullable: the next event may lack it. */
const SAMPLES_FOR_REQUIRED = 20
/** Fields that are listed as left out. */
const LEFT_OUT_MAX = 100
/** Names of less worth do not say that a field is the id or the time of an event. */
const ID_WORTH_MIN = 80
const TIME_WORTH_MIN = 40

interface ProposedColumn {
  readonly name: string
  readonly jsonProperty: string
  readonly type: ColumnType
  readonly nullable: boolean
  readonly coerce: boolean
  readonly reason: string
}

/** The name of a proposed column, null where none fits, and why. */
interface ProposedKey {
  readonly column: string | null
  readonly reason: string
}

export interface Proposal {
  /** Events that were read. */
  readonly events: number
  /** In the order in which the samples have them, headers first. */
  readonly columns: readonly ProposedColumn[]
  readonly uniqueId: ProposedKey
  readonly timestamp: ProposedKey
  /** `tableSettings.orderBy`; null where the key is the timestamp and the unique id. */
  readonly orderBy: readonly string[] | null
  /** Fields that got no column, at most LEFT_OUT_MAX of them. */
  readonly leftOut: readonly LeftOut[]
}

/** Columns and keys for 1 to SAMPLES_MAX events, or the problem with the samples. */
export function inferColumns(samples: readonly Sample[]): Proposal | InferProblem {
  const scan = new JsonScan()
  const fields = new Fields(scan)
  const headers = new HeaderFields()
  let bytes = 0
  let hasBatch = false
  for (const [index, sample] of samples.entries()) {
    const body = typeof sample.body === 'string' ? Buffer.from(sample.body) : sample.body
    bytes += body.length
    if (bytes > INFER_BYTES_MAX) return tooLarge()
    const places = findEvents(scan, body, index)
    if ('problem' in places) return places
    const { starts, ends, isArray } = places
    if (fields.events + starts.length > SAMPLES_MAX) return tooMany()
    hasBatch ||= isArray
    for (const [i, start] of starts.entries()) {
      fields.read(start, ends[i]!)
      headers.read(sample.headers ?? {}, fields.text)
    }
  }
  return fields.events === 0 ? noSamples() : propose(fields, headers, hasBatch)
}

function propose(fields: Fields, headers: HeaderFields, hasBatch: boolean): Proposal {
  const { events } = fields
  const { columns, leftOut } = collectCandidates(headers.fields.values(), fields)
  // The events of an array share their headers, which so name none of them.
  const inEach = columns.filter(
    each => isInEach(each, events) && !(hasBatch && each.field.jsonProperty.startsWith('$')),
  )
  const id = best(inEach, idWorthOf, ID_WORTH_MIN)
  const time = best(inEach, timeWorthOf, TIME_WORTH_MIN)
  const kept = mostUseful(columns, [id, time])
  const names = new ColumnNames()
  const proposed = new Map<Candidate, ProposedColumn>()
  for (const each of columns)
    if (kept.has(each)) proposed.set(each, columnOf(each, names, events, each === id || each === time))
  const nameOf = (key: Candidate | undefined) => (key && proposed.get(key)?.name) ?? null
  const orderBy = id !== undefined && time === undefined ? [nameOf(id)!] : null
  return {
    events,
    columns: [...proposed.values()],
    uniqueId: { column: nameOf(id), reason: idReason(id, columns, fields) },
    timestamp: { column: nameOf(time), reason: timeReason(time, orderBy !== null) },
    orderBy,
    leftOut: [...leftOut, ...notKept(columns, kept), ...notRead(fields)].slice(0, LEFT_OUT_MAX),
  }
}

/** True where every event has a value that is not null, and coercion makes none null. */
function isInEach({ field: { facts } }: Candidate, events: number): boolean {
  return facts.values >= events && facts.empty === 0
}

function idWorthOf({ field, chosen: { type }, isInArray }: Candidate): number {
  const isId = (type === 'STRING' || type === 'INT64') && !isInArray && field.ids?.areUnique === true
  return isId ? field.idWorth : 0
}

function timeWorthOf({ field, chosen: { type }, isInArray }: Candidate): number {
  return (type === 'TIMESTAMP' || type === 'DATE') && !isInArray ? timeWorth(field.names) : 0
}

/** The first candidate of the highest worth; undefined where none is worth it. */
function best(
  candidates: readonly Candidate[],
  worthOf: (candidate: Candidate) => number,
  worthMin: number,
): Candidate | undefined {
  let [found, worth]: [Candidate | undefined, number] = [undefined, worthMin - 1]
  for (const each of candidates) {
    const own = worthOf(each)
    if (own > worth) [found, worth] = [each, own]
  }
  return found
}

/** The keys and the candidates of the highest worth. */
function mostUseful(
  columns: readonly Candidate[],
  keys: readonly (Candidate | undefined)[],
): ReadonlySet<Candidate> {
  const sorted = columns.toSorted((a, b) => b.worth - a.worth)
  const kept = new Set(keys.filter(key => key !== undefined))
  for (const each of sorted) if (kept.size < COLUMNS_PROPOSED_MAX) kept.add(each)
  return kept
}

function columnOf(each: Candidate, names: ColumnNames, events: number, isKey: boolean): ProposedColumn {
  const { field, chosen, isInArray } = each
  const { facts, jsonProperty } = field
  const isRequired = isInEach(each, events) && events >= SAMPLES_FOR_REQUIRED && !isInArray
  const found = `${sentence(chosen.reason)}, in ${Math.min(facts.values, events)} of ${events} samples.`
  const inArray = isInArray ? ' Its array has one element at most in every sample.' : ''
  return {
    name: names.name(field.names),
    jsonProperty,
    type: chosen.type,
    nullable: !isKey && !isRequired,
    coerce: chosen.coerce,
    reason: `${found}${inArray}`,
  }
}

function idReason(id: Candidate | undefined, columns: readonly Candidate[], fields: Fields): string {
  if (id !== undefined) {
    const { jsonProperty } = id.field
    return fields.texts === 1
      ? `"${jsonProperty}" has the name of an event's id. One event cannot show that others have another value.`
      : `"${jsonProperty}" has the name of an event's id, and another value in each of ${fields.texts} different events.`
  }
  const shared = columns.find(
    ({ field }) => field.idWorth >= ID_WORTH_MIN && field.ids?.repeated !== undefined,
  )
  if (shared === undefined)
    return 'No field that all samples have has the name of an id. Without one every event is a record of its own, and a retry stores it again.'
  const { jsonProperty, ids } = shared.field
  return `"${jsonProperty}" has the value ${JSON.stringify(ids?.repeated)} in events that differ. As unique id it would keep the last one of them.`
}

function timeReason(time: Candidate | undefined, isKeyedById: boolean): string {
  if (time !== undefined)
    return `"${time.field.jsonProperty}" has the name of the time at which an event happened. A retry must bring the same time again.`
  const none = 'No field that all samples have has the name of the time at which an event happened.'
  return isKeyedById ? `${none} The unique id alone is the key, so that a retry stores nothing again.` : none
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function notKept(columns: readonly Candidate[], kept: ReadonlySet<Candidate>): LeftOut[] {
  return columns
    .filter(each => !kept.has(each))
    .map(({ field: { jsonProperty } }) => ({
      jsonProperty,
      reason: `Other fields seem more useful; at most ${COLUMNS_PROPOSED_MAX} are proposed.`,
    }))
}

function notRead(fields: Fields): LeftOut[] {
  return fields.isFull
    ? [{ jsonProperty: '…', reason: 'The samples have more names than are read; later ones are left out.' }]
    : []
}

/** Fields of headers; later ones are not read. */
const HEADERS_MAX = 100
/** Bytes of a value that is read: a signed request has no longer ones either. */
const VALUE_BYTES_MAX = 8_192
/** A header's name is a token (RFC 9110, section 5.6.2), here without upper-case letters. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,200}$/

/** The last word of headers that say what happened, and to what. */
const EVENT_ENDS = new Set(
  'event topic type resource action domain source subject environment time at'.split(' '),
)
/** Words of headers that senders, proxies and browsers add to every request. */
const ELSEWHERE = new Set(
  'content accept forwarded real cf amzn cloud trace correlation request sec access signature token secret auth'.split(
    ' ',
  ),
)

/**
 * The fields of headers that are worth a column, in the order in which their names came: the id of
 * the delivery, and what kind of event it is. Headers that hold a secret, a signature or a fact of
 * the connection are not.
 */
class HeaderFields {
  readonly fields = new Map<string, Field>()

  /**
   * Reads the headers of one event.
   * @param text the number of the event's text (Fields.text)
   */
  read(headers: Readonly<Record<string, string>>, text: number): void {
    for (const [given, value] of Object.entries(headers)) {
      const name = given.toLowerCase()
      if (!HEADER_NAME.test(name) || !isWanted(name) || typeof value !== 'string') continue
      const bytes = Buffer.from(value)
      if (bytes.length > VALUE_BYTES_MAX) continue
      const field = this.#field(name)
      field?.facts.addText(bytes)
      field?.ids?.add(bytes, text)
    }
  }

  #field(name: string): Field | undefined {
    const known = this.fields.get(name)
    if (known !== undefined || this.fields.size === HEADERS_MAX) return known
    const shown = name.startsWith('x-') ? name.slice(2) : name
    const field = new Field(`$header.${name}`, [shown], headerIdWorth(name), false)
    this.fields.set(name, field)
    return field
  }
}

function isWanted(name: string): boolean {
  if (headerIdWorth(name) > 0) return true
  const words = wordsOf(name)
  if (words.length < 2 || words.some(word => ELSEWHERE.has(word))) return false
  return EVENT_ENDS.has(words.at(-1)!) || (words[0] === 'x' && words.at(-1) === 'id')
}
