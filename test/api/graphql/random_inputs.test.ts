/**
 * Random variables for every root field, right by their types and wrong in all else: no answer is
 * an internal error, none is another status than 200, and the catalog still opens afterwards.
 */
import type * as Graphql from 'graphql'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSchema } from '../../../src/api/graphql/graphql-schema.ts'
import { createMetric } from '../../../src/catalog/change/change-metric.ts'
import { createPolicy } from '../../../src/catalog/change/change-policy.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import { must } from '../../../src/util/errors.ts'
import { loadPackage } from '../../../src/util/load-package.ts'
import { below, newSeed, type Random, randomFrom } from '../../util/random.ts'
import { makeServer, type TestServer } from './server.ts'

const {
  getNamedType,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isListType,
  isNonNullType,
} = loadPackage('graphql') as typeof Graphql

const REQUESTS = 3_000
const LIST_MAX = 3
const POOLS_MIN = 5
const DEPTH_MAX = 5

const schema = makeSchema()
const ROOTS = (['Query', 'Mutation'] as const).flatMap(kind =>
  Object.values(fieldsOf(kind)).map(field => [kind, field] as const),
)

function fieldsOf(kind: 'Query' | 'Mutation') {
  return must(kind === 'Query' ? schema.getQueryType() : schema.getMutationType(), kind).getFields()
}

const ODD_TEXTS = [
  '',
  ' ',
  'a',
  'events',
  '__proto__',
  'constructor',
  '_service_received_at',
  'a\u0000b',
  'half \ud800',
  "' OR 1=1 --",
  '$'.concat('{{ x }}'),
  '🙂'.repeat(40),
  'x'.repeat(9_000),
  '*',
  '0001-01-01T00:00:00Z',
  'COUNT()',
  'amount',
  'account_id',
]

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

/** Makes a pool with a metric and a policy where random deletions left few. */
async function replenish(): Promise<void> {
  const { catalog } = server
  const { read } = catalog
  if (read.pools.size >= POOLS_MIN) return
  const columns = ['account_id', 'amount'].map((name, i) => ({
    name,
    jsonProperty: name,
    type: i === 0 ? 'STRING' : 'DOUBLE',
    nullable: true,
  }))
  const made = await catalog.change(createWebhookSource({ columns }, 'app'))
  const poolId = read.pools.all().at(-1)?.id ?? ''
  expect(made).toHaveProperty('pool')
  for (const decide of [
    createMetric({ poolId, type: 'SUM', column: 'amount', dimensions: ['account_id'] }, 'app'),
    createPolicy({ poolId, columns: ['*'] }, 'app'),
  ])
    expect(await catalog.change<unknown>(decide)).toHaveProperty('id')
}

/** Texts that name something, and others. */
function someText(random: Random): string {
  const { applications, metrics, policies, pools, sources } = server.catalog.read
  const all = [applications, metrics, policies, pools, sources][below(random, 5)]?.all() ?? []
  const object = all[below(random, Math.max(1, all.length))]
  // The caller stays: without it every answer is 401.
  if (object === undefined || object.id === 'app' || below(random, 3) === 0)
    return ODD_TEXTS[below(random, ODD_TEXTS.length)]!
  return below(random, 4) === 0 ? object.uniqueName : object.id
}

function someValue(type: Graphql.GraphQLInputType, random: Random, depth: number): unknown {
  if (!isNonNullType(type) && (depth > DEPTH_MAX || below(random, 3) === 0)) return null
  const bare = getNullableType(type)
  if (isListType(bare))
    return Array.from({ length: below(random, LIST_MAX + 1) }, () =>
      someValue(bare.ofType, random, depth + 1),
    )
  if (isEnumType(bare)) return must(bare.getValues()[below(random, bare.getValues().length)], bare.name).name
  if (isInputObjectType(bare))
    return Object.fromEntries(
      Object.values(bare.getFields()).map(field => [field.name, someValue(field.type, random, depth + 1)]),
    )
  if (bare.name === 'Boolean') return below(random, 2) === 0
  if (bare.name === 'Int') return [0, 1, -1, 7, 100, 2_147_483_647][below(random, 6)]
  if (bare.name === 'DateTime') return '2024-01-01T00:00:00Z'
  return someText(random)
}

/** Every field of an object that needs no argument, down to its leaves, a few levels deep. */
function selectionOf(type: Graphql.GraphQLOutputType, depth: number): string {
  const named = getNamedType(type) as Graphql.GraphQLObjectType
  if (isLeafType(named)) return ''
  if (depth === 0 || !('getFields' in named)) return ' { __typename }'
  const fields = Object.values(named.getFields())
    .filter(({ args }) => args.every(arg => !isNonNullType(arg.type)))
    .map(field => field.name + selectionOf(field.type, depth - 1))
  return ` { ${fields.join(' ')} }`
}

test('no random input is an internal error', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  const codes = new Map<string, number>()
  for (let i = 0; i < REQUESTS; i++) {
    await replenish()
    const [kind, field] = ROOTS[below(random, ROOTS.length)]!
    const declared = field.args.map(arg => `$${arg.name}: ${arg.type}`).join(', ')
    const given = field.args.map(arg => `${arg.name}: $${arg.name}`).join(', ')
    const selection = selectionOf(field.type, 2)
    const document = `${kind.toLowerCase()} Any(${declared}) { ${field.name}(${given})${selection} }`
    const variables = Object.fromEntries(field.args.map(arg => [arg.name, someValue(arg.type, random, 0)]))
    const { status, errors } = await server.ask(document, variables)
    const code = errors?.[0]?.extensions.code ?? 'served'
    const seen = `seed ${seed}, ${field.name} ${JSON.stringify(variables).slice(0, 500)}: ${JSON.stringify(errors)?.slice(0, 500)}`
    expect([status, errors?.some(({ extensions }) => extensions.code === 'INTERNAL') ?? false], seen).toEqual(
      [200, false],
    )
    codes.set(code, (codes.get(code) ?? 0) + 1)
  }
  // The inputs are neither all refused nor all served.
  for (const code of ['served', 'BAD_REQUEST', 'NOT_FOUND'])
    expect(codes.get(code)).toBeGreaterThan(REQUESTS / 100)
  await server.folder.stop()
  const { catalog } = await server.folder.open()
  expect(catalog.read.sources.size).toBeGreaterThan(0)
}, 120_000)
