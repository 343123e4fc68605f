/**
 * Pools of other senders: rows whose values stand in headers or in the query, and events that come
 * as lines, as a form, or wrapped and signed. A request belongs to one client, so a header may name
 * it: a row that a recovery reads without its header is not that client's row.
 */
import { createHmac } from 'node:crypto'

/** How a pool's requests are sent. */
export interface Sender {
  /** Events of one request. */
  readonly eventsMax: number
  encode(method: 'POST' | 'DELETE', events: readonly Record<string, unknown>[], client: string): Encoded
  /** Headers that sign the bytes as they are sent. */
  sign?(method: string, bytes: Uint8Array): Record<string, string>
}

interface Encoded {
  readonly body: string
  /** Parameters of the URL. */
  readonly query?: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

const JSON_TYPE = { 'content-type': 'application/json' }

/** One event comes as an object, or as an array of one. */
function asJson(events: readonly Record<string, unknown>[]): string {
  const isAlone = events.length === 1 && Number(events[0]?.['stamp'] ?? 0) % 3 !== 1
  return JSON.stringify(isAlone ? events[0] : events)
}

export const PLAIN: Sender = {
  eventsMax: 500,
  encode: (_, events) => ({ body: asJson(events), headers: JSON_TYPE }),
}

/** The column `client` reads a header. A DELETE brings it as a property. */
export const IN_HEADERS: Sender = {
  eventsMax: 500,
  encode: (_, events, client) => ({ body: asJson(events), headers: { ...JSON_TYPE, 'x-client': client } }),
}

/** NDJSON; the column `client` reads a parameter. */
export const LINES: Sender = {
  eventsMax: 500,
  encode: (_, events, client) => ({
    body: events.map(event => JSON.stringify(event)).join('\n'),
    query: { client },
    headers: { 'content-type': 'application/x-ndjson' },
  }),
}

/** A form is one event, whose values are texts. */
export const FORM: Sender = {
  eventsMax: 1,
  encode: (method, events) =>
    method === 'DELETE'
      ? { body: asJson(events), headers: JSON_TYPE }
      : {
          body: new URLSearchParams(
            Object.entries(events[0] ?? {}).map(([name, value]): [string, string] => [name, String(value)]),
          ).toString(),
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        },
}

export const SECRET = 'a-secret-of-32-characters-or-so-'

/** Events at a path of the body, signed with the method, so that a DELETE is taken too. */
export const SIGNED: Sender = {
  eventsMax: 500,
  encode: (method, events) => ({
    body: method === 'DELETE' ? asJson(events) : JSON.stringify({ data: { items: events } }),
    headers: JSON_TYPE,
  }),
  sign: (method, bytes) => ({
    'x-signature': createHmac('sha256', SECRET).update(`${method}.`).update(bytes).digest('hex'),
  }),
}
