/**
 * Grids, records and reports as clients ask for them, document by document, and what is refused.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { fetchToken, send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { operationsOf } from './client-documents.ts'
import type { Page } from './walk-pages.ts'

interface Records {
  readonly columns: readonly string[]
  readonly values: Page['rows']
}

function documentOf(file: string, part: string): string {
  return must(
    operationsOf(file).find(({ text }) => text.includes(`${part}(`)),
    part,
  ).text
}

let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer()
  const columns = [
    ['ts', 'TIMESTAMP'],
    ['id', 'STRING'],
    ['n', 'INT64'],
    ['note', 'STRING'],
    ['ok', 'BOOLEAN'],
    ['doc', 'JSON'],
  ].map(([name, type]) => ({ name: name!, type: type!, jsonProperty: name!, nullable: true }))
  pool = await server.createPool({ uniqueName: 'grid', columns, timestamp: 'ts', uniqueId: 'id' })
  const events = Array.from({ length: 120 }, (_, n) => ({
    ts: new Date(Date.UTC(2024, 0, 1) + Math.floor(n / 2) * 60_000).toISOString(),
    id: `k${String(n).padStart(3, '0')}`,
    n,
    note: n % 3 === 0 ? null : `n${n % 3}`,
    ok: n % 2 === 0,
    doc: { n, list: [1, '"'] },
  }))
  expect((await send(pool.url, events)).status).toBe(200)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** The answer, or `CODE: message`. */
async function ask<T>(document: string, variables: object): Promise<T | string> {
  const { data, errors } = await server.graphql<Record<string, T>>(document, variables)
  if (errors !== undefined) return `${errors[0]?.extensions?.code}: ${errors[0]?.message}`
  return must(Object.values(data)[0], 'an answer')
}

const UI_GRID = documentOf('ui-kit.graphql', 'dataGrid')
const UI_RECORDS = documentOf('ui-kit.graphql', 'recordsByUniqueId')

async function grid(input: object, document = UI_GRID): Promise<Page> {
  const name = document === UI_GRID ? 'dataGridInput' : 'input'
  const answer = await ask<Page>(document, { [name]: { dataPool: { name: 'grid' }, ...input } })
  if (typeof answer === 'string') throw new Error(answer)
  return answer
}

const refused = (input: object) =>
  ask<Page>(UI_GRID, { dataGridInput: { dataPool: { name: 'grid' }, columns: ['n'], ...input } })
const records = (input: object) =>
  ask<Records>(UI_RECORDS, {
    recordsByUniqueIdInput: { dataPool: { name: 'grid' }, columns: ['n'], ...input },
  })

