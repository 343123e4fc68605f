/** Which columns the fields of a file fill, which they do not, and what the client is told. */
import { expect, test } from 'vitest'
import { propertyFacts } from '../../../src/format/json-property.ts'
import type { ColumnType, SchemaColumn } from '../../../src/format/schema.ts'
import type { Naming } from '../../../src/parse/import/naming.ts'
import { shapeOf } from '../../../src/parse/import/row-shape.ts'
import { integersFrom, newSeed } from '../../util/random.ts'
import { cut, readImport } from './reading.ts'

const column = (name: string, jsonProperty = name, type: ColumnType = 'STRING'): SchemaColumn =>
  ({ name, jsonProperty, type, required: false, ...propertyFacts(jsonProperty) }) as SchemaColumn

const ORDERS = [column('id'), column('amount', 'order.amount', 'INT64'), column('unit price')]
const named = (more: Partial<Naming>): Naming => ({ map: [], ignoreUnknown: false, ...more })
const csv = (text: string, columns: readonly SchemaColumn[], naming = named({})) =>
  readImport([Buffer.from(text)], { format: 'csv', columns, naming })
const ndjson = (text: string, columns: readonly SchemaColumn[], naming = named({})) =>
  readImport([Buffer.from(text)], { columns, naming })
const events = ({ events: given }: { events: readonly string[] }) =>
  given.map(event => event.replace(/^\d+:\d+:/, ''))

test.each([
  ['id,Amount', 'Amount', 'amount'],
  ['id, amount', ' amount', 'amount'],
  ['id,amount ', 'amount ', 'amount'],
  ['id,order_amount', 'order_amount', 'amount'],
  ['id,Order.Amount', 'Order.Amount', 'amount'],
  ['id,data.amount', 'data.amount', 'amount'],
  ['id,amout', 'amout', 'amount'],
  ['id,data.order.amount', 'data.order.amount', 'amount'],
  ['id,amount,DATA.Unit price.', 'DATA.Unit price.', 'unit price'],
  ['id,amount,unit_price', 'unit_price', 'unit price'],
  ['id,amount,UnitPrice', 'UnitPrice', 'unit price'],
  ['ID,amount', 'ID', 'id'],
  ['id,amount,_Service_Payload', '_Service_Payload', '_service_payload'],
])('the header %j is refused before its first row, and may be settled', async (header, field, name) => {
  const text = `${header}\n${header.replaceAll(/[^,]+/g, '5')}\n`
  const got = await csv(text, ORDERS)
  expect([got.broken, got.events]).toEqual(['unknown_header', []])
  expect(got.brokenMessage).toContain(`the header ${JSON.stringify(field)} is no column, and nothing fills`)
  expect(got.brokenMessage).toContain(`--map ${JSON.stringify(`${field}=${name}`)}`)
  const ignored = await csv(text, ORDERS, named({ ignoreUnknown: true }))
  expect(ignored.compared?.unknownFields).toContainEqual({ field, column: name })
  if (name.startsWith('_')) return
  const mapped = await csv(text, ORDERS, named({ map: [[field, name]] }))
  expect([mapped.broken, mapped.compared?.unknownFields]).toEqual([undefined, []])
  expect(mapped.compared?.unfilledColumns).not.toContain(name)
})

test.each([
  ['id;amount', '";"'],
  ['Id\tAmount\tother', '"\\t"'],
  ['x|id', '"|"'],
])('the separator of %j is refused by name', async (header, sign) => {
  const got = await csv(`${header}\n`, ORDERS)
  expect([got.broken, got.brokenMessage]).toEqual(['unknown_header', expect.stringContaining(sign)])
})

test.each([
  ['id,note', ['note'], ['amount', 'unit price']],
  // The column is filled, so its other form is a field of its own.
  ['amount,Amount,id', ['Amount'], ['unit price']],
  ['id,line3', ['line3'], ['amount', 'unit price']],
  ['id,am', ['am'], ['amount', 'unit price']],
])('%j is taken, and what has no counterpart is told', async (header, unknown, unfilled) => {
  const got = await csv(`${header}\n`, ORDERS)
  expect([got.broken, got.compared]).toEqual([
    undefined,
    { unknownFields: unknown.map(field => ({ field, column: null })), unfilledColumns: unfilled },
  ])
})

test('a path in a name, and letters whose capitals are two', async () => {
  const columns = [column('id'), column('order.no', 'p_1'), column('größe')]
  const got = await csv('id,data.order.no,GRÖSSE\n', columns, named({ ignoreUnknown: true }))
  expect(got.compared?.unknownFields).toEqual([
    { field: 'data.order.no', column: 'order.no' },
    { field: 'GRÖSSE', column: 'größe' },
  ])
})

test('numbers in names tell columns apart', async () => {
  const got = await csv('line1,line3\n', [column('line1'), column('line2')])
  expect(got.compared?.unknownFields).toEqual([{ field: 'line3', column: null }])
})

test('a column inside an object of the file is filled, and one around dotted headers', () => {
  const columns = [
    column('amount', 'order.amount'),
    column('address', 'address', 'JSON'),
    column('sku', 'items[0].sku'),
  ]
  const nested = new Set(['order', 'items'])
  const { compared } = shapeOf(['order', 'items', 'address'], columns, undefined, nested)
  expect(compared).toEqual({ unknownFields: [], unfilledColumns: [] })
  const dotted = [column('address', 'address', 'JSON'), column('city', 'address.city')]
  expect(shapeOf(['address.city'], dotted).compared).toEqual({ unknownFields: [], unfilledColumns: [] })
  expect(() => shapeOf(['Order'], columns, undefined, new Set(['Order']))).toThrow('"Order=amount"')
})

