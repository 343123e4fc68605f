/** The schema is the one that existing clients are written against, name by name. */
import type * as Graphql from 'graphql'
import { expect, test } from 'vitest'
import { makeSchema } from '../../../src/api/graphql/graphql-schema.ts'
import { must } from '../../../src/util/errors.ts'
import { loadPackage } from '../../../src/util/load-package.ts'
import { readAppendix } from './appendix.ts'

const { isEnumType, isInputObjectType, isInterfaceType, isObjectType, isScalarType, isUnionType } =
  loadPackage('graphql') as typeof Graphql

/** The members that Weir has beyond the appendix. Their descriptions say so. */
const OWN = new Map([
  ['ApplicationScope', ['DATA_POOL_WRITE']],
  ['DataPool', ['webhookUrl: String', 'isBuiltIn: Boolean!', 'activity: DataPoolActivity']],
  [
    'Query',
    [
      'percentile(input: PercentileInput!): PercentileResponse!',
      'inferColumns(samples: String, dataPool: DataPoolInput): InferredColumns!',
      'webhookPresets: [WebhookPreset!]!',
      'serverStatus: ServerStatus!',
      'unfinishedJobs: [UnfinishedJob!]!',
      'rejectedEventsDataPool: DataPool!',
      'replayRejectedEventsJob(id: ID!): ReplayRejectedEventsJob',
    ],
  ],
  [
    'Mutation',
    [
      'cancelJob(id: ID!): CancelJobResponse!',
      'createReplayRejectedEventsJob(input: CreateReplayRejectedEventsJobInput!): ReplayRejectedEventsJobResponse!',
    ],
  ],
  ['QueryInfo', ['fromCache: Boolean!']],
  [
    'WebhookConnectionSettingsInput',
    [
      'accept: [WebhookAccept!]',
      'signature: WebhookSignatureInput',
      'signatureEnabled: Boolean',
      'preset: String',
      'verifyToken: String',
      'eventsPath: String',
      'keepEnvelope: Boolean',
      'rejectedEvents: RejectedEvents',
    ],
  ],
  [
    'PartialWebhookConnectionSettingsInput',
    [
      'accept: [WebhookAccept!]',
      'signature: WebhookSignatureInput',
      'signatureEnabled: Boolean',
      'preset: String',
      'verifyToken: String',
      'eventsPath: String',
      'keepEnvelope: Boolean',
      'rejectedEvents: RejectedEvents',
    ],
  ],
  [
    'WebhookConnectionSettings',
    [
      'accept: [WebhookAccept!]!',
      'signature: WebhookSignatureSettings',
      'preset: String',
      'verifyToken: String',
      'eventsPath: String',
      'keepEnvelope: Boolean!',
      'rejectedEvents: RejectedEvents!',
    ],
  ],
  ['SqlV1Input', ['parameters: [SqlParameterV1Input!]']],
  ['DescribeSqlV1Input', ['parameters: [SqlParameterV1Input!]']],
  ['WebhookDataSourceColumnInput', ['coerce: Boolean']],
  ['WebhookDataSourceColumn', ['coerce: Boolean!']],
  ['CreateAddColumnToDataPoolJobInput', ['coerce: Boolean']],
])
/** The types that Weir has beyond the appendix. */
const OWN_TYPES = [
  'PercentileInput',
  'PercentileResponse',
  'SqlParameterV1Input',
  'CancelJobResponse',
  'WebhookAccept',
  'WebhookSignatureScheme',
  'HmacAlgorithm',
  'HmacEncoding',
  'WebhookSignatureInput',
  'WebhookSignatureSettings',
  'WebhookPreset',
  'ServerStatus',
  'BusyDataPool',
  'DataPoolActivity',
  'UnfinishedJob',
  'JobKind',
  'InferredColumns',
  'InferredColumn',
  'InferredKey',
  'LeftOutProperty',
  'RejectedEvents',
  'CreateReplayRejectedEventsJobInput',
  'ReplayRejectedEventsJob',
  'ReplayRejectedEventsJobResponse',
]