describe('the React kit', () => {
  test('asks without columns first, then pages forward and back with both numbers', async () => {
    const kit = { sort: 'DESC', first: 50, last: 50, filterSql: null }
    expect(await grid({ ...kit, columns: [] })).toEqual({
      headers: [],
      rows: [],
      pageInfo: { hasNextPage: false, hasPreviousPage: false, endCursor: null, startCursor: null },
    })
    const columns = ['ts', 'id', 'n', 'ok', 'doc']
    const one = await grid({ ...kit, columns })
    expect(one.headers).toEqual(columns)
    // Two events a minute: the newest minute first, and its events by their id.
    expect(one.rows.slice(0, 3)).toEqual([
      ['2024-01-01T00:59:00.000Z', 'k118', '118', 'true', '{"n":118,"list":[1,"\\""]}'],
      ['2024-01-01T00:59:00.000Z', 'k119', '119', 'false', '{"n":119,"list":[1,"\\""]}'],
      ['2024-01-01T00:58:00.000Z', 'k116', '116', 'true', '{"n":116,"list":[1,"\\""]}'],
    ])
    expect(one.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
    const two = await grid({ ...kit, columns, after: one.pageInfo.endCursor })
    const three = await grid({ ...kit, columns, after: two.pageInfo.endCursor })
    expect([one, two, three].map(({ rows }) => rows.length)).toEqual([50, 50, 20])
    expect(three.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true })
    expect(new Set([one, two, three].flatMap(({ rows }) => rows.map(row => row[1]))).size).toBe(120)
    const back = await grid({ ...kit, columns, before: three.pageInfo.startCursor })
    expect(back.rows).toEqual(two.rows)
    const begin = await grid({ ...kit, columns, before: back.pageInfo.startCursor, after: null })
    expect(begin).toEqual({ ...one, pageInfo: { ...one.pageInfo, hasNextPage: true } })
  })

  test('pages stay where they are while events come', async () => {
    const live = await server.createPool({
      uniqueName: 'live',
      columns: [{ name: 'n', type: 'INT32', jsonProperty: 'n', nullable: true }],
      uniqueId: 'n',
    })
    const post = async (numbers: readonly number[]) =>
      expect(
        (
          await send(
            live.url,
            numbers.map(n => ({ n })),
          )
        ).status,
      ).toBe(200)
    await post([1, 2, 3, 4, 5, 6])
    const part = { dataPool: { name: 'live' }, columns: ['n'], first: 3, last: 3 }
    const one = await grid(part)
    await post([7, 8])
    const two = await grid({ ...part, after: one.pageInfo.endCursor })
    expect([one.rows, two.rows]).toEqual([
      [['6'], ['5'], ['4']],
      [['3'], ['2'], ['1']],
    ])
    const newer = await grid({ ...part, before: one.pageInfo.startCursor })
    expect(newer.rows).toEqual([['8'], ['7']])
    expect(newer.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
  })

  test('finds records by id', async () => {
    expect(
      await records({ columns: ['id', 'n', 'note'], uniqueIds: ['k007', 'absent', 'k003', 'k007'] }),
    ).toEqual({
      columns: ['id', 'n', 'note'],
      values: [
        ['k007', '7', 'n1'],
        ['k003', '3', null],
      ],
    })
    expect(await records({ uniqueIds: [] })).toEqual({ columns: ['n'], values: [] })
  })
})

test('the Go client and plain documents get grids with everything in them', async () => {
  const page = await grid({ columns: ['n'], first: 2 }, documentOf('go-client.graphql', 'dataGrid'))
  expect(page).toMatchObject({ headers: ['n'], rows: [['118'], ['119']] })
  const document = `query ($input: DataGridInput!) { dataGrid(input: $input) {
    headers rows nodes { headers row } edges { cursor node { headers row } } pageInfo { endCursor }
    query { type subtype status resultingRecords sql } } }`
  const whole = await grid({ columns: ['n', 'n'], orderByColumn: 2, sort: 'ASC', first: 1 }, document)
  expect(whole).toMatchObject({
    headers: ['n', 'n'],
    rows: [['0', '0']],
    nodes: [{ headers: ['n', 'n'], row: ['0', '0'] }],
    edges: [{ cursor: whole.pageInfo.endCursor, node: { row: ['0', '0'] } }],
    query: { type: 'RECORDS', subtype: null, status: 'COMPLETED', resultingRecords: 1 },
  })
})

const REPORT = documentOf('sample-apps.graphql', 'metricReport')
const OF_GRID = { dataPool: { name: 'grid' } }

async function report(input: object): Promise<Page | string> {
  return await ask<Page>(REPORT, {
    input: { dimensions: [], metrics: [{ metric: { count: OF_GRID } }], ...input },
  })
}

describe('a report', () => {
  test('has its metrics by dimension, each over the rows of its own filters', async () => {
    const made = await server.graphql<{ createSumMetric: { metric: { id: string } } }>(
      'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
      { input: { dataPool: pool.poolId, uniqueName: 'even', measure: { columnName: 'n' }, filterSql: 'ok' } },
    )
    expect(made.errors).toBeUndefined()
    const metrics = [
      { metric: { count: OF_GRID }, displayName: 'Events', sort: 'DESC' },
      { uniqueName: 'even', filters: [{ column: 'n', operator: 'LESS_THAN', value: '10' }] },
      { id: made.data.createSumMetric.metric.id, metric: null, displayName: '', filterSql: 'n > 500' },
    ]
    const dimensions = [{ columnName: 'note', displayName: 'Note' }]
    const whole = await report({ dimensions, metrics, orderByColumn: 1 })
    expect(whole).toMatchObject({
      headers: ['Note', 'Events', 'even', 'even'],
      rows: [
        ['n2', '40', '10', null],
        ['n1', '40', '4', null],
        [null, '40', '6', null],
      ],
      nodes: [{ headers: ['Note', 'Events', 'even', 'even'], row: ['n2', '40', '10', null] }, {}, {}],
      pageInfo: { hasNextPage: false },
    })
    expect(
      await report({ dimensions: [{ columnName: 'note', sort: 'ASC' }], filterSql: 'n > 117' }),
    ).toMatchObject({
      rows: [
        ['n1', '1'],
        ['n2', '1'],
      ],
    })
    expect(await report({ filterSql: 'n < 0' })).toMatchObject({ headers: ['value'], rows: [['0']] })
    expect(await report({ dimensions, filterSql: 'n < 0' })).toMatchObject({ rows: [] })
  })

  test('is paged by a FLOAT that no DOUBLE equals, and by a sum beyond 64 bits', async () => {
    const columns = [
      ['f', 'FLOAT'],
      ['big', 'INT64'],
      ['k', 'STRING'],
    ].map(([name, type]) => ({ name: name!, type: type!, jsonProperty: name!, nullable: true }))
    const { poolId, url } = await server.createPool({ columns })
    const big = '9223372036854775807'
    const body = ['0.1', '0.2', '0.3', '3.4e38']
      .flatMap(f => [1, 2].map(k => `{"f":${f},"big":${big},"k":"${f} ${k}"}`))
      .join()
    expect((await send(url, `[${body},${body}]`)).status).toBe(200)
    const measured = (kind: string, columnName: string) => ({
      metric: { [kind]: { dataPool: { id: poolId }, measure: { columnName } } },
      sort: 'ASC',
    })
    for (const metric of [measured('min', 'f'), measured('sum', 'big'), measured('sum', 'f')]) {
      const input = { dimensions: [{ columnName: 'k', sort: 'ASC' }], metrics: [metric], orderByColumn: 2 }
      const names: (string | null | undefined)[] = []
      let cursor: string | null = null
      do {
        const page: Page = (await report({ ...input, first: 1, after: cursor })) as Page
        names.push(page.rows[0]?.[0])
        cursor = page.pageInfo.hasNextPage ? (page.edges[0]?.cursor ?? null) : null
      } while (cursor !== null && names.length < 20)
      expect(names).toEqual(['0.1', '0.2', '0.3', '3.4e38'].flatMap(f => [`${f} 1`, `${f} 2`]))
    }
  })

  test('is paged by instants that no event has', async () => {
    const { poolId, url } = await server.createPool({
      columns: [{ name: 'at', type: 'TIMESTAMP', jsonProperty: 'at', nullable: false }],
    })
    const times = ['9999-12-31T23:59:59.000001Z', '1970-01-01T00:00:00Z', '0001-01-01T00:00:00Z']
    expect(
      (
        await send(
          url,
          times.map(at => ({ at })),
        )
      ).status,
    ).toBe(200)
    const expression = `MAX(CASE WHEN "at" > '2000-01-01' THEN "at" + INTERVAL 1 DAY ELSE "at" - INTERVAL 3000 YEAR END)`
    const input = {
      dimensions: [{ columnName: 'at' }],
      metrics: [{ metric: { custom: { dataPool: { id: poolId }, expression } } }],
      orderByColumn: 2,
    }
    const shown: unknown[] = []
    for (let after: string | null = null, isLast = false; !isLast && shown.length < 9; ) {
      const page = (await report({ ...input, first: 1, after })) as Page
      expect(page).toMatchObject({ rows: { length: 1 } })
      shown.push(page.rows[0]?.[1])
      isLast = !page.pageInfo.hasNextPage
      after = page.edges[0]?.cursor ?? null
    }
    expect(shown).toEqual([
      '+010000-01-01T23:59:59.000001Z',
      '-001030-01-01T00:00:00.000Z',
      '-002999-01-01T00:00:00.000Z',
    ])
  })

  test('is about one pool, and each part of it must be right', async () => {
    const other = await server.createPool({ uniqueName: 'other', columns: [] })
    const count = (dataPool: object) => ({ metric: { count: { dataPool } } })
    const refusals: readonly (readonly [object, string])[] = [
      [{ metrics: [] }, 'metrics: a report has 1 to 32'],
      [
        { metrics: [count({ name: 'grid' }), count({ id: other.poolId })] },
        'The metrics of a report must be about one Data Pool.',
      ],
      [
        { metrics: [{ ...count({ name: 'grid' }), uniqueName: 'even' }] },
        'metrics: give exactly one of "metric", "id" and "uniqueName".',
      ],
      [{ metrics: [{}] }, 'metrics: give exactly one of "metric", "id" and "uniqueName".'],
      [{ orderByColumn: 2 }, 'orderByColumn: it is 1 to 1, the number of columns'],
      [{ dimensions: [{ columnName: 'x' }] }, 'dimensions: there is no column "x"'],
      [
        { metrics: [{ ...count({ name: 'grid' }), filterSql: 'x = 1' }] },
        `metrics, number 1: filterSql: there is no column "x"; a text is in single quotes: 'x'`,
      ],
      [{ first: 0 }, 'first: it is 1 to 1000'],
      [{ after: 'x' }, 'after: this is no cursor of this list'],
    ]
    for (const [input, message] of refusals) expect(await report(input)).toBe(`BAD_REQUEST: ${message}`)
    // One pool, named in two ways.
    const metrics = [count({ name: 'grid' }), count({ id: pool.poolId })]
    expect(await report({ metrics })).toMatchObject({ rows: [['120', '120']] })
  })

  test('needs the scope of each of its metrics', async () => {
    const inline = { metric: { count: OF_GRID } }
    const asked = async (scope: string, metrics: readonly object[]) => {
      const token = await fetchToken(server.base, server.dataDir, scope)
      const answer = await fetch(`${server.base}/graphql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ query: REPORT, variables: { input: { dimensions: [], metrics } } }),
      })
      const { errors } = (await answer.json()) as { errors?: readonly { extensions: { code: string } }[] }
      return errors?.[0]?.extensions.code ?? 'answered'
    }
    const both = [{ uniqueName: 'even' }, inline]
    expect(await asked('metric:query', [{ uniqueName: 'even' }])).toBe('answered')
    expect(await asked('data_pool:query', [inline])).toBe('answered')
    expect(await asked('metric:query data_pool:query', both)).toBe('answered')
    for (const scope of ['metric:query', 'data_pool:query'])
      expect(await asked(scope, both)).toBe('FORBIDDEN')
  })
})

describe('refusals', () => {
  test('of pages, columns and orders', async () => {
    for (const name of ['first', 'last'])
      for (const count of [0, -1, 1_001])
        expect(await refused({ [name]: count })).toBe(`BAD_REQUEST: ${name}: it is 1 to 1000`)
    for (const orderByColumn of [0, 2, -1])
      expect(await refused({ orderByColumn })).toBe(
        'BAD_REQUEST: orderByColumn: it is 1 to 1, the number of columns',
      )
    for (const column of ['N', '', '_service_sequence', '*', 'k1'])
      expect(await refused({ columns: [column] })).toBe(
        `BAD_REQUEST: columns: there is no column ${JSON.stringify(column)}`,
      )
    expect(await refused({ columns: Array(503).fill('n') })).toBe(
      'BAD_REQUEST: columns: a question takes at most 502',
    )
    expect(await refused({ filterSql: '_service_sequence > 0' })).toMatch(/^BAD_REQUEST: filterSql: /)
    expect(await refused({ filterSql: 'c1 = 1' })).toMatch(/^BAD_REQUEST: filterSql: /)
  })

  test('of cursors that are damaged, made up, or of another list', async () => {
    const { pageInfo } = await grid({ columns: ['n'], first: 3 })
    const cursor = must(pageInfo.endCursor, 'a cursor')
    const text = Buffer.from(cursor, 'base64url').toString()
    const bad = [
      'x',
      cursor.slice(0, -2),
      `${cursor}AA`,
      Buffer.from(text.replace('k', 'l')).toString('base64url'),
      Buffer.from('at:0000000000000003').toString('base64url'),
      Buffer.from(text.slice(0, 16)).toString('base64url'),
    ]
    for (const each of bad)
      for (const name of ['after', 'before'])
        expect(await refused({ [name]: each }), each).toBe(
          `BAD_REQUEST: ${name}: this is no cursor of this list`,
        )
    expect(await refused({ after: cursor })).toMatchObject({ rows: { length: 50 } })
    // Other columns and filters are the same list in the same order; another order is another list.
    expect(await refused({ after: cursor, columns: ['id', 'ok'], filterSql: 'ok' })).toMatchObject({
      rows: { length: 50 },
    })
    for (const other of [{ sort: 'ASC' }, { orderByColumn: 1 }])
      expect(await refused({ after: cursor, ...other })).toMatch(/^BAD_REQUEST: after: this is no cursor/)
  })

  test('of unique ids', async () => {
    const plain = await server.createPool({ uniqueName: 'plain', columns: [] })
    expect(await records({ dataPool: { id: plain.poolId }, columns: [], uniqueIds: ['1'] })).toBe(
      'BAD_REQUEST: the Data Pool has no unique id: ask "dataGrid" with a filter',
    )
    expect(await records({ uniqueIds: Array(1_001).fill('k') })).toBe(
      'BAD_REQUEST: uniqueIds: a question takes at most 1000',
    )
    expect(await records({ columns: ['x'], uniqueIds: ['k'] })).toBe(
      'BAD_REQUEST: columns: there is no column "x"',
    )
    const columns = ['a', 'b'].map(name => ({ name, type: 'INT32', jsonProperty: name, nullable: true }))
    const tableSettings = { orderBy: ['b', 'a'] }
    const keyed = await server.createPool({ columns, tableSettings })
    const named = await server.createPool({ columns, tableSettings, uniqueId: 'b' })
    const events = [
      { a: 1, b: 2 },
      { a: 2, b: 1 },
      { a: 1, b: 1 },
    ]
    for (const { url } of [keyed, named]) expect((await send(url, events)).status).toBe(200)
    const ofPool = ({ poolId }: TestPool, ids: readonly string[]) =>
      records({ dataPool: { id: poolId }, columns: ['a', 'b'], uniqueIds: ids })
    // Without a unique id the last column of the key is taken. The key orders records of one id.
    expect(await ofPool(keyed, ['1.0'])).toMatchObject({
      values: [
        ['1', '1'],
        ['1', '2'],
      ],
    })
    expect(await ofPool(named, ['2', '1'])).toMatchObject({
      values: [
        ['1', '2'],
        ['1', '1'],
        ['2', '1'],
      ],
    })
    expect(await ofPool(named, ['x'])).toBe('BAD_REQUEST: uniqueIds: "x" is not an INT32 value')
  })

  test('of what an access policy hides', async () => {
    const columns = ['id', 'secret', 'n'].map(name => ({
      name,
      type: 'STRING',
      jsonProperty: name,
      nullable: true,
    }))
    const spec = { columns, uniqueId: 'id', accessControlEnabled: true }
    const closed = await server.createPool({ ...spec, uniqueName: 'closed' })
    const events = [1, 2, 3, 4].map(i => ({ id: `hidden${i}`, secret: `hidden${i}`, n: `n${i % 2}` }))
    expect((await send(closed.url, events)).status).toBe(200)
    const { clientId } = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as {
      clientId: string
    }
    const made = await server.graphql<{
      createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
    }>(
      `mutation ($input: CreateDataPoolAccessPolicyInput!) {
         createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { id } } }`,
      { input: { dataPool: closed.poolId, columns: ['n'], filterSql: "secret <> 'hidden4'" } },
    )
    const policy = made.data.createDataPoolAccessPolicy.dataPoolAccessPolicy.id
    await server.graphql(
      `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${clientId}") }`,
    )
    const part = { dataPool: { name: 'closed' } }
    const one = await grid({ ...part, columns: ['n'], orderByColumn: 1, first: 1 })
    const two = await grid({ ...part, columns: ['n'], orderByColumn: 1, after: one.pageInfo.endCursor })
    expect([one.rows, two.rows]).toEqual([[['n1']], [['n1'], ['n0']]])
    // The cursor has the value that is shown, and no other.
    expect(Buffer.from(one.pageInfo.endCursor ?? '', 'base64url').toString()).toMatch(/^.{16}\[1,"n1"\]$/)
    for (const name of ['id', 'secret', '_service_received_at', '_service_payload', '_service_sequence']) {
      const none = `there is no column "${name}"`
      expect(await refused({ ...part, columns: [name] })).toBe(`BAD_REQUEST: columns: ${none}`)
      const filters = [{ column: name, operator: 'IS_NULL' }]
      expect(await refused({ ...part, filters })).toBe(`BAD_REQUEST: ${none}`)
      expect(await records({ ...part, columns: [name], uniqueIds: [] })).toBe(`BAD_REQUEST: columns: ${none}`)
      const metrics = [{ metric: { count: part } }]
      expect(await report({ metrics, dimensions: [{ columnName: name }] })).toBe(
        `BAD_REQUEST: dimensions: ${none}`,
      )
      const measured = [{ metric: { max: { ...part, measure: { columnName: name } } } }]
      expect(await report({ metrics: measured })).toBe(`BAD_REQUEST: metrics, number 1: ${none}`)
    }
    expect(await report({ metrics: [{ metric: { count: part } }] })).toMatchObject({ rows: [['3']] })
    expect(await records({ ...part, uniqueIds: ['hidden1'] })).toBe(
      'BAD_REQUEST: the Data Pool has no unique id: ask "dataGrid" with a filter',
    )
  })

  test('of answers that are too large for the main thread', async () => {
    const large = await server.createPool({ uniqueName: 'large', columns: [] })
    const event = JSON.stringify({ text: 'x'.repeat(1_000_000) })
    for (let i = 0; i < 9; i++) expect((await send(large.url, event)).status).toBe(200)
    const part = { dataPool: { name: 'large' }, columns: ['_service_payload'] }
    expect(await refused({ ...part, first: 7 })).toMatchObject({ rows: { length: 7 } })
    expect(await refused({ ...part, first: 9 })).toBe(
      'BAD_REQUEST: the answer has more than 8388608 characters',
    )
    const wide = await server.createPool({ uniqueName: 'wide', columns: [] })
    expect((await send(wide.url, Array(300).fill({}))).status).toBe(200)
    const columns = Array(502).fill('_service_received_at')
    const answers = [
      refused({ dataPool: { name: 'wide' }, columns, first: 300 }),
      refused({ ...part, columns }),
    ]
    expect(await Promise.all(answers)).toMatchObject([
      'BAD_REQUEST: a page of 300 rows with 502 columns may have more than 100000 values: ask for fewer rows or columns',
      { rows: { length: 9 } },
    ])
    // One id may have many records, because each has a time of arrival of its own.
    const again = await server.createPool({
      uniqueName: 'again',
      columns: [{ name: 'id', type: 'STRING', jsonProperty: 'id', nullable: true }],
      uniqueId: 'id',
    })
    const posts = Array.from({ length: 199 }, () => send(again.url, { id: 'a' }))
    for (const { status } of await Promise.all(posts)) expect(status).toBe(200)
    const ofAgain = { dataPool: { name: 'again' }, uniqueIds: ['a'] }
    expect(await records({ ...ofAgain, columns: Array(502).fill('id') })).toBe(
      'BAD_REQUEST: the ids have more than 198 records: ask for fewer ids or columns',
    )
    expect(await records({ ...ofAgain, columns: ['id'] })).toMatchObject({ values: { length: 199 } })
  })
})
