import { describe, expect, test } from 'vitest'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { checkPool } from '../../src/catalog/change/rules.ts'
import { expiryProblem } from '../../src/catalog/change/table-settings.ts'
import type { ColumnInput, NewWebhookSource } from '../../src/catalog/documents/catalog-types.ts'
import { keys, Memory } from '../../src/catalog/documents/memory.ts'

function column(name: string, type = 'STRING', jsonProperty = 'p'): ColumnInput {
  return { name, type, jsonProperty, nullable: true }
}

const memory = new Memory()
memory.apply({ puts: [[keys.meta, { format: 1, nextPoolNumber: 1 }]], removes: [] })

function verdict(input: NewWebhookSource): string {
  const decision = createWebhookSource(input, 'me')(memory, 0)
  return 'badRequest' in decision ? decision.badRequest : 'ok'
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

  test('takes the received-at column as the timestamp only, and keeps its name', () => {
    expect(checkPool({ timestamp: '_service_received_at' })).toMatchObject({
      timestamp: '_service_received_at',
    })
    expect(verdict({ uniqueId: '_service_received_at' })).toMatch(/names no column/)
    expect(verdict({ tenant: '_service_received_at' })).toMatch(/names no column/)
  })

  test('counts "" and null as not given', () => {
    expect(checkPool({ timestamp: '', uniqueId: '', tenant: null, columns: null })).toEqual({
      columns: [],
      timestamp: null,
      uniqueIdColumn: null,
      tenant: null,
      tableSettings: null,
      cutsEpochs: true,
    })
  })
})

describe('table settings', () => {
  const empty = { engine: null, partitionBy: [], primaryKey: null, orderBy: [], ttl: '' }

  test('are kept as given: null stays null, [] stays []', () => {
    expect(checkPool({ tableSettings: null })).toMatchObject({ tableSettings: null })
    expect(checkPool({ tableSettings: empty })).toMatchObject({
      tableSettings: { engine: null, partitionBy: [], primaryKey: null, orderBy: [], ttl: null },
    })
    const given = { partitionBy: ['toYYYYMM(a)'], primaryKey: ['a'] }
    expect(checkPool({ tableSettings: given })).toMatchObject({ tableSettings: { ...given, orderBy: null } })
  })

  test('takes an engine whose members are null as none', () => {
    expect(verdict({ tableSettings: { engine: { mergeTree: null } } })).toMatch(OK)
  })

  const columns = [
    column('a', 'STRING'),
    column('b', 'INT32'),
    column('at', 'TIMESTAMP'),
    column('j', 'JSON'),
  ]
  const keyFrom = (tableSettings: object, more: object = {}) => {
    const checked = checkPool({ columns, tableSettings, ...more })
    return 'badRequest' in checked ? checked.badRequest : checked.key
  }
  const replacing = (ver?: string | null) => ({ replacingMergeTree: { ver } })

  test('name the key and the version column', () => {
    expect(keyFrom({ orderBy: ['b', 'a'] })).toEqual({ columns: ['b', 'a'], version: null })
    expect(keyFrom({ orderBy: ['_service_received_at'] })).toEqual({
      columns: ['_service_received_at'],
      version: null,
    })
    expect(keyFrom({ engine: replacing('b'), orderBy: ['a'] })).toEqual({ columns: ['a'], version: 'b' })
    expect(keyFrom({ engine: replacing('b') }, { uniqueId: 'a' })).toEqual({
      columns: ['_service_received_at', 'a'],
      version: 'b',
    })
    expect(keyFrom({ engine: replacing('b') }, { uniqueId: 'a', timestamp: 'at' })).toEqual({
      columns: ['at', 'a'],
      version: 'b',
    })
  })

  test('leave the default key where they name none, and no key with MergeTree', () => {
    for (const ver of [undefined, null, ''])
      expect(keyFrom({ engine: replacing(ver), orderBy: [] }, { uniqueId: 'a' })).toBeUndefined()
    expect(keyFrom({ partitionBy: ['nobody'], primaryKey: ['nobody'] }, { uniqueId: 'a' })).toBeUndefined()
    expect(keyFrom({ engine: { mergeTree: {} }, orderBy: ['a'] }, { uniqueId: 'a' })).toBeNull()
  })

  test('let rows expire where all versions of a key expire by the highest one', () => {
    const problemOf = (tableSettings: object, timestamp = 'at') => {
      const checked = checkPool({ columns, timestamp, uniqueId: 'a', tableSettings })
      return 'badRequest' in checked ? checked.badRequest : expiryProblem(checked)
    }
    for (const free of [
      {},
      { orderBy: ['a'] },
      { engine: { mergeTree: {} } },
      { engine: replacing('b') },
      { engine: replacing('b'), orderBy: ['a', 'at'] },
      { engine: replacing('at'), orderBy: ['a'] },
    ])
      expect(problemOf(free), JSON.stringify(free)).toBeUndefined()
    expect(problemOf({ engine: replacing('b'), orderBy: ['a'] })).toMatch(/\("at"\)/)
    expect(problemOf({ engine: replacing('at'), orderBy: ['a'] }, '')).toMatch(/"_service_received_at"/)
    const byArrival = { engine: replacing('b'), orderBy: ['a', '_service_received_at'] }
    expect(problemOf(byArrival, '')).toBeUndefined()
  })

  test('refuses what changes rows in ways that Weir does not, by name', () => {
    for (const [engine, name] of [
      [{ summingMergeTree: {} }, /SUMMING_MERGE_TREE/],
      [{ aggregatingMergeTree: {} }, /AGGREGATING_MERGE_TREE/],
      [{ postgreSql: {} }, /POSTGRESQL/],
      [{ mergeTree: {}, replacingMergeTree: {} }, /exactly one/],
    ] as const)
      expect(verdict({ tableSettings: { ...empty, engine } })).toMatch(name)
    expect(verdict({ tableSettings: { ...empty, ttl: 'a' } })).toMatch(/dataRetentionInDays/)
  })
})

describe('columns with a ClickHouse type', () => {
  const given = (clickHouseType?: string | null) => ({
    columns: [{ ...column('a', 'CLICKHOUSE'), clickHouseType }],
  })

  test('are stored as ours, and keep the type as given', () => {
    expect(checkPool(given('LowCardinality(Nullable(String))'))).toMatchObject({
      columns: [{ name: 'a', type: 'STRING', clickHouseType: 'LowCardinality(Nullable(String))' }],
    })
  })

  test('are refused by name where Weir has no such type', () => {
    for (const type of ['Array(String)', 'string', 'AggregateFunction(sum, Int64)', 'x'.repeat(300)])
      expect(verdict(given(type))).toMatch(/ClickHouse type .*, which Weir does not store/)
    for (const type of ['', null, undefined]) expect(verdict(given(type))).toMatch(/no clickHouseType/)
  })
})