const schema = makeSchema()
const types = Object.values(schema.getTypeMap()).filter(
  type => !type.name.startsWith('__') && !isScalarType(type),
)

const deprecated = (one: { readonly deprecationReason?: string | null | undefined }) =>
  one.deprecationReason === undefined || one.deprecationReason === null ? '' : '†'

function membersOf(type: Graphql.GraphQLNamedType): string[] {
  if (isEnumType(type)) return type.getValues().map(value => value.name + deprecated(value))
  if (isUnionType(type)) return type.getTypes().map(({ name }) => name)
  if (isInputObjectType(type))
    return Object.values(type.getFields()).map(field => `${field.name}${deprecated(field)}: ${field.type}`)
  const { getFields } = type as Graphql.GraphQLObjectType
  return Object.values(getFields.call(type)).map(field => {
    const args = field.args.map(arg => `${arg.name}: ${arg.type}${deprecated(arg)}`).join(', ')
    return `${field.name}${deprecated(field)}${args === '' ? '' : `(${args})`}: ${field.type}`
  })
}

function kindOf(type: Graphql.GraphQLNamedType): string {
  if (isObjectType(type)) return 'type'
  if (isInterfaceType(type)) return 'interface'
  if (isInputObjectType(type)) return 'input'
  return isEnumType(type) ? 'enum' : 'union'
}

/** The appendix writes an argument's dagger behind its type, as this test does. */
const shown = (name: string, type: Graphql.GraphQLNamedType) => ({
  name,
  kind: kindOf(type),
  members: membersOf(type)
    .filter(member => !OWN.get(name)?.includes(member))
    .sort(),
})

test('every type of the appendix is in the schema, and none but additions that are listed', () => {
  const expected = readAppendix()
  expect(expected.size).toBeGreaterThan(180)
  expect(types.map(({ name }) => name).sort()).toEqual([...expected.keys(), ...OWN_TYPES].sort())
})

test('every member has the name, the arguments, the nullability and the deprecation of the appendix', () => {
  for (const [name, { kind, members }] of readAppendix())
    expect(shown(name, must(schema.getType(name), name))).toEqual({ name, kind, members })
})

test('managed objects have the fields of the interfaces that they implement', () => {
  const implementing = (name: string) =>
    schema.getPossibleTypes(schema.getType(name) as Graphql.GraphQLInterfaceType).map(type => type.name)
  expect(implementing('Common').sort()).toEqual([
    'Application',
    'DataPool',
    'DataPoolAccessPolicy',
    'DataSource',
    'MaterializedView',
    'Metric',
  ])
  expect(implementing('Job')).toHaveLength(4)
  expect(implementing('HasTableEngineType')).toHaveLength(5)
  expect(implementing('Node')).toHaveLength(14)
})

test('every type and every field describes itself', () => {
  const silent: string[] = []
  for (const type of types) {
    if (!type.description) silent.push(type.name)
    if (isEnumType(type) || isUnionType(type)) continue
    for (const field of Object.values((type as Graphql.GraphQLObjectType).getFields()))
      if (!field.description) silent.push(`${type.name}.${field.name}`)
  }
  expect(silent).toEqual([])
})

test('every addition to the protocol says that it is one', () => {
  for (const [name, members] of OWN) {
    const type = must(schema.getType(name), name) as Graphql.GraphQLObjectType | Graphql.GraphQLEnumType
    for (const member of members) {
      expect(membersOf(type)).toContain(member)
      const [field = ''] = member.split(/[(:]/)
      if (isEnumType(type)) expect(type.getValue(member)?.description).toMatch(/^Weir's own value\b/)
      else expect(type.getFields()[field]?.description).toMatch(/^Weir's own field\b/)
    }
  }
  for (const name of OWN_TYPES)
    expect(schema.getType(name)?.description).toMatch(/^Weir's own type, an addition to the protocol:/)
})
