/**
 * Rows of NDJSON whose fields name columns, as events: `by` and `map` of an import. The fields of a
 * row are the header of one record, and each value keeps its bytes.
 *
 *   {"amount": 5, "id": "a"}  ►  {"order":{"amount":5},"id":"a"}
 */
import type { SchemaColumn } from '../../format/schema.ts'
import { JsonScan } from '../json-scan.ts'
import type { Naming } from './naming.ts'
import { type RowShape, type ShapeNode, shapeOf } from './row-shape.ts'

const QUOTE = 0x22
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const COMMA = 0x2c
/** Shapes that are kept, one for each list of fields. */
const SHAPES_MAX = 256
const [OPEN, CLOSE, BETWEEN] = ['{', '}', ','].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]

export class RenamedRows {
  readonly #columns: readonly SchemaColumn[]
  readonly #naming: Naming
  readonly #scan = new JsonScan()
  readonly #shapes = new Map<string, RowShape>()

  constructor(columns: readonly SchemaColumn[], naming: Naming) {
    this.#columns = columns
    // Fields are properties unless they are said to be columns. Rows are told, and not refused.
    this.#naming = { by: 'property', ...naming, ignoreUnknown: true }
  }

  /**
   * The event of the row in bytes [from, to); undefined where it stays as it is: another check
   * refuses a row that is no JSON object.
   * @throws BodyBroken two fields fill one property
   */
  event(bytes: Buffer, from: number, to: number): Buffer | undefined {
    const fields = this.#fields(bytes, from, to)
    if (fields === undefined) return undefined
    const values = [...fields.values()]
    const { nodes, payload } = this.#shape([...fields.keys()])
    if (payload >= 0) return values[payload]
    const parts: Buffer[] = []
    const write = (members: readonly ShapeNode[]): void => {
      parts.push(OPEN)
      for (const [index, { key, field, children }] of members.entries()) {
        if (index > 0) parts.push(BETWEEN)
        parts.push(key)
        if (field < 0) write(children)
        else parts.push(values[field]!)
      }
      parts.push(CLOSE)
    }
    write(nodes)
    return Buffer.concat(parts)
  }

  #shape(names: readonly string[]): RowShape {
    const list = JSON.stringify(names)
    const known = this.#shapes.get(list)
    if (known !== undefined) return known
    const shape = shapeOf(names, this.#columns, this.#naming)
    if (this.#shapes.size >= SHAPES_MAX) this.#shapes.clear()
    this.#shapes.set(list, shape)
    return shape
  }

  /** The fields with their values; the last one of equal names, as in JSON.parse. */
  #fields(bytes: Buffer, from: number, to: number): Map<string, Buffer> | undefined {
    const scan = this.#scan
    if (!scan.load(bytes, from, to - from) || scan.skipSpace() !== OPEN_OBJECT || !scan.enter())
      return undefined
    const fields = new Map<string, Buffer>()
    if (scan.skipSpace() === CLOSE_OBJECT) return undefined // nothing has a name
    for (;;) {
      scan.skipSpace()
      const start = scan.pos
      if (scan.bytes[start] !== QUOTE || !scan.skipString()) return undefined
      const text = scan.bytes.toString('utf8', start, scan.pos)
      const name = scan.mark === 0 ? text.slice(1, -1) : (JSON.parse(text) as string)
      if (!scan.skipColon()) return undefined
      const value = scan.pos
      if (!scan.skipValue()) return undefined
      fields.set(name, scan.bytes.subarray(value, scan.pos))
      const byte = scan.skipSpace()
      if (byte === CLOSE_OBJECT) break
      if (byte !== COMMA) return undefined
      scan.pos += 1
    }
    scan.leave()
    scan.skipSpace()
    return scan.pos === scan.end ? fields : undefined
  }
}
