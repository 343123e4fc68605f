/**
 * W-11: a GraphQL request takes a bounded share of the main thread: limits, slices, turns of
 * applications.
 */

import type { GraphQLResolveInfo } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Budget } from '../../../src/api/graphql/context.ts'
import {
  GRAPHQL_BURST_MS,
  GRAPHQL_SHARE,
  GRAPHQL_SLICE_MS,
  inSlices,
  MainThreadShare,
  Slices,
} from '../../../src/api/graphql/cpu-share.ts'
import { locationsOf, takePositions } from '../../../src/api/graphql/graphql-errors.ts'
import { graphql } from '../../../src/api/graphql/library.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import { must } from '../../../src/util/errors.ts'
import { GRAPHQL_BODY_BYTES_MAX, GRAPHQL_VALUES_MAX } from '../../../src/util/limits.ts'
import { BASIC, makeServer, type TestServer } from './server.ts'

const many = (count: number, one: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => one(index)).join(' ')

const COUNTER = 'query ($input: CounterInput!) { counter(input: $input) { value } }'
const CREATE =
  'mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { id } } }'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
  const columns = Array.from({ length: 498 }, (_, i) => `c${i}`)
  await server.catalog.change(
    createWebhookSource(
      {
        uniqueName: 'wide',
        columns: columns.map(name => ({ name, jsonProperty: name, type: 'INT8', nullable: true })),
      },
      'app',
    ),
  )
})
afterAll(() => server.stop())

describe('a body', () => {
  async function refused(body: string, message: RegExp): Promise<void> {
    const reply = await server.send(BASIC, body)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.body).errors[0].message).toMatch(message)
  }

  test('is not parsed if it has too many parts', async () => {
    const objects = '{},'.repeat(100_000)
    await refused(`{"query":"{__typename}","variables":{"a":[${objects}{}]}}`, /objects, lists and commas/)
    const metric = { count: { dataPool: { name: 'events' } } }
    const filters = Array.from({ length: 9_000 }, () => ({ column: 'a', operator: 'EQUALS', value: 'x' }))
    const body = JSON.stringify({ query: COUNTER, variables: { input: { metric, filters } } })
    await refused(body, /objects, lists and commas/)
    await refused(JSON.stringify({ query: `${'#\n'.repeat(100_000)}{ __typename }` }), /objects, lists/)
    await refused(JSON.stringify({ query: `{ __typename ${','.repeat(100_000)} }` }), /objects, lists/)
    await refused(JSON.stringify({ query: ' '.repeat(GRAPHQL_BODY_BYTES_MAX) }), /more than 655360 bytes/)
  })

  test('has room for the largest pool', async () => {
    const columns = Array.from({ length: 500 }, (_, i) => ({
      name: String(i).padStart(128, 'n'),
      jsonProperty: String(i).padStart(1_024, 'p'),
      type: 'TIMESTAMP',
      nullable: true,
    }))
    const variables = { input: { uniqueName: 'largest', connectionSettings: { columns } } }
    expect(JSON.stringify({ query: CREATE, variables }).length).toBeGreaterThan(600_000)
    expect((await server.ask(CREATE, variables)).errors).toBeUndefined()
    const written = columns.map(({ type, ...texts }) => {
      const [name, property] = [JSON.stringify(`x${texts.name.slice(1)}`), JSON.stringify(texts.jsonProperty)]
      return `{ name: ${name}, jsonProperty: ${property}, type: ${type}, nullable: true }`
    })
    const document = `mutation { createWebhookDataSource(input: { connectionSettings: { columns: [${written}] } }) { dataSource { id } } }`
    expect((await server.ask(document)).errors).toBeUndefined()
  })
})

