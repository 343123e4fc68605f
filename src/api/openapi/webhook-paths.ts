/** The paths of webhooks in the OpenAPI document: events, deletions and handshakes. */
import { EVENTS_MAX } from '../../util/limits.ts'
import { answer, emptyAnswer, operation, type Refused } from './operation.ts'
import { anyObject, type Json, list, ref, schema, text } from './schema.ts'

const OPEN_OR_BASIC: readonly Json[] = [{}, { webhook: [] }]
const COUNTS = ['X-Events-Accepted', 'X-Events-Rejected']
const EVENTS: Json = { anyOf: [schema('Event'), list(schema('Event'), { maxItems: EVENTS_MAX })] }
const BODIES = {
  'application/json': EVENTS,
  'application/x-ndjson': text,
  'application/cloudevents+json': EVENTS,
  'application/cloudevents-batch+json': EVENTS,
  'application/x-www-form-urlencoded': text,
  'text/plain': text,
}

const STORED =
  'Each event that is reported as accepted is in the log, and the log is synced. Invalid events are reported in their places.'
const POST_TEXT =
  'Forms, text, PUT, PATCH, OPTIONS and a path behind the id are taken where `accept` of the source has them. A source with a signature checks it: 401 `signature_…`. Every answer to a body that was read has the headers of the counts.'

const REFUSED: readonly Refused[] = [400, 401, 404, 408, 413, 415, 429, 500, 503]

/** What a source that answers handshakes says to one. */
const HANDSHAKE: Json = { 'text/plain': text, 'application/json': anyObject }

/** @param suffix makes the operationIds of another path their own */
function webhook(suffix: string, more: readonly Json[]): Json {
  const parameters = [ref('parameters', 'Webhook'), ...more]
  const stores = (id: string, summary: string, refused: readonly Refused[]) => {
    const content = { ...HANDSHAKE, 'application/json': { anyOf: [schema('EventAnswers'), anyObject] } }
    return operation(`${id}${suffix}`, 'webhooks', summary, {
      text: POST_TEXT,
      body: BODIES,
      needsBody: true,
      parameters: [...parameters, ...SETTINGS],
      security: OPEN_OR_BASIC,
      answers: {
        200: answer(`${STORED} A handshake has an answer of its own.`, content, [
          ...COUNTS,
          'Preference-Applied',
        ]),
        204: emptyAnswer('The answer to a handshake of Discord.'),
      },
      refused,
    })
  }
  const asks = (
    method: string,
    summary: string,
    answers: Readonly<Record<number, Json>>,
    refused: Refused[],
  ) => operation(`${method}Webhook${suffix}`, 'webhooks', summary, { parameters, answers, refused })
  return {
    post: stores('postEvents', 'Store events', REFUSED),
    put: stores('putEvents', 'Store events, as POST', [...REFUSED, 405]),
    patch: stores('patchEvents', 'Store events, as POST', [...REFUSED, 405]),
    delete: operation(`deleteRecords${suffix}`, 'webhooks', 'Delete records by key', {
      text: 'Each object holds the columns of the key, under the properties that the pool names. A missing record is no error.',
      body: { 'application/json': EVENTS, 'application/x-ndjson': text },
      needsBody: true,
      parameters: [...parameters, ...SETTINGS],
      security: OPEN_OR_BASIC,
      answers: {
        200: answer(STORED, { 'application/json': schema('EventAnswers') }, [
          ...COUNTS,
          'Preference-Applied',
        ]),
      },
      refused: [...REFUSED, 405],
    }),
    get: asks(
      'get',
      'A handshake in the query',
      { 200: answer('The challenge.', HANDSHAKE) },
      [403, 404, 405, 503],
    ),
    head: asks(
      'head',
      'A handshake of Trello',
      { 200: emptyAnswer('The webhook is there.') },
      [404, 405, 503],
    ),
    options: asks(
      'options',
      'CORS preflight, or a handshake of CloudEvents',
      {
        200: emptyAnswer('Senders of CloudEvents may post.', ['Allow']),
        204: emptyAnswer('Pages may post.', ['Access-Control-Allow-Methods']),
      },
      [404, 405, 503],
    ),
  }
}

const SETTINGS = [
  ref('parameters', 'PartialSuccess'),
  ref('parameters', 'Prefer'),
  ref('parameters', 'Encoding'),
]
const SUBPATH: Json = {
  name: 'path',
  in: 'path',
  required: true,
  schema: text,
  description: 'Any path, also one with slashes.',
}

export const WEBHOOK_PATHS: Json = {
  '/v1/{webhook_id}': webhook('', []),
  '/v1/{webhook_id}/{path}': webhook('AtPath', [SUBPATH]),
}
