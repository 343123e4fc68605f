/** Columns and access policies of the pools that the tests of statements make. */
import { adminOf, type ColumnSpec, type TestServer } from '../../util/server.ts'

/** Nullable columns but `id` and `ts`, each of the property of its name. */
export const columnsOf = (types: Readonly<Record<string, string>>): ColumnSpec[] =>
  Object.entries(types).map(([name, type]) => ({
    name,
    jsonProperty: name,
    type,
    nullable: name !== 'id' && name !== 'ts',
  }))

/** Turns access control on, with a policy for the first application, or with none. */
export async function limitPool(server: TestServer, name: string, policy: object | undefined): Promise<void> {
  const change = async <T>(document: string, variables: object = {}) => {
    const { data, errors } = await server.graphql<T>(document, variables)
    if (errors !== undefined) throw new Error(errors[0]?.message)
    return data
  }
  const { dataPoolByName: pool } = await change<{ dataPoolByName: { id: string } }>(
    `{ dataPoolByName(uniqueName: "${name}") { id } }`,
  )
  await change(
    `mutation { modifyDataPool(input: { idOrUniqueName: { id: "${pool.id}" }, accessControlEnabled: true }) { __typename } }`,
  )
  if (policy === undefined) return
  const made = await change<{ createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } } }>(
    'mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { id } } }',
    { input: { dataPool: pool.id, ...policy } },
  )
  await change(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${made.createDataPoolAccessPolicy.dataPoolAccessPolicy.id}", application: "${adminOf(server.dataDir).clientId}") }`,
  )
}