describe('a document', () => {
  async function refused(query: string, message: RegExp): Promise<void> {
    const { status, errors } = await server.ask(query)
    expect([status, errors?.[0]?.extensions]).toEqual([200, { code: 'BAD_REQUEST' }])
    expect(errors?.[0]?.message).toMatch(message)
  }

  test('is not validated if fields of one name make too many pairs', async () => {
    const pairs = /too often for fields of one name/
    await refused(`{ ${many(600, () => 'dataPool(id: "x") { id }')} }`, pairs)
    await refused(`{ ${many(30, () => `dataPools { ${many(20, () => 'nodes { id }')} }`)} }`, pairs)
    const fragments = many(199, i => `fragment F${i} on Query { ${many(10, k => `x${k}: __typename`)} }`)
    await refused(`{ ${many(199, i => `...F${i}`)} } ${fragments}`, pairs)
    // Pages are made of parts that all ask for the same few fields: those are no pairs too many.
    const parts = many(100, i => `fragment F${i} on DataPool { id uniqueName a${i}: description }`)
    const page = `{ dataPools { nodes { ${many(100, i => `...F${i}`)} } } } ${parts}`
    expect((await server.ask(page)).errors).toBeUndefined()
    const counters = many(100, i => `a${i}: dataPool(id: "x") { id uniqueName }`)
    expect((await server.ask(`{ ${counters} }`)).errors?.[0]?.message).toBe('Data Pool not found')
  })

  test('is refused if it has too many lines or a name is too long', async () => {
    await refused('\n'.repeat(300_000), /more than 20000 lines/)
    await refused(`{ dataPool(id: """${'\r'.repeat(300_000)}""") { id } }`, /more than 20000 lines/)
    await refused(`{ ${'n'.repeat(30_000)} }`, /name of more than 1024 characters/)
  })

  test('is not validated if its fragments would be walked too often', async () => {
    const walked = /too many operations or fields that spread its fragments/
    const chain = many(199, i => `fragment F${i} on Node { ${i < 198 ? `...F${i + 1}` : 'id'} }`)
    await refused(`${many(500, i => `query o${i} { ...F0 }`)} ${chain}`, walked)
    await refused(`{ ${many(900, i => `a${i}: dataPools { ...F0 }`)} } ${chain}`, walked)
    const uses = `fragment F on Query { counter(input: { filters: [${many(2_000, () => '$v')}] }) { value } }`
    await refused(`${uses} ${many(250, i => `query o${i}($v: FilterInput!) { ...F }`)}`, walked)
    const few = uses.replace(/(\$v ){1900}/, '')
    const { errors } = await server.ask(`${few} ${many(50, i => `query o${i}($v: FilterInput!) { ...F }`)}`)
    expect(errors?.[0]?.message).toMatch(/Must provide operation name/)
  })

  test('is not read again for the location of each error', async () => {
    const text = '\n\n{\n  a: dataPool(id: "x") { id }\n   b: dataPool(id: "y") { id }\n}'
    expect((await server.ask(text)).errors).toMatchObject([
      { path: ['a'], locations: [{ line: 4, column: 3 }] },
      { path: ['b'], locations: [{ line: 5, column: 4 }] },
    ])
    expect((await server.ask('{\n nothing }')).errors).toMatchObject([
      { locations: [{ line: 2, column: 2 }] },
    ])
    expect((await server.ask('{\n !')).errors).toMatchObject([{ locations: [{ line: 2, column: 2 }] }])
    const document = graphql.parse(text)
    takePositions(document)
    const error = new graphql.GraphQLError('any', { nodes: document.definitions })
    expect(error.locations).toBeUndefined() // graphql reads the text from its beginning for them
    expect(locationsOf(error)).toEqual([{ line: 3, column: 1 }])
  })

  test('may not have fragments that spread each other in many ways', async () => {
    const link = (name: string, next: string) =>
      `fragment ${name} on DataPool { ${many(9, i => `a${i}: dataSource { dataPools { nodes { ...${next} } } }`)} }`
    await refused(
      `{ dataPools { nodes { ...A } } } ${link('A', 'B')} ${link('B', 'A')}`,
      /spread each other|more than/,
    )
  })
})

