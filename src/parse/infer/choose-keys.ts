/**
 * Which field names an event, and which says when it happened, by its name: a retry must bring the
 * same two again. So a delivery's or an event's id goes before the id of the object that the event
 * is about, and the time of the event goes before the time at which it was sent.
 */
import { wordsOf } from './words.ts'

/** Headers that hold the same id in every try of a delivery, the best first. */
const DELIVERY_HEADERS = [
  'x-github-delivery',
  'x-gitea-delivery',
  'x-shopify-webhook-id',
  'idempotency-key',
  'linear-delivery',
  'twitch-eventsub-message-id',
  'x-atlassian-webhook-identifier',
  'i-twilio-idempotency-token',
  'x-amz-sns-message-id',
  'webhook-id',
  'svix-id',
  'ce-id',
]
/** Words at the end of a header that names a delivery or an event. */
const DELIVERY_ENDS = ['delivery', 'delivery id', 'event id', 'message id', 'idempotency key']

/** How surely a header names its event: 0 where it does not. */
export function headerIdWorth(header: string): number {
  const place = DELIVERY_HEADERS.indexOf(header)
  if (place >= 0) return 200 - place
  const words = wordsOf(header).join(' ')
  return DELIVERY_ENDS.some(end => words.endsWith(` ${end}`)) ? 92 : 0
}

const ID_WORTH: Readonly<Record<string, number>> = {
  'event id': 100,
  'event uuid': 100,
  'message id': 98,
  'delivery id': 98,
  'notification id': 98,
  'idempotency key': 98,
  'message sid': 90,
  uuid: 88,
  guid: 88,
  ulid: 88,
  id: 86,
}
/** Objects that are events: `event.id` is the id of one. */
const EVENT_OBJECTS = new Set(['event', 'event data', 'message', 'notification', 'action', 'delivery'])

/** How surely the field at the end of a path names its event: 0 where it does not. */
export function idWorth(names: readonly string[]): number {
  const words = wordsOf(names.at(-1)!)
  const last = words.at(-1)
  const depth = names.length - 1
  const parent = depth > 0 ? wordsOf(names.at(-2)!) : []
  const isOfEvent = EVENT_OBJECTS.has(parent.at(-1) ?? '') || EVENT_OBJECTS.has(parent.join(' '))
  const worth = ID_WORTH[words.slice(-2).join(' ')] ?? 0
  // `data.id` is the id of what the event is about, `event.id` its own.
  if (worth > 0) return depth === 0 || isOfEvent ? worth - 2 * depth : 50 - 5 * depth
  return last === 'id' || last === 'sid' || last === 'uuid' ? 30 - 5 * depth : 0
}

const TIME_WORTH: Readonly<Record<string, number>> = {
  'occurred at': 100,
  'event time': 100,
  'event timestamp': 100,
  'event ts': 100,
  timestamp: 96,
  'ce time': 96,
  'triggered at': 96,
  'created at': 92,
  created: 92,
  'create time': 92,
  'created on': 92,
  time: 88,
  ts: 88,
  'published at': 86,
  published: 86,
  'submitted at': 86,
  date: 84,
  'started at': 60,
  'completed at': 50,
  'ended at': 50,
}
/**
 * A retry may bring another time under names with these words, and the next event of an object
 * does.
 */
const UNSTABLE = new Set(
  'sent delivered received attempted attempt retry expires expiry expiration expire next updated modified last signature'.split(
    ' ',
  ),
)

/** How surely the time at the end of a path is that of the event: 0 where it is another time. */
export function timeWorth(names: readonly string[]): number {
  if (names.some(name => wordsOf(name).some(word => UNSTABLE.has(word)))) return 0
  const words = wordsOf(names.at(-1)!)
  const depth = names.length - 1
  return (TIME_WORTH[words.slice(-2).join(' ')] ?? 20) - 5 * depth
}
