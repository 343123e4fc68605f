/**
 * What a job that deletes rows or sets columns may ask for: refusals come at once, with a sentence.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UPDATED_COLUMNS_MAX } from '../../src/catalog/change/change-rewrite.ts'
import { column, NEVER } from '../path/compaction.ts'
import { startServer, type TestPool, type TestServer } from '../util/server.ts'
import { EVERY_TYPE, postOne, refusal, rowsOf, runJob } from './rewrite-jobs.ts'

let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer({ env: NEVER })
  pool = await server.createPool(EVERY_TYPE)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const refusedDeletion = (input: object) => refusal(server, 'deletion', { dataPool: pool.poolId, ...input })
const refusedSet = (set: readonly (readonly [string, string])[], more: object = {}) =>
  refusal(server, 'update', {
    dataPool: pool.poolId,
    set: set.map(([name, expression]) => ({ column: name, expression })),
    ...more,
  })

describe('a deletion', () => {
  test.each([
    ['nothing', {}],
    ['nulls', { filters: null, filterSql: null }],
    ['empty values', { filters: [], filterSql: '' }],
    ['blanks', { filterSql: ' \n\t' }],
  ])('with %s for a filter is refused', async (_, input) => {
    expect(await refusedDeletion(input)).toBe(
      'BAD_REQUEST: A deletion needs "filters" or "filterSql". To delete every record, say so: filterSql: "true".',
    )
  })

  test('whose filter does not fit is refused, and no job is left', async () => {
    const filter = (name: string, value: string) => ({ column: name, operator: 'EQUALS', value })
    for (const [input, message] of [
      [{ filters: [filter('nothing', '1')] }, 'there is no column "nothing"'],
      [{ filters: [filter('_service_sequence', '1')] }, 'there is no column "_service_sequence"'],
      [{ filters: [filter('_service_row', '1')] }, 'there is no column "_service_row"'],
      [{ filters: [filter('int8', '300')] }, 'column "int8": "300" is not an INT8 value'],
      [
        { filterSql: 'nothing = 1' },
        `filterSql: there is no column "nothing"; a text is in single quotes: 'nothing'`,
      ],
      [
        { filterSql: '_service_row = 1' },
        `filterSql: there is no column "_service_row"; a text is in single quotes: '_service_row'`,
      ],
      [{ filterSql: 'int8' }, 'filterSql: a condition is needed, and this is a value of type integer'],
      [{ filterSql: 'COUNT(*) > 1' }, 'filterSql: aggregates such as COUNT and SUM have no place'],
      [{ filterSql: '-- all' }, 'filterSql: '],
      [{ filterSql: "policy_value('x') = id" }, 'filterSql: there is no function policy_value'],
      [{ filterSql: `$${'{{ tenant }} = id'}` }, 'filterSql: '],
    ] as const)
      expect(await refusedDeletion(input), JSON.stringify(input)).toContain(`BAD_REQUEST: ${message}`)
    const { data } = await server.graphql<{ dataPool: { deletionJobs: { nodes: unknown[] } } }>(
      `{ dataPool(id: "${pool.poolId}") { deletionJobs { nodes { id } } } }`,
    )
    expect(data.dataPool.deletionJobs.nodes).toEqual([])
  })

  test('of a pool that is not there is refused', async () => {
    for (const kind of ['deletion', 'update'] as const) {
      const input = { dataPool: 'DPO0', filterSql: 'true', ...(kind === 'update' ? { set: [] } : {}) }
      expect(await refusal(server, kind, input)).toBe('NOT_FOUND: Data Pool not found')
    }
  })
})

describe('an update', () => {
  test('sets columns that exist, each once, and none of the key', async () => {
    const keyed = 'belongs to the key of the records, which never changes'
    for (const [set, message] of [
      [[], 'An update sets at least one column.'],
      [[['nothing', '1']], '"nothing" that can be set'],
      [[['NEEDED', '1']], '"NEEDED" that can be set'],
      [[['__proto__', '1']], '"__proto__" that can be set'],
      [[['at', 'now()']], `The column "at" ${keyed}`],
      [[['id', "'x'"]], `The column "id" ${keyed}`],
      [[['_service_received_at', 'now()']], '"_service_received_at" that can be set'],
      [[['_service_payload', "'{}'"]], '"_service_payload" that can be set'],
      [[['_service_payload', "'x'"]], '"_service_payload" that can be set'],
      [[['at', "'x'"]], `The column "at" ${keyed}`],
      [[['_service_sequence', '1']], '"_service_sequence" that can be set'],
      [[['_service_row', '1']], '"_service_row" that can be set'],
      [
        [
          ['int8', '1'],
          ['int16', '1'],
          ['int8', '2'],
        ],
        'The column "int8" is set twice.',
      ],
      [[['int8', '']], 'set: the expression is empty: give NULL to clear a column'],
      [[['int8', ' \n']], 'set: the expression is empty'],
      [
        Array.from({ length: UPDATED_COLUMNS_MAX + 1 }, () => ['int8', '1'] as const),
        `An update sets at most ${UPDATED_COLUMNS_MAX} columns.`,
      ],
    ] as const)
      expect(await refusedSet(set), JSON.stringify(set).slice(0, 80)).toMatch(
        new RegExp(`^BAD_REQUEST: .*${message.replace(/[()[\]".]/g, '\\$&')}`),
      )
  })

  test('of a pool with settings sets no column of orderBy and no version', async () => {
    const versioned = await server.createPool({
      columns: ['at', 'a', 'b', 'v', 'n'].map(name => column(name, name === 'at' ? 'TIMESTAMP' : 'INT64')),
      timestamp: 'at',
      tableSettings: { engine: { replacingMergeTree: { ver: 'v' } }, orderBy: ['b', 'a'] },
    })
    for (const name of ['at', 'a', 'b', 'v'])
      expect(await refusedSet([[name, `"${name}"`]], { dataPool: versioned.poolId })).toContain(
        `"${name}" belongs to the key`,
      )
    expect(await refusedSet([['n', 'a + b']], { dataPool: versioned.poolId })).toBeUndefined()
  })

  test('sets the timestamp and the unique id of no pool, also where only one of them is given', async () => {
    const columns = [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')]
    const events = await server.createPool({ columns, timestamp: 'at' })
    const byId = await server.createPool({ columns, uniqueId: 'id' })
    for (const [poolId, name] of [
      [events.poolId, 'at'],
      [byId.poolId, 'id'],
    ])
      expect(await refusedSet([[name!, `"${name}"`]], { dataPool: poolId })).toContain('belongs to the key')
    expect(await refusedSet([['id', "'x'"]], { dataPool: events.poolId })).toBeUndefined()
  })

  test.each([
    ['an aggregate', 'SUM(int8)', 'aggregates such as COUNT and SUM have no place in a filter or in a value'],
    ['an aggregate in a function', 'abs(MAX(int8))', 'aggregates such as COUNT'],
    ['a subquery', '(SELECT 1)', 'SELECT: an expression has no query inside'],
    ['a window', 'row_number() OVER ()', ''],
    ['a lambda', 'list_filter([1], x -> x = 1)', ''],
    ['a function that is not listed', "getenv('PATH')", 'there is no function "getenv"'],
    ['a random value', 'random()', 'there is no function "random"'],
    ['two values', '1, 2', ''],
    ['a name for it', 'int16 AS x', ''],
    ['an interval', 'INTERVAL 1 DAY', 'an interval is added to a time, or taken from it'],
    ['a value of a token', "policy_value('x')", 'there is no function policy_value'],
    ['the row of the file', 'file_row_number', 'there is no column "file_row_number"'],
    ['the sequence', '_service_sequence', 'there is no column "_service_sequence"'],
    ['another new value', 'changed_0', 'there is no column "changed_0"'],
  ])('refuses %s', async (_, expression, message) => {
    const refused = await refusedSet([['int8', expression]])
    expect(refused).toMatch(/^BAD_REQUEST: set: /)
    expect(refused).toContain(message)
  })
})

/** An expression of each kind, and the columns that take it. */
const KINDS: readonly (readonly [string, string, readonly string[]])[] = [
  ['boolean', 'int8 > 1', ['boolean']],
  ['text', 'lower(string)', ['string']],
  ['integer', 'int64 + 1', ['int8', 'int16', 'int32', 'int64', 'float', 'double', 'needed']],
  ['real', 'double / 2', ['float', 'double']],
  ['date', 'CAST(time AS DATE)', ['date', 'time']],
  ['instant', 'time + INTERVAL 1 DAY', ['time']],
  ['json', 'json', ['json']],
]

