/**
 * Reads the `jsonProperty` of a new column: where its values stand.
 *
 *   a.b                 through objects
 *   items[0].sku        through arrays too
 *   $.sent_at           of the body around the events, where the source has an eventsPath
 *   $header.x-shop-id   a header of the request
 *   $query.shop         a parameter of its query
 *   $path               its path behind the webhook's id
 *
 * The result is stored with the column. A column that was made before these forms existed keeps the
 * meaning that it had: its property is a path through objects.
 */
import type { SchemaColumn } from './schema.ts'

/** The fields of a column that follow from its property. */
type PropertyFacts = Pick<SchemaColumn, 'from' | 'path'>

/** An index has at most four digits: a body has no room for an array of more elements. */
const INDEX = /\[(\d{1,4})\]/g
const STEP_WITH_INDEXES = /^([^[\]]+)((?:\[\d{1,4}\])+)$/
/** A header's name is a token (RFC 9110, 5.6.2). */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Headers by which a request may do more than bring its events. */
const CREDENTIALS: readonly string[] = ['authorization', 'proxy-authorization', 'cookie', 'x-gitlab-token']

const BODY = '$.'
const HEADER = '$header.'
const QUERY = '$query.'
const REQUEST_PATH = '$path'

/** The part of a request that a column reads. `name` is lower case for a header. */
export type RequestPart = { readonly in: 'header' | 'query'; readonly name: string } | { readonly in: 'path' }

/** Facts of a property as it is given for a new column, or the reason why it is refused. */
export function propertyFacts(jsonProperty: string): PropertyFacts | { readonly badRequest: string } {
  if (jsonProperty.startsWith(BODY)) return { from: 'body' }
  const part = requestPartOf(jsonProperty)
  if (part === 'malformed')
    return {
      badRequest: `The JSON property "${jsonProperty}" names no header or parameter: write "$header.<name>", "$query.<name>" or "$path".`,
    }
  if (part?.in === 'header' && CREDENTIALS.includes(part.name))
    return {
      badRequest: `The JSON property "${jsonProperty}" names a header with credentials, which are not stored.`,
    }
  if (part !== undefined) return { from: 'request' }
  return eventPath(jsonProperty)
}

/** The path of a property that reads the event, where it goes through arrays. */
function eventPath(jsonProperty: string): Pick<PropertyFacts, 'path'> {
  const path = pathThroughArrays(jsonProperty)
  return path === undefined ? {} : { path }
}

/** What a property with `from: 'body'` reads, from the root of the body. */
export function bodyProperty(jsonProperty: string): Pick<SchemaColumn, 'jsonProperty' | 'path'> {
  const ofBody = jsonProperty.slice(BODY.length)
  return { jsonProperty: ofBody, ...eventPath(ofBody) }
}

/** A step of `$.…`: a name, and indexes of arrays. Brackets and bars are kept for later forms. */
const BODY_STEP = /^[^[\]|]+(?:\[\d{1,4}\])*$/

/** Why a column cannot read this of the body; undefined where it can. */
export function bodyPropertyProblem(jsonProperty: string, eventsPath: string | null): string | undefined {
  const what = `The JSON property "${jsonProperty}" begins with "$.", the body around the events`
  const ofBody = jsonProperty.slice(BODY.length)
  if (eventsPath === null)
    return `${what}, and this source has no eventsPath: of the event itself write "${ofBody}".`
  const steps = ofBody.split('.')
  if (!steps.every(step => BODY_STEP.test(step)))
    return `${what}, but no path follows: it has names with dots between them, and indexes, such as "$.sent_at" or "$.meta.ids[0]".`
  const events = eventsPath.split('.')
  const names = steps.map(step => step.replace(INDEX, ''))
  const holdsEvents = names.every((name, index) => index >= events.length || name === events[index])
  return holdsEvents
    ? `${what}, but it leads to the events at "${eventsPath}": of an event write what follows there, without "$.".`
    : undefined
}

/** A column of a source that keeps the envelope, as it reads an event with its envelope. */
export function inEnvelope(column: SchemaColumn, eventsPath: string): SchemaColumn {
  const { from, ...plain } = column
  if (from === 'request') return column
  const { jsonProperty, path = jsonProperty.split('.') } =
    from === 'body' ? bodyProperty(column.jsonProperty) : column
  return { ...plain, path: from === 'body' ? path : [...eventsPath.split('.'), ...path] }
}

/** The part of the request that a column with `from: 'request'` reads. */
export function requestPart(jsonProperty: string): RequestPart {
  const part = requestPartOf(jsonProperty)
  if (part === undefined || part === 'malformed')
    throw new TypeError(`not a part of a request: ${jsonProperty}`)
  return part
}

function requestPartOf(jsonProperty: string): RequestPart | 'malformed' | undefined {
  if (jsonProperty === REQUEST_PATH) return { in: 'path' }
  if (jsonProperty.startsWith(HEADER)) {
    const name = jsonProperty.slice(HEADER.length)
    return HEADER_NAME.test(name) ? { in: 'header', name: name.toLowerCase() } : 'malformed'
  }
  if (!jsonProperty.startsWith(QUERY)) return undefined
  const name = jsonProperty.slice(QUERY.length)
  return name === '' ? 'malformed' : { in: 'query', name }
}

/** The steps of a path with an index; undefined where it has none. */
function pathThroughArrays(jsonProperty: string): (string | number)[] | undefined {
  const steps: (string | number)[] = []
  let hasIndex = false
  for (const text of jsonProperty.split('.')) {
    const [, name, indexes] = STEP_WITH_INDEXES.exec(text) ?? []
    if (name === undefined || indexes === undefined) steps.push(text)
    else {
      hasIndex = true
      steps.push(name, ...[...indexes.matchAll(INDEX)].map(([, digits]) => Number(digits)))
    }
  }
  return hasIndex ? steps : undefined
}
