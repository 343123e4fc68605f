/**
 * docs/graphql.md says of each root field which scopes it needs and what it answers. Every one is
 * called without its scopes, and every one that is refused is called with them.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSchema } from '../../../src/api/graphql/graphql-schema.ts'
import { RULES } from '../../../src/api/graphql/scopes.ts'
import { SCOPES, type Scope } from '../../../src/catalog/documents/model.ts'
import { must } from '../../../src/util/errors.ts'
import { anyDocument, rootFields } from './any-document.ts'
import { makeServer, type TestServer } from './server.ts'

const PAGE = new URL('../../../../docs/graphql.md', import.meta.url)
const schema = makeSchema()

interface Row {
  readonly kind: 'Query' | 'Mutation'
  readonly name: string
  readonly scopes: readonly string[]
  readonly answer: string
}

function rowsOf(kind: Row['kind']): Row[] {
  const heading = kind === 'Query' ? 'Queries' : 'Mutations'
  const section = must(readFileSync(PAGE, 'utf8').split(`\n## ${heading}\n`)[1], heading).split('\n## ')[0]
  return [...must(section, heading).matchAll(/^\| `(\w+)` +\| (.*?) +\| (.*?) *\|$/gm)].map(
    ([, name, scopes, answer]) => ({
      kind,
      name: must(name, 'a name'),
      scopes: [...must(scopes, 'scopes').matchAll(/`([\w:]+)`/g)].map(([, scope]) => must(scope, 'a scope')),
      answer: must(answer, 'an answer'),
    }),
  )
}

const rows = [...rowsOf('Query'), ...rowsOf('Mutation')]

let server: TestServer
/** Ids that exist, by the name of the argument. */
let values: Readonly<Record<string, unknown>>
beforeAll(async () => {
  server = await makeServer()
  const pool = must(server.catalog.read.pools.byName('events'), 'the first pool')
  values = { dataPool: pool.id, dataPoolId: pool.id, uniqueName: 'events' }
})
afterAll(() => server.stop())

test('the page has every root field once', () => {
  for (const kind of ['Query', 'Mutation'] as const)
    expect(rowsOf(kind).map(({ name }) => name)).toEqual(rootFields(schema, kind).sort())
})

test('the page names the scopes that are checked', () => {
  for (const { name, scopes } of rows) {
    const rule = RULES.get(name)
    if (rule === undefined) throw new Error(`${name} has no rule`)
    expect([name, scopes]).toEqual([
      name,
      rule === null ? ['data_pool:query', 'metric:query'] : rule.slice(1),
    ])
  }
})

describe('without its scopes', () => {
  for (const { kind, name, scopes } of rows)
    test(`${name} is FORBIDDEN`, async () => {
      const others = SCOPES.filter(scope => !scopes.includes(scope)) as Scope[]
      const counted = { metric: { count: { dataPool: { name: 'events' } } } }
      const asksMetric = scopes.includes('metric:query') && scopes.includes('data_pool:query')
      const given = name === 'counters' ? { input: [counted] } : asksMetric ? counted : values
      const [document, variables] = anyDocument(schema, kind, name, given)
      const { status, errors } = await server.ask(document, variables, { scope: others })
      expect(status).toBe(200)
      expect(errors).toHaveLength(1)
      expect(errors?.[0]?.extensions).toEqual({ code: 'FORBIDDEN' })
      expect(errors?.[0]?.message).toMatch(
        /^Application app is not allowed to .* because it lacks the "[a-z:-]+" scope$/,
      )
    })
})

describe('with its scopes', () => {
  for (const { kind, name, answer } of rows) {
    const refused = /^refused: `(\w+)` (.*)$/.exec(answer)
    if (refused === null) continue
    test(`${name} is refused as the page says`, async () => {
      const pool = must(server.catalog.read.pools.byName('events'), 'the first pool')
      const own = /Syncing$/.test(name) ? { ...values, id: pool.id } : values
      const [document, variables] = anyDocument(schema, kind, name, own)
      const { status, errors } = await server.ask(document, variables)
      expect(status).toBe(200)
      expect(errors?.[0]).toMatchObject({ message: refused[2], extensions: { code: refused[1] } })
    })
  }

  for (const { kind, name } of rows.filter(({ name }) => name.startsWith('delete')))
    test(`${name} of what is not there is no error`, async () => {
      if (kind === 'Query') return
      const missing = { id: 'DPO00000000000000000000000000', uniqueName: 'missing' }
      for (const value of [missing, { id: '', uniqueName: '' }]) {
        const [document, variables] = anyDocument(schema, kind, name, value)
        expect(await server.ask(document, variables)).toEqual({ status: 200, data: { [name]: null } })
      }
    })

  const lookUps = rows.filter(
    ({ kind, name, answer }) =>
      kind === 'Query' && answer === 'served' && !/s$|^counter|^leaderboard|^metricReport|Status$/.test(name),
  )
  for (const { name } of lookUps)
    test(`${name} of what is not there is NOT_FOUND`, async () => {
      const [document, variables] = anyDocument(schema, 'Query', name, { id: 'x', uniqueName: 'missing' })
      const { data, errors } = await server.ask(document, variables)
      const type = String(schema.getQueryType()?.getFields()[name]?.type)
      expect(data).toEqual(type.endsWith('!') ? null : { [name]: null })
      expect(errors).toMatchObject([
        {
          message: expect.stringMatching(/^[A-Z].* not found$/),
          path: [name],
          extensions: { code: 'NOT_FOUND' },
        },
      ])
    })
})
