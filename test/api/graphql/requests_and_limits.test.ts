import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import { BASIC, makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

async function sent(authorization: string | undefined, body: string | Uint8Array) {
  const reply = await server.send(authorization, body)
  expect(reply.headers['Content-Type']).toBe('application/json')
  return { ...JSON.parse(reply.body), status: reply.status, headers: reply.headers }
}

const OK = JSON.stringify({ query: '{ __typename }' })

describe('tokens', () => {
  test('are needed: 401 with a challenge', async () => {
    for (const authorization of [
      undefined,
      '',
      'Bearer x',
      `Basic ${Buffer.from('app:wrong').toString('base64')}`,
    ]) {
      const { status, headers, errors } = await sent(authorization, OK)
      expect([status, errors[0].extensions.code]).toEqual([401, 'UNAUTHENTICATED'])
      expect(headers['WWW-Authenticate']).toMatch(/^Bearer/)
    }
    expect(await sent(BASIC, OK)).toMatchObject({ status: 200, data: { __typename: 'Query' } })
  })

  test('without admin neither manage nor see sources', async () => {
    const scope = ['data_pool:query', 'data_pool:read'] as const
    const create =
      'mutation { createWebhookDataSource(input: {connectionSettings: {}}) { dataSource { id } } }'
    const documents = [
      create,
      '{ dataSource(id: "x") { id } }',
      '{ dataSourceByName(uniqueName: "events") { id } }',
      '{ dataSources { nodes { id } } }',
      '{ dataPoolByName(uniqueName: "events") { dataSource { id } } }',
      'mutation { deleteDataPool(id: "x") }',
      'mutation { deleteDataPoolByName(uniqueName: "events") }',
      'mutation { deleteDataSource(id: "x") }',
      'mutation { deleteDataSourceByName(uniqueName: "events") }',
    ]
    for (const document of documents) {
      const { status, errors } = await server.ask(document, null, { scope })
      expect([document, status, errors?.[0]?.extensions.code]).toEqual([document, 200, 'FORBIDDEN'])
      expect(errors?.[0]?.message).toMatch(
        /^Application app is not allowed to .*because it lacks the "admin" scope$/,
      )
    }
    expect(server.catalog.read.pools.byName('events')).toBeDefined()
    const pools = await server.ask('{ dataPools { nodes { uniqueName } } }', null, {
      scope: ['metric:query'],
    })
    expect(pools.errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
  })
})

describe('a body', () => {
  test('that is not a GraphQL request gets 400', async () => {
    const bodies = ['', '{', 'null', '[]', '"x"', '{}', '{"query":1}', '{"query":"{a}","variables":[]}']
    for (const body of [...bodies, '{"query":"{a}","operationName":5}', new Uint8Array([0x22, 0xff, 0x22])]) {
      const { status, errors } = await sent(BASIC, body)
      expect([status, errors[0].extensions.code]).toEqual([400, 'BAD_REQUEST'])
    }
  })

  test('may name an operation that is not there when there is one, not when there are two', async () => {
    const one = 'query A { __typename }'
    for (const operationName of ['B', '', 'A'])
      expect((await server.ask(one, null, { operationName })).data).toEqual({ __typename: 'Query' })
    const two = `${one} query B { b: __typename }`
    expect((await server.ask(two, null, { operationName: 'B' })).data).toEqual({ b: 'Query' })
    for (const operationName of ['C', ''])
      expect((await server.ask(two, null, { operationName })).errors).toMatchObject([
        { extensions: { code: 'BAD_REQUEST' } },
      ])
  })

  test('may have variables named like properties of every object', async () => {
    const body = '{"query":"{__typename}","variables":{"__proto__":{"a":1},"constructor":2}}'
    expect(await sent(BASIC, body)).toMatchObject({ status: 200, data: { __typename: 'Query' } })
  })
})

describe('a document', () => {
  async function refused(query: string, message: RegExp, variables: object | null = null): Promise<void> {
    const { status, data, errors } = await server.ask(query, variables)
    expect([status, data ?? null, errors?.[0]?.extensions]).toEqual([200, null, { code: 'BAD_REQUEST' }])
    expect(errors?.[0]?.message).toMatch(message)
    expect(JSON.stringify(errors)).not.toMatch(/node_modules|\.js:/)
  }

  test('that is not valid is refused with 200', async () => {
    await refused('', /Syntax Error/)
    await refused('{ nope }', /Cannot query field "nope"/)
    await refused('{ dataPool { id } }', /"id"/)
    await refused('query ($id: ID!) { dataPool(id: $id) { id } }', /\$id/)
    await refused('subscription { a }', /subscription/i)
    const input = {
      connectionSettings: { columns: [{ name: 'a', jsonProperty: 'a', type: 'string', nullable: true }] },
    }
    await refused(
      'mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { id } } }',
      /ColumnType/,
      { input },
    )
  })

  test('has at most 2000 fields, fragments spread', async () => {
    const fields = (count: number): string =>
      Array.from({ length: count }, (_, i) => `f${i}: __typename`).join(' ')
    expect((await server.ask(`{ ${fields(2000)} }`)).errors).toBeUndefined()
    await refused(`{ ${fields(2001)} }`, /more than 2000 fields/)
    const doubling = Array.from(
      { length: 40 },
      (_, i) => `fragment F${i} on Query { ...F${i + 1} ...F${i + 1} }`,
    )
    await refused(
      `{ ...F0 } ${doubling.join('\n')} fragment F40 on Query { __typename }`,
      /more than 2000 fields/,
    )
  })

  test('is cached by its whole text if it is valid, and the caller’s rights are still checked', async () => {
    for (let i = 0; i < 300; i++) {
      const good = await server.ask(`{ a${i % 150}: __typename }`)
      expect(good.data).toEqual({ [`a${i % 150}`]: 'Query' })
    }
    const document = '{ dataSources { nodes { uniqueName } } }'
    expect((await server.ask(document)).errors).toBeUndefined()
    const { errors } = await server.ask(document, null, { scope: ['data_pool:query'] })
    expect(errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    await refused('{ nope }', /Cannot query field "nope"/)
    await refused('{ nope }', /Cannot query field "nope"/)
  })

  test('survives fragments that spread each other', async () => {
    await refused(
      '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }',
      /Cannot spread fragment "A" within itself/,
    )
  })

  test('has at most 200 fragments, each of which may spread the next', async () => {
    const chain = (length: number): string => {
      const links = Array.from({ length: length - 1 }, (_, i) => `fragment F${i} on Query { ...F${i + 1} }`)
      return `{ ...F0 } ${links.join(' ')} fragment F${length - 1} on Query { __typename }`
    }
    expect((await server.ask(chain(200))).data).toEqual({ __typename: 'Query' })
    await refused(chain(201), /more than 200 fragments/)
    await refused(chain(900), /more than 200 fragments/)
    await refused(chain(2_000), /tokens/)
  })

  test('nests at most 24 fields', async () => {
    const nested = (pairs: number): string =>
      `{ dataPools { nodes { ${'dataSource { dataPools { nodes { '.repeat(pairs)} id ${'} } } '.repeat(pairs)} } } }`
    expect((await server.ask(nested(7))).errors).toBeUndefined()
    await refused(nested(8), /deeper than 24/)
  })

  test('opens few brackets, and so do variables', async () => {
    await refused('{a'.repeat(9_000), /brackets/)
    await refused(`{ a(b: ${'['.repeat(9_000)}`, /brackets/)
    await refused('a '.repeat(60_000), /tokens/)
    const variables = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`
    const { status, errors } = await sent(BASIC, `{"query":"{__typename}","variables":${variables}}`)
    expect([status, errors[0].extensions.code]).toEqual([400, 'BAD_REQUEST'])
  })
})

describe('an answer', () => {
  const many = (count: number, one: (index: number) => string): string =>
    Array.from({ length: count }, (_, index) => one(index)).join(' ')

  async function tooMuch(query: string, variables: object | null = null): Promise<void> {
    const { status, errors } = await server.ask(query, variables)
    expect(status).toBe(200)
    expect(errors?.[0]).toMatchObject({
      message: expect.stringMatching(/^(The answer has more than 100000 values|A request takes at most 200)/),
      extensions: { code: 'BAD_REQUEST' },
    })
    expect(JSON.stringify(errors).length).toBeLessThan(1_000_000)
  }

  test('has at most 100,000 values, in whatever way the lists are selected', async () => {
    const columns = many(498, i => `c${i}`).split(' ')
    const made = await server.catalog.change(
      createWebhookSource(
        {
          uniqueName: 'wide',
          columns: columns.map(name => ({ name, jsonProperty: name, type: 'INT8', nullable: true })),
        },
        'app',
      ),
    )
    expect(made).toHaveProperty('pool')
    const wide = (selection: string) => `{ dataPoolByName(uniqueName: "wide") { ${selection} } }`
    const fine = await server.ask(wide(many(60, i => `a${i}: columns { nodes { columnName type } }`)))
    expect(fine.errors).toBeUndefined()
    expect(fine.data.dataPoolByName.a59.nodes).toHaveLength(500)
    await tooMuch(wide(many(100, i => `a${i}: columns { nodes { columnName type } }`)))
    await tooMuch(wide(many(100, i => `a${i}: columns { edges { node { columnName type } } }`)))
    await tooMuch(wide(`columns { nodes { ${many(210, i => `a${i}: columnName`)} } }`))
    const settings = `... on WebhookConnectionSettings { columns { ${many(210, i => `a${i}: name`)} } }`
    await tooMuch(wide(`dataSource { connectionSettings { ${settings} } }`))
  })

  test('of introspection has a limit of its own', async () => {
    const refused = async (query: string) => {
      const { errors } = await server.ask(query)
      expect(errors).toMatchObject([
        { message: expect.stringMatching(/more than 30000 values of the schema/) },
      ])
    }
    await refused(`{ __schema { types { ${many(1_900, i => `a${i}: name`)} } } }`)
    await refused(`{ __schema { types { fields { ${many(400, i => `a${i}: name`)} } } } }`)
  })

  test('takes at most 200 queries', async () => {
    const input = { metric: { count: { dataPool: { name: 'events' } } } }
    const ask = (count: number) =>
      [
        `query ($input: CounterInput!) { ${many(count, i => `a${i}: counter(input: $input) { value }`)} }`,
        { input },
      ] as const
    const fine = await server.ask(...ask(200))
    expect(fine.errors).toBeUndefined()
    expect(fine.data.a199).toEqual({ value: '42' })
    await tooMuch(...ask(201))
    const filters = [{ column: 'a', operator: 'EQUALS', value: 'x'.repeat(65_000) }]
    const [document] = ask(20)
    const { data, errors } = await server.ask(document, { input: { ...input, filters } })
    expect([data.a7, data.a8, errors?.length]).toEqual([{ value: '42' }, null, 12])
    expect(errors?.[0]?.message).toMatch(/more than 524288 characters/)
  })
})

describe('creation over GraphQL', () => {
  test('passes the catalog’s refusals on', async () => {
    const create = (name: string, uniqueName: string) =>
      server.ask(
        'mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { id } } }',
        {
          input: {
            uniqueName,
            connectionSettings: { columns: [{ name, jsonProperty: 'a', type: 'STRING', nullable: true }] },
          },
        },
      )
    expect((await create('ok', 'name')).errors).toBeUndefined()
    for (const [name, uniqueName] of [
      ['ok', 'name'],
      ['_service_x', ''],
      ['ok', 'events'],
    ] as const)
      expect((await create(name, uniqueName)).errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })

  test('answers UNAVAILABLE when the catalog cannot write', async () => {
    const other = await makeServer()
    await other.catalog.stop()
    const { status, errors } = await other.ask(
      'mutation { createWebhookDataSource(input: {connectionSettings: {}}) { dataSource { id } } }',
    )
    expect([status, errors?.[0]?.extensions.code]).toEqual([200, 'UNAVAILABLE'])
    await other.stop()
  })
})