describe('an answer', () => {
  test('does not repeat a long value in each error about it', async () => {
    const wrong = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`u${i}`, 1]))
    const body = JSON.stringify({
      query: COUNTER,
      variables: { input: { ...wrong, metricId: 'x'.repeat(500_000) } },
    })
    const reply = await server.send(BASIC, body)
    expect(reply.body.length).toBeLessThan(20_000)
    expect(JSON.parse(reply.body).errors[0].message).toMatch(/^Variable "\$input" got invalid value .* …$/)
  })

  test('charges the inside of a list once', async () => {
    const wide = (selection: string) => `{ dataPoolByName(uniqueName: "wide") { ${selection} } }`
    const fine = await server.ask(wide(many(95, i => `a${i}: columns { nodes { columnName type } }`)))
    expect(fine.errors).toBeUndefined()
    expect(fine.data.dataPoolByName.a94.nodes[499]).toEqual({ columnName: 'c497', type: 'INT8' })
  })

  test('is the same with and without slices', async () => {
    const whole = '{ dataPoolByName(uniqueName: "wide") { columns { nodes { columnName } } } }'
    const { data } = await server.ask(whole)
    const fields = many(40, i => `n${i}: columnName`)
    const sliced = await server.ask(
      `{ dataPoolByName(uniqueName: "wide") { columns { nodes { ${fields} } edges { cursor node { columnName } } } } }`,
    )
    expect(sliced.errors).toBeUndefined()
    const { nodes, edges } = sliced.data.dataPoolByName.columns
    expect(nodes.map((node: { n39: string }) => ({ columnName: node.n39 }))).toEqual(
      data.dataPoolByName.columns.nodes,
    )
    expect(edges.map((edge: { node: object }) => edge.node)).toEqual(data.dataPoolByName.columns.nodes)
  })

  test('of many values lets other work have its turns', async () => {
    const query = `{ ${many(20, i => `a${i}: __schema { types { name fields { name } } }`)} }`
    let turns = 0
    let isDone = false
    const count = () => {
      turns += 1
      if (!isDone) setImmediate(count)
    }
    setImmediate(count)
    const { errors } = await server.ask(query)
    isDone = true
    expect(errors).toBeUndefined()
    // Before, the whole answer was made in one of them.
    expect(turns).toBeGreaterThan(10)
  })

  test('of many texts has its turns later, and its limit as early', () => {
    const schema = graphql.buildSchema('type Query { t: [String!]! l: [[String!]!]! i: [ID!] e: [String] }')
    const infoOf = (field: string) => {
      const parentType = must(schema.getQueryType(), 'the type of queries')
      const { type: returnType } = must(parentType.getFields()[field], 'a field')
      return { fieldNodes: [{}], parentType, returnType } as unknown as GraphQLResolveInfo
    }
    const due = (field: string, counts: readonly number[]) => {
      const budget = new Budget(() => 1)
      return counts.map(count => {
        budget.objects(count, infoOf(field))
        return budget.isTurnDue()
      })
    }
    for (const texts of ['t', 'e'])
      expect(due(texts, [2_000, 2_000, 2_000, 2_000])).toEqual([false, true, false, true])
    // Lists of lists, and what is more than a text, count whole.
    for (const others of ['l', 'i'])
      expect(due(others, [200, 200, 200, 200])).toEqual([false, true, false, true])
    const budget = new Budget(() => 1)
    expect(budget.objects(GRAPHQL_VALUES_MAX, infoOf('t'))).toBe(GRAPHQL_VALUES_MAX / 8)
    expect(() => budget.objects(1, infoOf('t'))).toThrow(/more than 100000 values/)
  })
})

