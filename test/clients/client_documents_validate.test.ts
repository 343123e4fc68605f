/**
 * Every document of the existing clients is valid in the schema, within the limits, and takes the
 * variables that the client sends.
 */
import type * as Graphql from 'graphql'
import { describe, expect, test } from 'vitest'
import { documentReader } from '../../src/api/graphql/document.ts'
import { makeSchema } from '../../src/api/graphql/graphql-schema.ts'
import { must } from '../../src/util/errors.ts'
import { loadPackage } from '../../src/util/load-package.ts'
import { documentFiles, operationsOf } from './client-documents.ts'

const { execute, parse } = loadPackage('graphql') as typeof Graphql

const schema = makeSchema()
const read = documentReader(schema)

const COUNTS: Readonly<Record<string, number>> = {
  'go-client.graphql': 15,
  'grafana.graphql': 4,
  'sample-apps.graphql': 6,
  'terraform.graphql': 58,
  'ui-kit.graphql': 9,
}

test('every client has its documents here', () => {
  expect(documentFiles()).toEqual(Object.keys(COUNTS))
})

for (const [file, count] of Object.entries(COUNTS))
  describe(file, () => {
    const operations = operationsOf(file)

    test(`has ${count} operations`, () => {
      expect(operations).toHaveLength(count)
    })

    for (const { name, text } of operations)
      test(`${name} is valid`, () => {
        const document = read(text)
        expect('kind' in document ? [] : document.map(({ message }) => message)).toEqual([])
      })
  })

describe('variables', () => {
  /** The errors of coercion alone: no resolver runs without a context. */
  function refusals(file: string, name: string, variableValues: object): string[] {
    const { text } = must(
      operationsOf(file).find(each => each.name === name),
      name,
    )
    const root = { [Symbol.toStringTag]: 'nothing' }
    const result = execute({
      schema,
      document: parse(text),
      rootValue: root,
      contextValue: {},
      variableValues: variableValues as Record<string, unknown>,
    }) as Graphql.ExecutionResult
    return (result.errors ?? [])
      .map(({ message }) => message)
      .filter(message => message.startsWith('Variable '))
  }

  test('may have null beside the one field of an input that takes exactly one', () => {
    const metric = { id: null, name: null, count: { dataPool: { id: 'DPO1', name: null } }, sum: null }
    expect(refusals('ui-kit.graphql', 'Counter', { counterInput: { metric, filterSql: null } })).toEqual([])
    const tableSettings = {
      engine: { mergeTree: null, replacingMergeTree: { type: null, ver: 'v' }, summingMergeTree: null },
      partitionBy: null,
      primaryKey: [],
      orderBy: ['id'],
      ttl: null,
    }
    const input = { uniqueName: '', connectionSettings: { basicAuth: null, columns: [], tableSettings } }
    expect(refusals('terraform.graphql', 'CreateWebhookDataSource', { input })).toEqual([])
    const view = {
      sql: 'SELECT 1',
      destination: { existingDataPool: { id: 'DPO1', name: null }, newDataPool: null },
    }
    expect(refusals('terraform.graphql', 'CreateMaterializedView', { input: view })).toEqual([])
  })

  test('may be what the clients send', () => {
    const timeRange = {
      relative: 'LAST_N_DAYS',
      n: 30,
      start: '0001-01-01T00:00:00Z',
      stop: '0001-01-01T00:00:00Z',
    }
    const counterInput = {
      metricName: 'm',
      timeRange,
      timeZone: 'Europe/Berlin',
      filterSql: null,
      filters: null,
    }
    expect(refusals('ui-kit.graphql', 'Counter', { counterInput })).toEqual([])
    const filters = [{ column: 'c', operator: 'IS_NOT_NULL', value: '', and: null, or: [] }]
    const input = { dataPool: 'DPO1', uniqueName: '', description: '', filters, dimensions: null }
    expect(refusals('terraform.graphql', 'CreateCountMetric', { input })).toEqual([])
    const idOrUniqueName = { id: 'DPO1', uniqueName: null }
    const modify = { idOrUniqueName, timestamp: { columnName: '' }, dataRetentionInDays: null, syncing: null }
    expect(refusals('terraform.graphql', 'ModifyDataPool', { input: modify })).toEqual([])
    expect(refusals('terraform.graphql', 'CreateApplication', { input: { scopes: [] } })).toEqual([])
  })

  test('of a wrong type are refused', () => {
    const counterInput = { metric: { count: { dataPool: { id: 5.5 } } } }
    expect(refusals('ui-kit.graphql', 'Counter', { counterInput })).toHaveLength(1)
    expect(refusals('terraform.graphql', 'CreateApplication', { input: { scopes: ['ROOT'] } })).toHaveLength(
      1,
    )
  })
})
