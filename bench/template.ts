/**
 * Bodies of which each request's are distinct: one text with marks where ids and times stand.
 *
 *   id     evt- + 8 digits of the producer + 9 of the request + 3 of the event in it, as eventId() forms it
 *   time   one for all events of a request
 *
 * bench/load.lua fills in the marks for wrk; Body overwrites digits in one buffer for the generator in Node: some 50 µs for 500 events.
 */
import { benchEvents, eventId } from './events.ts'

/** `array`: one JSON array; `lines`: an object a line (ClickHouse). */
export type BodyForm = 'array' | 'lines'

const ID_MARK = '\u0001'
const TIME_MARK = '\u0002'
const MARKS = new RegExp(`([${ID_MARK}${TIME_MARK}])`)
const ID_DIGITS = 20
const TIME_TEXT = '2026-01-01T00:00:00.000Z'
const REQUEST_DIGITS = 9
const EVENT_DIGITS = 3

/** A body with marks in place of the digits of each id and of each time. */
export function template(events: number, form: BodyForm): string {
  const bodies = benchEvents(events).map((event, index) =>
    event.replace(eventId(0, index), `evt-${ID_MARK}`).replace(/"time":"[^"]+"/, `"time":"${TIME_MARK}"`),
  )
  return form === 'array' ? `[${bodies.join(',')}]` : `${bodies.join('\n')}\n`
}

/** What a filled-in body has in bytes. */
export function bodyBytes(text: string, events: number): number {
  return Buffer.byteLength(text) + events * (ID_DIGITS - 1 + TIME_TEXT.length - 1)
}

/** One request's bytes, `head` and `memtable` around a body whose ids and times are overwritten again and again. */
export class Body {
  readonly bytes: Buffer
  readonly #requests: number[] = []
  readonly #times: number[] = []

  constructor(
    text: string,
    producer: number,
    head: string | Uint8Array,
    memtable: Uint8Array = new Uint8Array(0),
  ) {
    const parts: Buffer[] = [Buffer.from(head)]
    let at = parts[0]!.byteLength
    const add = (piece: string) => {
      const bytes = Buffer.from(piece)
      parts.push(bytes)
      at += bytes.byteLength
    }
    let event = 0
    for (const piece of text.split(MARKS)) {
      if (piece === ID_MARK) {
        add(String(producer).padStart(ID_DIGITS - REQUEST_DIGITS - EVENT_DIGITS, '0'))
        this.#requests.push(at)
        add('0'.repeat(REQUEST_DIGITS) + String(event++).padStart(EVENT_DIGITS, '0'))
      } else if (piece === TIME_MARK) {
        this.#times.push(at)
        add(TIME_TEXT)
      } else add(piece)
    }
    this.bytes = Buffer.concat([...parts, memtable])
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
