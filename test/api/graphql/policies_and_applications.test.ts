/**
 * Access policies, applications and the environment, as Terraform makes, assigns and deletes them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Application, Scope } from '../../../src/catalog/documents/model.ts'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
let pool = ''
beforeAll(async () => {
  server = await makeServer()
  pool = server.catalog.read.pools.byName('events')?.id ?? ''
})
afterAll(() => server.stop())

const APPLICATION = `id uniqueName description clientId secret propeller scopes createdBy account { id } environment { id }
  policies { nodes { id } } dataPoolAccessPolicies { nodes { id } }`
const POLICY = `id uniqueName description columns filterSql rows { column operator value and { column } or { column } }
  dataPool { id } applications { nodes { id } }`
const CREATE_APPLICATION = `mutation ($input: createApplicationInput!) { createApplication(input: $input) { __typename
  ... on ApplicationResponse { application { ${APPLICATION} } } ... on FailureResponse { error { code message } } } }`
const MODIFY_APPLICATION = `mutation ($input: modifyApplicationInput!) { modifyApplication(input: $input) { __typename
  ... on ApplicationResponse { application { ${APPLICATION} } } ... on FailureResponse { error { code message } } } }`
const CREATE_POLICY = `mutation ($input: CreateDataPoolAccessPolicyInput!) {
  createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { ${POLICY} } } }`
const ASSIGN = `mutation ($policy: ID!, $application: ID!) {
  assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: $policy, application: $application) }`
const UNASSIGN = `mutation ($policy: ID!, $application: ID!) {
  unAssignDataPoolAccessPolicyFromApplication(dataPoolAccessPolicy: $policy, application: $application) }`
const READ_POLICY = `query ($id: ID!) { dataPoolAccessPolicy(id: $id) { ${POLICY} } }`

/** A placeholder for a policy value of the token. */
const PLACEHOLDER = '$'.concat('{{ tenant }}')

const ALL_SCOPES = [
  'ADMIN',
  'APPLICATION_ADMIN',
  'DATA_POOL_QUERY',
  'DATA_POOL_READ',
  'DATA_POOL_STATS',
  'DATA_POOL_WRITE',
  'ENVIRONMENT_ADMIN',
  'METRIC_QUERY',
  'METRIC_READ',
  'METRIC_STATS',
]

// biome-ignore lint/suspicious/noExplicitAny: the objects have the shapes that are asked for
async function createApplication(input: object): Promise<any> {
  const { data, errors } = await server.ask(CREATE_APPLICATION, { input })
  expect(errors).toBeUndefined()
  expect(data.createApplication.__typename).toBe('ApplicationResponse')
  return data.createApplication.application
}

// biome-ignore lint/suspicious/noExplicitAny: the objects have the shapes that are asked for
async function createPolicy(input: object = {}): Promise<any> {
  const { data, errors } = await server.ask(CREATE_POLICY, {
    input: { dataPool: pool, columns: ['*'], ...input },
  })
  expect(errors).toBeUndefined()
  return data.createDataPoolAccessPolicy.dataPoolAccessPolicy
}

