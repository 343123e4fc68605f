/**
 * Parquet files with any physical and logical type, as the format's Thrift definition numbers them:
 * DuckDB writes its own types alone. One row group, one plain page a column.
 */

// Types of Thrift's compact protocol.
const [TRUE, FALSE, BYTE, I32, I64, BINARY, LIST, STRUCT] = [1, 2, 3, 5, 6, 8, 9, 12]
type Field = readonly [id: number, type: number, bytes: Buffer]

/** The physical types, in the order of their numbers. */
const PHYSICAL = [
  'BOOLEAN',
  'INT32',
  'INT64',
  'INT96',
  'FLOAT',
  'DOUBLE',
  'BYTE_ARRAY',
  'FIXED_LEN_BYTE_ARRAY',
] as const
type Physical = (typeof PHYSICAL)[number]

export interface Leaf {
  readonly physical: Physical
  /** A member of Thrift's LogicalType. */
  readonly logical?: Field
  readonly converted?: number
  readonly precision?: number
  readonly scale?: number
}

/** A required column, with its values as a plain page has them: a BYTE_ARRAY without lengths. */
export interface Column extends Leaf {
  readonly values: readonly Buffer[]
}

/** A file of these columns, which have equally many values. */
export function parquetFile(columns: Readonly<Record<string, Column>>): Buffer {
  const parts: Buffer[] = [Buffer.from('PAR1')]
  const chunks: Buffer[] = []
  let end = 4
  const rows = int(Object.values(columns)[0]!.values.length)
  for (const [name, column] of Object.entries(columns)) {
    const page = pageOf(column)
    const meta = struct([
      [1, I32, int(PHYSICAL.indexOf(column.physical))],
      [2, LIST, list(I32, [int(0)])],
      [3, LIST, list(BINARY, [text(name)])],
      [4, I32, int(0)],
      [5, I64, rows],
      [6, I64, int(page.length)],
      [7, I64, int(page.length)],
      [9, I64, int(end)],
    ])
    chunks.push(
      struct([
        [2, I64, int(end)],
        [3, STRUCT, meta],
      ]),
    )
    parts.push(page)
    end += page.length
  }
  const elements = Object.entries(columns).map(([name, column]) => elementOf(name, column))
  const root = struct([
    [4, BINARY, text('root')],
    [5, I32, int(elements.length)],
  ])
  const rowGroup = struct([
    [1, LIST, list(STRUCT, chunks)],
    [2, I64, int(end - 4)],
    [3, I64, rows],
  ])
  const footer = struct([
    [1, I32, int(2)],
    [2, LIST, list(STRUCT, [root, ...elements])],
    [3, I64, rows],
    [4, LIST, list(STRUCT, [rowGroup])],
  ])
  return Buffer.concat([...parts, footer, u32(footer.length), Buffer.from('PAR1')])
}

function pageOf({ physical, values }: Column): Buffer {
  const isBytes = physical === 'BYTE_ARRAY'
  const page = Buffer.concat(isBytes ? values.flatMap(one => [u32(one.length), one]) : values)
  const plain = struct([1, 2, 3, 4].map(id => [id, I32, int([values.length, 0, 3, 3][id - 1]!)]))
  const bytes = int(page.length)
  return Buffer.concat([
    struct([
      [1, I32, int(0)],
      [2, I32, bytes],
      [3, I32, bytes],
      [5, STRUCT, plain],
    ]),
    page,
  ])
}

function elementOf(name: string, { physical, converted, scale, precision, logical, values }: Column): Buffer {
  const isFixed = physical === 'FIXED_LEN_BYTE_ARRAY'
  return struct([
    [1, I32, int(PHYSICAL.indexOf(physical))],
    ...(isFixed ? [[2, I32, int(values[0]!.length)] as const] : []),
    [3, I32, int(0)],
    [4, BINARY, text(name)],
    ...(converted === undefined ? [] : [[6, I32, int(converted)] as const]),
    ...(scale === undefined ? [] : [[7, I32, int(scale)] as const]),
    ...(precision === undefined ? [] : [[8, I32, int(precision)] as const]),
    ...(logical === undefined ? [] : [[10, STRUCT, struct([logical])] as const]),
  ])
}

/** A member of LogicalType that has no fields. */
export const plainType = (id: number): Field => [id, STRUCT, struct([])]

/** TIME (7) and TIMESTAMP (8). @param unit 1 for ms, 2 for µs, 3 for ns */
export const timeType = (id: 7 | 8, isUtc: boolean, unit: 1 | 2 | 3): Field => [
  id,
  STRUCT,
  struct([
    [1, isUtc ? TRUE : FALSE, Buffer.alloc(0)],
    [2, STRUCT, struct([plainType(unit)])],
  ]),
]

export const integerType = (bits: number, isSigned: boolean): Field => [
  10,
  STRUCT,
  struct([
    [1, BYTE, Buffer.from([bits])],
    [2, isSigned ? TRUE : FALSE, Buffer.alloc(0)],
  ]),
]

export const decimalType = (precision: number, scale: number): Leaf => ({
  physical: 'FIXED_LEN_BYTE_ARRAY',
  converted: 5,
  precision,
  scale,
  logical: [
    5,
    STRUCT,
    struct([
      [1, I32, int(scale)],
      [2, I32, int(precision)],
    ]),
  ],
})

/** A two's complement number, the highest byte first. */
export function bigEndian(value: bigint, bytes: number): Buffer {
  const hex = BigInt.asUintN(8 * bytes, value).toString(16)
  return Buffer.from(hex.padStart(2 * bytes, '0'), 'hex')
}

function struct(fields: readonly Field[]): Buffer {
  let last = 0
  const parts = fields.map(([id, type, bytes]) => {
    const isNear = id - last < 16
    const head = isNear
      ? Buffer.from([((id - last) << 4) | type])
      : Buffer.concat([Buffer.from([type]), int(id)])
    last = id
    return Buffer.concat([head, bytes])
  })
  return Buffer.concat([...parts, Buffer.from([0])])
}

function list(type: number, items: readonly Buffer[]): Buffer {
  const { length } = items
  const head =
    length < 15 ? [Buffer.from([(length << 4) | type])] : [Buffer.from([0xf0 | type]), varint(length)]
  return Buffer.concat([...head, ...items])
}

/** A zigzag integer. */
function int(value: number): Buffer {
  return varint(2 * value)
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let left = value
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) | 128)
  return Buffer.from([...bytes, left])
}

function text(value: string): Buffer {
  return Buffer.concat([varint(Buffer.byteLength(value)), Buffer.from(value)])
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