test('a mapped field that is a column of an export is its payload', async () => {
  const got = await csv('doc,x\n"{""id"":""a""}",1\n', ORDERS, named({ map: [['doc', '_service_payload']] }))
  expect([events(got), got.compared?.unfilledColumns]).toEqual([['{"id":"a"}'], ['amount', 'unit price']])
  const rows = '{"doc":{"id":"a"},"x":1}\n{"doc":5}\n'
  const lines = await ndjson(rows, ORDERS, named({ map: [['doc', '_service_payload']] }))
  expect([events(lines), lines.refused]).toEqual([['{"id":"a"}'], ['2:2:not_object']])
})

test('a map with a field that the header lacks is refused, unless that is said to be right', async () => {
  const map = [['Totla', 'amount']] as const
  const got = await csv('id,Total\n', ORDERS, named({ map }))
  expect([got.broken, got.brokenMessage]).toEqual([
    'unknown_header',
    expect.stringContaining('the map has the field "Totla", which is no header of the file'),
  ])
  expect((await csv('id,Total\n', ORDERS, named({ map, ignoreUnknown: true }))).broken).toBeUndefined()
})

test('by says whether a header is a column or a property', async () => {
  const columns = [column('a', 'b'), column('b', 'a')]
  expect((await csv('a,b\n1,2\n', columns)).broken).toBe('bad_header')
  expect(events(await csv('a,b\n1,2\n', columns, named({ by: 'column' })))).toEqual(['{"b":"1","a":"2"}'])
  expect(events(await csv('a,b\n1,2\n', columns, named({ by: 'property' })))).toEqual(['{"a":"1","b":"2"}'])
})

test('NDJSON that is named by columns is told, and comes back by=column byte for byte', async () => {
  const row = '{ "id":"a", "amount" : 5.0e0,"unit price":"\\u0041é","extra":{"a": [1 ]}, "id":"last"}'
  const plain = await ndjson(`${row}\n`, ORDERS)
  expect(events(plain)).toEqual([row])
  expect(plain.compared).toEqual({
    unknownFields: [
      { field: 'amount', column: 'amount' },
      { field: 'extra', column: null },
    ],
    unfilledColumns: ['amount'],
  })
  const got = await ndjson(`${row}\r\n[1]\n{}\nno\n{"id":1} x\n`, ORDERS, named({ by: 'column' }))
  expect(events(got)).toEqual([
    '{"id":"last","order":{"amount":5.0e0},"unit price":"\\u0041é","extra":{"a": [1 ]}}',
    '{}',
  ])
  expect(got.refused).toEqual(['2:2:not_object', '4:4:not_json', '5:5:not_json'])
  expect(got.compared?.unfilledColumns).toEqual([])
  const mapped = await ndjson('{"Total":1,"id":"a"}\n', ORDERS, named({ map: [['Total', 'amount']] }))
  expect(events(mapped)).toEqual(['{"order":{"amount":1},"id":"a"}'])
})

test('a row that is too long as an event is refused alone', async () => {
  const long = `{"a":"${'x'.repeat(1_048_318 - 8)}"}`
  const columns = [column('a', 'b.c')]
  const got = await ndjson(`${long}\n{"a":"y"}\n`, columns, named({ by: 'column' }))
  expect([got.refused, events(got)]).toEqual([['1:1:row_too_long'], ['{"b":{"c":"y"}}']])
})

test('rows of random fields are the same events whatever the pieces are', async () => {
  const seed = newSeed()
  const integer = integersFrom(seed)
  const names = Array.from({ length: 8 }, (_, index) => `c${index} "é"`)
  const columns = names.map((name, index) => column(name, index % 2 === 0 ? name : `o${index % 3}.p${index}`))
  const rows = Array.from({ length: 300 }, () => {
    const chosen = names.filter(() => integer(3) > 0)
    return Object.fromEntries(chosen.map(name => [name, [null, 1, 'é"', { x: [] }][integer(4)]]))
  })
  const body = Buffer.from(rows.map(row => JSON.stringify(row)).join('\n'))
  const got = await readImport(cut(body, 1 + integer(50)), { columns, naming: named({ by: 'column' }) })
  const wanted = rows.map(row => {
    const event: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(row)) {
      const [first = '', second] = columns[names.indexOf(name)]!.jsonProperty.split('.')
      if (second === undefined) event[first] = value
      else event[first] = { ...(event[first] as object | undefined), [second]: value }
    }
    return event
  })
  expect({ seed, rows: events(got).map(event => JSON.parse(event) as unknown) }).toEqual({
    seed,
    rows: wanted,
  })
})

test('1,000 events are compared, and no row behind them', async () => {
  const body = `${'{"id":"a"}\n'.repeat(1_000)}{"Amount":1}\n`
  expect((await ndjson(body, ORDERS)).compared?.unknownFields).toEqual([])
  expect((await ndjson(body.slice(11), ORDERS)).compared?.unknownFields).toEqual([
    { field: 'Amount', column: 'amount' },
  ])
})