describe('the share of the main thread', () => {
  /** A clock that only work moves. */
  function clock() {
    let nowMs = 1_000
    return {
      now: () => nowMs,
      work: (ms: number) => {
        nowMs += ms
      },
    }
  }

  test('lets a few requests run at once, and the next ones when the earlier cost is paid back', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    expect(await share.enter('a')).toBe(true)
    new Slices(share, 'a', now).whole(() => work(GRAPHQL_BURST_MS))
    expect(await share.enter('a')).toBe(true) // within the credit
    new Slices(share, 'a', now).whole(() => work(GRAPHQL_BURST_MS))
    let isIn = false
    const third = share.enter('a').then(() => {
      isIn = true
    })
    await new Promise(resolve => setTimeout(resolve, 5))
    expect(isIn).toBe(false)
    work(GRAPHQL_BURST_MS / GRAPHQL_SHARE)
    await third
  })

  test('goes to one request at a time, though many come in one turn of the loop', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    let entered = 0
    const all = Array.from({ length: 16 }, async () => {
      expect(await share.enter('a')).toBe(true)
      entered += 1
      new Slices(share, 'a', now).whole(() => work(GRAPHQL_BURST_MS + 1))
    })
    await new Promise(setImmediate)
    expect(entered).toBe(1)
    const pays = setInterval(() => work(100), 1)
    await Promise.all(all)
    clearInterval(pays)
  })

  test('goes to applications in turns, and first to requests that have started', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    share.charge('other', now() - 40)
    const order: string[] = []
    const told = (name: string) => () => {
      order.push(name)
    }
    const all = [
      share.enter('a').then(told('a1')),
      share.enter('a').then(told('a2')),
      share.enter('b').then(told('b1')),
      share.next('a').then(told('a going')),
      share.enter('b').then(told('b2')),
    ]
    work(10_000)
    await Promise.all(all)
    expect(order).toEqual(['a going', 'b1', 'a1', 'b2', 'a2'])
  })

  test('makes a request wait for so long, and then refuses it', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now, 100)
    share.charge('a', now() - 30)
    expect(await share.enter('a')).toBe(false) // no time passes
    const waiting = share.enter('a')
    work(10_000)
    expect(await waiting).toBe(true)
  })

  test('is given to the questions of a request one by one', async () => {
    const { now, work } = clock()
    const slices = new Slices(new MainThreadShare(now), 'a', now)
    let planned = 0
    let most = 0
    let isDone = false
    const turnOfTheLoop = () => {
      planned = 0
      work(100)
      if (!isDone) setImmediate(turnOfTheLoop)
    }
    setImmediate(turnOfTheLoop)
    const question = () =>
      slices.inOrder(() => {
        planned += 1
        most = Math.max(most, planned)
        work(GRAPHQL_SLICE_MS)
      })
    await Promise.all(Array.from({ length: 50 }, question))
    isDone = true
    expect(most).toBeLessThanOrEqual(2)
  })

  test('is not charged for what a question waits for', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    const slices = new Slices(share, 'a', now)
    const waits = async () => {
      await new Promise(setImmediate)
      work(60_000) // its query runs
    }
    await slices.inOrder(() => work(1))
    await waits()
    await slices.inOrder(() => work(1))
    await waits()
    expect(slices.step()).toBeUndefined() // a question begins, and waits for its text to be parsed
    await waits()
    slices.whole(() => work(1))
    await Promise.all(await inSlices([1, 2], slices))
    work(1) // the last item is completed
    await waits()
    slices.whole(() => work(1))
    let isIn = false
    const other = share.enter('b').then(() => {
      isIn = true
    })
    await Promise.resolve()
    expect(isIn).toBe(true)
    await other
  })

  test('is charged once for the work of two requests in one turn of the loop', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    const both = ['a', 'b'].map(name => new Slices(share, name, now))
    for (const slices of both) expect(slices.step()).toBeUndefined()
    work(GRAPHQL_BURST_MS)
    await new Promise(setImmediate)
    expect(share.owedMs()).toBe(0)
  })

  test('goes first to the application that used less of it', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    work(50)
    share.charge('heavy', now() - 50)
    const order: string[] = []
    const all = ['heavy', 'heavy', 'light', 'light', 'heavy'].map(async name => {
      await share.next(name)
      order.push(name)
    })
    work(10_000)
    await Promise.all(all)
    expect(order).toEqual(['light', 'light', 'heavy', 'heavy', 'heavy'])
  })

  test('interrupts a request after a slice', async () => {
    const { now, work } = clock()
    const share = new MainThreadShare(now)
    const slices = new Slices(share, 'a', now)
    expect(slices.step()).toBeUndefined()
    work(GRAPHQL_SLICE_MS - 1)
    expect(slices.step()).toBeUndefined()
    await new Promise(setImmediate)
    work(100) // it waits
    expect(slices.step()).toBeUndefined()
    work(1)
    const pause = slices.step()
    expect(pause).toBeInstanceOf(Promise)
    expect(slices.step()).toBe(pause)
    await pause
    expect(slices.step()).toBeUndefined()
  })
})
