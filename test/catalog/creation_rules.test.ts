import { describe, expect, test } from 'vitest'
import type { ColumnInput, NewWebhookSource } from '../../src/catalog/catalog-types.ts'
import { checkCreation } from '../../src/catalog/rules.ts'

function column(name: string, type = 'STRING', jsonProperty = 'p'): ColumnInput {
  return { name, type, jsonProperty, nullable: true }
}

function verdict(input: NewWebhookSource): string {
  const checked = checkCreation(input)
  return 'badRequest' in checked ? checked.badRequest : 'ok'
}

function columnsCheck(columns: readonly ColumnInput[], want: string | RegExp): void {
  expect(verdict({ columns })).toMatch(want)
}

const OK = /^ok$/

describe('names of columns', () => {
  const pairs: readonly [string, string, RegExp][] = [
    ['a', '', /empty name/],
    ['x'.repeat(128), 'x'.repeat(129), /longer than 128 bytes/],
    ['é'.repeat(64), 'é'.repeat(65), /longer than 128 bytes/],
    ['service_x', '_service_x', /reserved/],
    ['_servicex', '_SERVICE_x', /reserved/],
    ['file_row_numbers', 'file_row_number', /reserved/],
    ['file_name', 'filename', /reserved/],
    ['index', 'file_index', /reserved/],
    ['row', 'RowId', /reserved/],
    ['constructor', 'a\u0000b', /NUL/],
    ['__proto__', 'a\ud800', /surrogate/],
    ['with "quotes" and spaces 🙂', '_service_payload', /reserved/],
  ]
  for (const [good, bad, message] of pairs) {
    test(`accepts ${JSON.stringify(good.slice(0, 20))}, refuses ${JSON.stringify(bad.slice(0, 20))}`, () => {
      columnsCheck([column(good)], OK)
      columnsCheck([column(bad)], message)
    })
  }

  test('refuses names that are equal ignoring case', () => {
    columnsCheck([column('amount'), column('amounts')], OK)
    columnsCheck([column('amount'), column('Amount')], /"amount" and "Amount"/)
    columnsCheck([column('a'), column('a')], /same name/)
  })

  test('takes 500 columns, not 501', () => {
    const many = Array.from({ length: 501 }, (_, i) => column(`c${i}`))
    columnsCheck(many.slice(1), OK)
    columnsCheck(many, /at most 500/)
  })
})

describe('what a column holds', () => {
  test('refuses an empty jsonProperty', () => {
    columnsCheck([column('a', 'STRING', 'a.b')], OK)
    columnsCheck([column('a', 'STRING', '')], /empty jsonProperty/)
    columnsCheck([column('a', 'STRING', '\udc00')], /surrogate/)
  })

  test('refuses CLICKHOUSE and unknown types', () => {
    columnsCheck([column('a', 'JSON')], OK)
    columnsCheck([column('a', 'CLICKHOUSE')], /CLICKHOUSE/)
    columnsCheck([column('a', 'UINT8')], /UINT8/)
  })
})

describe('texts that the catalog keeps', () => {
  const cases: readonly [string, number, (text: string) => NewWebhookSource][] = [
    ['uniqueName', 256, uniqueName => ({ uniqueName })],
    ['description', 8_192, description => ({ description })],
    ['basicAuth.username', 1_024, username => ({ basicAuth: { username, password: '' } })],
    ['basicAuth.password', 1_024, password => ({ basicAuth: { username: '', password } })],
    ['jsonProperty', 1_024, text => ({ columns: [column('a', 'STRING', text)] })],
  ]
  for (const [what, bytesMax, given] of cases) {
    test(`bounds ${what}, in bytes, and wants text`, () => {
      expect(verdict(given('é'.repeat(bytesMax / 2)))).toMatch(OK)
      expect(verdict(given(`${'é'.repeat(bytesMax / 2)}x`))).toMatch(`longer than ${bytesMax} bytes`)
      expect(verdict(given('a\ud800'))).toMatch(/surrogate/)
      if (what !== 'jsonProperty') expect(verdict(given('a\u0000'))).toMatch(/NUL/)
    })
  }
})

describe('keys', () => {
  const types = 'BOOLEAN STRING FLOAT DOUBLE INT8 INT16 INT32 INT64 DATE TIMESTAMP JSON'.split(' ')
  const columns = types.map(type => column(`c_${type}`, type))
  for (const type of types) {
    test(`judges a ${type} column as each key`, () => {
      const name = `c_${type}`
      const isTime = type === 'TIMESTAMP' || type === 'DATE'
      expect(verdict({ columns, timestamp: name })).toMatch(isTime ? OK : /cannot be the timestamp/)
      expect(verdict({ columns, uniqueId: name })).toMatch(type === 'JSON' ? /cannot be the uniqueId/ : OK)
      expect(verdict({ columns, tenant: name })).toMatch(type === 'JSON' ? /cannot be the tenant/ : OK)
    })
  }

  test('refuses a key that names no column, also by a property of every object', () => {
    for (const name of ['nope', 'C_STRING', 'constructor', '_service_payload']) {
      expect(verdict({ columns, timestamp: name })).toMatch(/names no column/)
      expect(verdict({ columns, uniqueId: name })).toMatch(/names no column/)
      expect(verdict({ columns, tenant: name })).toMatch(/names no column/)
    }
  })

  test('takes the received-at column as the timestamp only, meaning the default', () => {
    expect(checkCreation({ timestamp: '_service_received_at' })).toMatchObject({ timestamp: null })
    expect(verdict({ uniqueId: '_service_received_at' })).toMatch(/names no column/)
    expect(verdict({ tenant: '_service_received_at' })).toMatch(/names no column/)
  })

  test('counts "" and null as not given', () => {
    expect(checkCreation({ timestamp: '', uniqueId: '', tenant: null, columns: null })).toEqual({
      columns: [],
      timestamp: null,
      uniqueIdColumn: null,
      tenant: null,
    })
  })
})

describe('table settings', () => {
  test('accepts empty ones, refuses others', () => {
    const empty = { engine: null, partitionBy: [], primaryKey: null, orderBy: [], ttl: '' }
    expect(verdict({ tableSettings: null })).toMatch(OK)
    expect(verdict({ tableSettings: empty })).toMatch(OK)
    expect(verdict({ tableSettings: { engine: { mergeTree: null } } })).toMatch(OK)
    for (const more of [
      { engine: { mergeTree: {} } },
      { partitionBy: ['a'] },
      { primaryKey: ['a'] },
      { orderBy: ['a'] },
      { ttl: 'a' },
    ])
      expect(verdict({ tableSettings: { ...empty, ...more } })).toMatch(/not supported/)
  })
})