describe('every kind of expression meets every type of column', () => {
  const columns = EVERY_TYPE.columns!.filter(({ name }) => !['at', 'id'].includes(name))
  test.each(KINDS)('%s: %s', async (kind, expression, fits) => {
    const accepted: string[] = []
    for (const { name, type } of columns) {
      const refused = await refusedSet([[name, expression]])
      if (refused === undefined) accepted.push(name)
      else
        expect(refused, name).toMatch(
          new RegExp(
            `^BAD_REQUEST: set: (the column "${name}" is ${type}, and the value is of type ${kind}: CAST it` +
              '|values of the types .* do not fit together: CAST one of them)',
          ),
        )
    }
    expect(accepted.sort()).toEqual([...fits].sort())
  })

  test('a CAST makes a value fit, where there is one', async () => {
    const casts: Readonly<Record<string, string>> = {
      string: 'CAST(int64 AS VARCHAR)',
      boolean: 'CAST(int8 AS BOOLEAN)',
      int8: 'CAST(double AS TINYINT)',
      int64: 'CAST(string AS BIGINT)',
      double: 'CAST(string AS DOUBLE)',
      date: 'CAST(time AS DATE)',
      time: 'CAST(string AS TIMESTAMP)',
    }
    expect(await refusedSet(Object.entries(casts))).toBeUndefined()
  })
})

describe('a literal is read as the type of its column', () => {
  test.each([
    ['time', "'2024-02-30'"],
    ['time', "'yesterday'"],
    ['date', "'2024-13-01'"],
    ['date', '5'],
    ['json', '\'{"a"\''],
    ['json', "'not json'"],
    ['date', "'2024-01-01T12:00:00Z'"],
    ['boolean', "'yes'"],
    ['boolean', '2'],
    ['int8', "'300'"],
    ['int8', '300'],
    ['int8', '-129'],
    ['int8', "'1.5'"],
    ['int8', '0.5'],
    ['int64', '9223372036854775808'],
    ['int64', 'true'],
    ['float', '1e39'],
    ['float', "'nan'"],
    ['double', '1e400'],
    ['double', "'infinity'"],
    ['double', 'false'],
  ])('%s = %s is refused', async (name, literal) => {
    expect(await refusedSet([[name, literal]])).toMatch(/^BAD_REQUEST: set: .* is not an? [A-Z0-9]+ value/)
  })
})

test('what was refused changed nothing', async () => {
  await postOne(pool, 'last')
  expect(await refusedDeletion({ filterSql: 'nothing' })).toMatch(/^BAD_REQUEST/)
  expect(await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: "id = 'other'" })).toBeNull()
  expect(await rowsOf(server, pool, 'SELECT id FROM pool')).toEqual([['last']])
})