describe('an application', () => {
  test('has a secret, the default propeller and all scopes where none are given', async () => {
    for (const scopes of [undefined, null, []]) {
      const made = await createApplication({ uniqueName: '', description: null, propeller: null, scopes })
      expect(made).toMatchObject({
        id: expect.stringMatching(/^APP/),
        uniqueName: made.id,
        clientId: made.id,
        description: '',
        secret: expect.stringMatching(/^.{32,}$/),
        propeller: 'P1_X_SMALL',
        scopes: expect.arrayContaining(ALL_SCOPES),
        createdBy: 'app',
        policies: { nodes: [] },
        dataPoolAccessPolicies: { nodes: [] },
      })
    }
  })

  test('keeps the scopes and the propeller that are given, and changes them', async () => {
    const made = await createApplication({
      uniqueName: 'reader',
      propeller: 'P1_SMALL',
      scopes: ['METRIC_QUERY'],
    })
    expect(made).toMatchObject({ propeller: 'P1_SMALL', scopes: ['METRIC_QUERY'] })
    const idOrUniqueName = { id: made.id, uniqueName: null }
    const nothing = await server.ask(MODIFY_APPLICATION, {
      input: { idOrUniqueName, uniqueName: null, description: null, propeller: null, scopes: null },
    })
    expect(nothing.data.modifyApplication.application).toEqual(made)
    const change = { description: 'd', propeller: 'P1_LARGE', scopes: ['METRIC_QUERY', 'DATA_POOL_QUERY'] }
    const { data } = await server.ask(MODIFY_APPLICATION, { input: { idOrUniqueName, ...change } })
    expect(data.modifyApplication.application).toEqual({ ...made, ...change })
    const byName = await server.ask(`{ applicationByName(uniqueName: "reader") { ${APPLICATION} } }`)
    expect(byName.data.applicationByName).toEqual({ ...made, ...change })
  })

  test('is refused with a name that is taken: a creation by the union, a change by an error', async () => {
    await createApplication({ uniqueName: 'taken' })
    const { data } = await server.ask(CREATE_APPLICATION, { input: { uniqueName: 'taken' } })
    expect(data.createApplication).toEqual({
      __typename: 'FailureResponse',
      error: { code: null, message: expect.stringMatching(/^Another Application with .* already exists/) },
    })
    const input = { idOrUniqueName: { uniqueName: 'reader' }, uniqueName: 'taken' }
    const { errors } = await server.ask(MODIFY_APPLICATION, { input })
    expect(errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
    const missing = await server.ask(MODIFY_APPLICATION, { input: { idOrUniqueName: { id: 'APP1' } } })
    expect(missing.errors).toMatchObject([
      { message: 'Application not found', extensions: { code: 'NOT_FOUND' } },
    ])
  })

  test('is listed and read by callers with application:admin alone, and so is its secret', async () => {
    const scope = ['admin'] as const
    for (const document of [
      '{ applications { nodes { id } } }',
      '{ applicationByName(uniqueName: "reader") { id } }',
    ]) {
      expect((await server.ask(document)).errors).toBeUndefined()
      expect((await server.ask(document, null, { scope })).errors).toMatchObject([
        { extensions: { code: 'FORBIDDEN' } },
      ])
    }
    const { id } = await createApplication({})
    const policy = await createPolicy()
    await server.ask(ASSIGN, { policy: policy.id, application: id })
    const ask = (field: string) =>
      server.ask(
        `query ($id: ID!) { dataPoolAccessPolicy(id: $id) { applications { nodes { ${field} } } } }`,
        { id: policy.id },
        { scope },
      )
    expect((await ask('id')).data.dataPoolAccessPolicy.applications.nodes).toEqual([{ id }])
    const { data, errors } = await ask('secret')
    expect(data.dataPoolAccessPolicy.applications.nodes).toEqual([{ secret: null }])
    expect(errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
  })

  test('is gone with its policies’ assignments when it is deleted', async () => {
    const { id } = await createApplication({})
    const policy = await createPolicy()
    await server.ask(ASSIGN, { policy: policy.id, application: id })
    expect((await server.ask('mutation ($id: ID!) { deleteApplication(id: $id) }', { id })).data).toEqual({
      deleteApplication: id,
    })
    expect(
      (await server.ask(READ_POLICY, { id: policy.id })).data.dataPoolAccessPolicy.applications.nodes,
    ).toEqual([])
    expect(
      (await server.ask('query ($id: ID!) { application(id: $id) { id } }', { id })).errors,
    ).toMatchObject([{ message: 'Application not found' }])
  })
})

describe('an access policy', () => {
  test('shows what was given', async () => {
    const rows = [{ column: '_service_received_at', operator: 'IS_NOT_NULL', value: '' }]
    const policy = await createPolicy({
      uniqueName: 'p',
      columns: ['_service_payload'],
      rows,
      filterSql: `a = ${PLACEHOLDER}`,
    })
    expect(policy).toEqual({
      id: expect.stringMatching(/^POL/),
      uniqueName: 'p',
      description: '',
      columns: ['_service_payload'],
      filterSql: `a = ${PLACEHOLDER}`,
      rows: [{ ...rows[0], and: [], or: [] }],
      dataPool: { id: pool },
      applications: { nodes: [] },
    })
    const bare = await createPolicy({ uniqueName: '', description: '', rows: null })
    expect(bare).toMatchObject({ uniqueName: bare.id, rows: [], filterSql: null })
  })

  test('is assigned in place of another one of its pool, and taken away, twice', async () => {
    const application = (await createApplication({})).id
    const [first, second] = [(await createPolicy()).id, (await createPolicy()).id]
    const applicationsOf = async (id: string) =>
      (await server.ask(READ_POLICY, { id })).data.dataPoolAccessPolicy.applications.nodes
    expect((await server.ask(ASSIGN, { policy: first, application })).data).toEqual({
      assignDataPoolAccessPolicyToApplication: first,
    })
    expect(await applicationsOf(first)).toEqual([{ id: application }])
    await server.ask(ASSIGN, { policy: second, application })
    await server.ask(ASSIGN, { policy: second, application })
    expect([await applicationsOf(first), await applicationsOf(second)]).toEqual([[], [{ id: application }]])
    const shown = await server.ask(`query ($id: ID!) { application(id: $id) { ${APPLICATION} } }`, {
      id: application,
    })
    expect(shown.data.application.dataPoolAccessPolicies.nodes).toEqual([{ id: second }])
    for (const _ of [1, 2]) {
      const { errors } = await server.ask(UNASSIGN, { policy: second, application })
      expect(errors).toBeUndefined()
      expect(await applicationsOf(second)).toEqual([])
    }
  })

  test('is not assigned where either is missing', async () => {
    const policy = (await createPolicy()).id
    const application = await server.ask(ASSIGN, { policy, application: 'APP1' })
    expect(application.errors).toMatchObject([
      { message: 'Application not found', extensions: { code: 'NOT_FOUND' } },
    ])
    const missing = await server.ask(ASSIGN, { policy: 'POL1', application: 'app' })
    expect(missing.errors).toMatchObject([{ message: 'Data Pool Access Policy not found' }])
  })

  test('is changed; null keeps a field', async () => {
    const policy = await createPolicy({ description: 'before', filterSql: 'a = 1' })
    const modify = `mutation ($input: ModifyDataPoolAccessPolicyInput!) {
      modifyDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { ${POLICY} } } }`
    const same = await server.ask(modify, {
      input: {
        id: policy.id,
        uniqueName: null,
        description: null,
        columns: null,
        rows: null,
        filterSql: null,
      },
    })
    expect(same.data.modifyDataPoolAccessPolicy.dataPoolAccessPolicy).toEqual(policy)
    const change = { description: 'after', columns: ['_service_received_at'], filterSql: '' }
    const { data } = await server.ask(modify, { input: { id: policy.id, ...change } })
    expect(data.modifyDataPoolAccessPolicy.dataPoolAccessPolicy).toMatchObject({ ...change, filterSql: null })
    const { errors } = await server.ask(modify, { input: { id: policy.id, columns: ['nope'] } })
    expect(errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })

  test('may hold placeholders, and is checked with them', async () => {
    const forms: string[] = []
    server.checks.checkFilters = (_, __, form) => void forms.push(form)
    server.checks.checkFilterSql = async (_, __, form) => void forms.push(form)
    const rows = [{ column: '_service_received_at', operator: 'EQUALS', value: PLACEHOLDER }]
    await createPolicy({ rows, filterSql: `x = ${PLACEHOLDER}` })
    expect(forms).toEqual(['placeholders', 'placeholders'])
    await server.ask(
      'mutation ($input: CreateCountMetricInput) { createCountMetric(input: $input) { metric { id } } }',
      { input: { dataPool: pool, filters: rows, filterSql: 'x' } },
    )
    expect(forms.slice(2)).toEqual(['plain', 'plain'])
  })
})

describe('the policies of an application', () => {
  test('are read by those who manage applications, as Terraform does', async () => {
    const field = 'dataPoolAccessPolicies { nodes { id } }'
    const ask = (scope: readonly Scope[]) =>
      server.ask(`{ application(id: "app") { ${field} } }`, null, { scope })
    expect((await ask(['application:admin'])).errors).toBeUndefined()
    expect((await ask(['admin'])).errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
  })

  test('show no more of their pool than its id to an application that reads no pools', async () => {
    const { id } = await createPolicy()
    const input = { policy: id, application: 'app' }
    expect((await server.ask(ASSIGN, input)).errors).toBeUndefined()
    const ask = (field: string, scope: readonly Scope[]) =>
      server.ask(
        `{ application(id: "app") { dataPoolAccessPolicies { nodes { dataPool { ${field} } } } } }`,
        null,
        { scope },
      )
    const shown = await ask('id', ['application:admin'])
    expect(shown.data.application.dataPoolAccessPolicies.nodes).toContainEqual({ dataPool: { id: pool } })
    for (const field of [
      'uniqueName',
      'recordCount',
      'sizeInTerabytes',
      'createdAt',
      'columns { nodes { columnName } }',
      'account { id }',
      'validateExpression(expression: "COUNT()") { valid }',
    ]) {
      const { errors } = await ask(`id ${field}`, ['application:admin'])
      expect(errors?.[0], field).toMatchObject({ extensions: { code: 'FORBIDDEN' } })
      const both = await ask(field, ['application:admin', 'data_pool:read'])
      expect(both.errors, field).toBeUndefined()
    }
  })

  test('are listed for all applications, however many policies there are', async () => {
    const application = server.catalog.application('app') as Application
    const id = (prefix: string, i: number) => prefix + String(i).padStart(26, '0')
    const applications = Array.from({ length: 2_000 }, (_, i) => {
      const one = { ...application, id: id('APP', i), uniqueName: id('APP', i) }
      return [`application/${one.id}`, one] as const
    })
    const given = await createPolicy()
    const policies = Array.from({ length: 2_000 }, (_, i) => {
      const one = {
        ...server.catalog.read.policies.get(given.id),
        id: id('POL', i),
        uniqueName: id('POL', i),
      }
      return [`policy/${one.id}`, { ...one, applicationIds: [id('APP', i)] }] as const
    })
    await server.catalog.put([...applications, ...policies])
    const { data, errors } = await server.ask(
      '{ applications(first: 2000) { nodes { id dataPoolAccessPolicies { nodes { id } } } } }',
    )
    expect(errors).toBeUndefined()
    const { id: first, dataPoolAccessPolicies } = data.applications.nodes[0]
    expect([first, dataPoolAccessPolicies.nodes]).toEqual([id('APP', 0), [{ id: id('POL', 0) }]])
  })
})

describe('a reader of a pool with access control', () => {
  const FIELDS = `columns { nodes { columnName } } availableMeasures { nodes { columnName } }
    timestamp { columnName } tenant { columnName } uniqueId { columnName }
    tableSettings { orderBy primaryKey partitionBy engine { __typename } }
    orderByColumns { columnName } primaryKeyColumns { columnName } partitionByColumns { columnName }`
  const columns = [
    { columnName: 'at', type: 'TIMESTAMP', isNullable: false },
    { columnName: 'salary', type: 'DOUBLE', isNullable: true },
    { columnName: 'bonus', type: 'DOUBLE', isNullable: true },
    { columnName: 'name', type: 'STRING', isNullable: false },
  ]
  const names = (all: readonly { columnName: string }[]) => all.map(({ columnName }) => columnName)
  let id = ''
  const read = async (scope: 'admin' | 'data_pool:query') => {
    const { data, errors } = await server.ask(
      `query ($id: ID!) { dataPool(id: $id) { ${FIELDS} } }`,
      { id },
      { scope: [scope] },
    )
    expect(errors).toBeUndefined()
    return data.dataPool
  }

  beforeAll(async () => {
    const input = {
      columns,
      timestamp: { columnName: 'at' },
      tenant: { columnName: 'name' },
      uniqueId: { columnName: 'name' },
      accessControlEnabled: true,
      tableSettings: { orderBy: ['at', 'name'], primaryKey: ['at', 'name'], partitionBy: ['name'] },
    }
    const { data } = await server.ask(
      'mutation ($input: CreateDataPoolInputV2!) { createDataPoolV2(input: $input) { dataPool { id } } }',
      { input },
    )
    id = data.createDataPoolV2.dataPool.id
  })

  test('sees the columns of its policy alone, and an administrator all', async () => {
    const whole = await read('admin')
    expect(names(whole.columns.nodes)).toEqual(['at', 'salary', 'bonus', 'name'])
    const none = await read('data_pool:query')
    expect([none.columns.nodes, none.availableMeasures.nodes, none.timestamp]).toEqual([[], [], null])
    const policy = (await createPolicy({ dataPool: id, columns: ['name', 'bonus'] })).id
    await server.ask(ASSIGN, { policy, application: 'app' })
    const part = await read('data_pool:query')
    expect(names(part.columns.nodes)).toEqual(['bonus', 'name'])
    expect(names(part.availableMeasures.nodes)).toEqual(['bonus'])
    expect(part).toMatchObject({
      timestamp: null,
      tenant: { columnName: 'name' },
      uniqueId: { columnName: 'name' },
      orderByColumns: [{ columnName: 'name' }],
      primaryKeyColumns: [{ columnName: 'name' }],
      partitionByColumns: [{ columnName: 'name' }],
      tableSettings: { orderBy: null, primaryKey: null, partitionBy: null },
    })
    expect(await read('admin')).toEqual(whole)
    const all = (await createPolicy({ dataPool: id })).id
    await server.ask(ASSIGN, { policy: all, application: 'app' })
    expect(await read('data_pool:query')).toEqual(whole)
  })

  test('has its expressions checked against these columns', async () => {
    const policy = (await createPolicy({ dataPool: id, columns: ['name'] })).id
    await server.ask(ASSIGN, { policy, application: 'app' })
    const seen: (readonly string[] | undefined)[] = []
    server.checks.checkMetricExpression = async ({ visible }) => void seen.push(visible && [...visible])
    for (const scope of ['admin', 'data_pool:query'] as const)
      await server.ask(
        'query ($id: ID!) { dataPool(id: $id) { validateExpression(expression: "COUNT()") { valid } } }',
        { id },
        { scope: [scope] },
      )
    expect(seen).toEqual([undefined, ['name']])
  })
})

describe('the environment', () => {
  test('is the one of every object, and can be renamed', async () => {
    const { data } = await server.ask(
      '{ dataPoolByName(uniqueName: "events") { environment { id uniqueName } account { id } } }',
    )
    const { id } = data.dataPoolByName.environment
    const modify =
      'mutation ($input: ModifyEnvironmentInput!) { modifyEnvironment(input: $input) { environment { id uniqueName description account { id } } } }'
    const changed = await server.ask(modify, { input: { id, uniqueName: 'production', description: 'd' } })
    expect(changed.data.modifyEnvironment.environment).toEqual({
      id,
      uniqueName: 'production',
      description: 'd',
      account: data.dataPoolByName.account,
    })
    const read = await server.ask('query ($id: ID!) { environment(id: $id) { uniqueName modifiedBy } }', {
      id,
    })
    expect(read.data.environment).toEqual({ uniqueName: 'production', modifiedBy: 'app' })
    const other = await server.ask(modify, { input: { id: 'ENV1', uniqueName: 'x' } })
    expect(other.errors).toMatchObject([
      { message: 'Environment not found', extensions: { code: 'NOT_FOUND' } },
    ])
    const long = await server.ask(modify, { input: { id, description: 'x'.repeat(10_000) } })
    expect(long.errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })
})
