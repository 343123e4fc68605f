/**
 * Bodies that differ from request to request: one text with placeholders for ids and times.
 *
 *   id     evt- + 8 digits of the producer + 9 of the request + 3 of the event in it, like
 *          eventId()
 *   time   one for all events of a request
 *
 * For wrk, bench/load.lua replaces the placeholders. For the generator in Node, Body overwrites
 * digits in one buffer: about 50 µs for 500 events.
 */
import { benchEvents, eventId } from './events.ts'

/**
 * `array`: one JSON array; `lines`: an object a line (ClickHouse); `payload`: the same, each with
 * its own text in a property more.
 */
export type BodyForm = 'array' | 'lines' | 'payload'

const ID_PLACE = '\u0001'
const TIME_PLACE = '\u0002'
const PLACES = new RegExp(`([${ID_PLACE}${TIME_PLACE}])`)
const ID_DIGITS = 20
const TIME_TEXT = '2026-01-01T00:00:00.000Z'
const REQUEST_DIGITS = 9
const EVENT_DIGITS = 3

/** A body with placeholders for the digits of each id and for each time. */
export function template(events: number, form: BodyForm): string {
  const bodies = benchEvents(events).map((event, index) => {
    const line = form === 'payload' ? `${event.slice(0, -1)},"payload":${JSON.stringify(event)}}` : event
    return line
      .replace(eventId(0, index), `evt-${ID_PLACE}`)
      .replace(/"time":"[^"]+"/, `"time":"${TIME_PLACE}"`)
  })
  return form === 'array' ? `[${bodies.join(',')}]` : `${bodies.join('\n')}\n`
}

/** Bytes of a body with ids and times. */
export function bodyBytes(text: string, events: number): number {
  return Buffer.byteLength(text) + events * (ID_DIGITS - 1 + TIME_TEXT.length - 1)
}

/**
 * The bytes of one request: `head`, a body whose ids and times are overwritten each time, and
 * `end`.
 */
export class Body {
  readonly bytes: Buffer
  readonly #requests: number[] = []
  readonly #times: number[] = []

  constructor(
    text: string,
    producer: number,
    head: string | Uint8Array,
    end: Uint8Array = new Uint8Array(0),
  ) {
    const parts: Buffer[] = [Buffer.from(head)]
    let at = parts[0]!.byteLength
    const add = (piece: string) => {
      const bytes = Buffer.from(piece)
      parts.push(bytes)
      at += bytes.byteLength
    }
    let event = 0
    for (const piece of text.split(PLACES)) {
      if (piece === ID_PLACE) {
        add(String(producer).padStart(ID_DIGITS - REQUEST_DIGITS - EVENT_DIGITS, '0'))
        this.#requests.push(at)
        add('0'.repeat(REQUEST_DIGITS) + String(event++).padStart(EVENT_DIGITS, '0'))
      } else if (piece === TIME_PLACE) {
        this.#times.push(at)
        add(TIME_TEXT)
      } else add(piece)
    }
    this.bytes = Buffer.concat([...parts, end])
  }

  /** Makes it the body of request `number`, below 10⁹, whose events happened at `ms`. */
  set(number: number, ms: number): void {
    this.#overwrite(this.#requests, String(number).padStart(REQUEST_DIGITS, '0'))
    this.#overwrite(this.#times, new Date(ms).toISOString())
  }

  #overwrite(places: readonly number[], text: string): void {
    const { bytes } = this
    const codes = Buffer.from(text, 'latin1')
    for (const place of places) for (let i = 0; i < codes.length; i++) bytes[place + i] = codes[i]!
  }
}
