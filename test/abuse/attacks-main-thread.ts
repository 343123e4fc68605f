/**
 * Attacks on the main thread: bodies and documents that are expensive to read, to check or to
 * answer.
 */

import { head } from '../api/client.ts'
import { fetchToken } from '../util/server.ts'
import { type Attack, type Attacker, keepBusy, type Target } from './attack.ts'

const CONNECTIONS = 16
const MIB = 2 ** 20
const JSON_TYPE = 'Content-Type: application/json'
const FORM_TYPE = 'Content-Type: application/x-www-form-urlencoded'

/** Repeats a request on each connection, each time after the answer to the one before. */
function repeated(name: string, make: (target: Target) => Promise<string>): Attack {
  let request = ''
  const behave = (target: Target) => async (attacker: Attacker) => {
    while (!target.isOver() && !attacker.isClosed) {
      attacker.received = ''
      const answered = new Promise<void>(resolve => attacker.socket.once('data', () => resolve()))
      await attacker.write(request)
      await Promise.race([answered, attacker.closed, target.over])
    }
  }
  return {
    name,
    async prepare(target) {
      request = await make(target)
    },
    run: target => keepBusy(target, CONNECTIONS, behave(target)),
  }
}

function requestOf(path: string, headers: readonly string[], body: string): string {
  return `${head(path, [...headers, `Content-Length: ${Buffer.byteLength(body)}`])}${body}`
}

function graphql(name: string, body: (target: Target) => string): Attack {
  return repeated(name, async target => {
    const authorization = `Authorization: Bearer ${await fetchToken(target.server.base, target.server.dataDir)}`
    return requestOf('/graphql', [JSON_TYPE, authorization], body(target))
  })
}

/** A body to a webhook, which may be parsed on the main thread where it is small. */
function webhook(name: string, body: string): Attack {
  return repeated(name, async ({ path }) => requestOf(path, [JSON_TYPE], body))
}

const COUNTER = 'query ($input: CounterInput!) { counter(input: $input) { value } }'

const many = (count: number, one: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => one(index)).join(' ')

/** A number between two doubles, which takes most digits to be rounded. */
const halfway = (index: number): string => `${9_007_199_254_740_993n + 2n * BigInt(index)}.5,`

export const MAIN_THREAD_ATTACKS: readonly Attack[] = [
  repeated('a megabyte of form fields to the token route', async () =>
    requestOf('/oauth2/token', [FORM_TYPE], 'a&'.repeat(MIB / 2 - 1)),
  ),
  repeated('16 KiB of form fields to the token route', async () =>
    requestOf('/oauth2/token', [FORM_TYPE], 'a&'.repeat(8_191)),
  ),
  repeated('GraphQL bodies of a megabyte without a token', async () =>
    requestOf(
      '/graphql',
      [JSON_TYPE],
      `{"query":"{__typename}","variables":{"a":[${'{},'.repeat(340_000)}{}]}}`,
    ),
  ),
  graphql('a megabyte of filters', ({ pool }) => {
    const metric = { count: { dataPool: { id: pool.poolId } } }
    const filters = Array.from({ length: 17_000 }, (_, i) => ({
      column: 'id',
      operator: 'EQUALS',
      value: `${i}`,
    }))
    return JSON.stringify({ query: COUNTER, variables: { input: { metric, filters } } })
  }),
  graphql('340,000 objects in variables', () => {
    return `{"query":"{__typename}","variables":{"a":[${'{},'.repeat(340_000)}{}]}}`
  }),
  graphql('comments', () => JSON.stringify({ query: `${'#\n'.repeat(9_000)}{ __typename }` })),
  graphql('600 fields of one name', () =>
    JSON.stringify({ query: `{ ${many(600, () => 'dataPool(id: "x") { id }')} }` }),
  ),
  graphql('100 aliased schemas', () =>
    JSON.stringify({ query: `{ ${many(100, i => `a${i}: __schema { types { name fields { name } } }`)} }` }),
  ),
  graphql('2,000 fields that differ', () =>
    JSON.stringify({ query: `{ ${many(2_000, i => `f${i}: __typename`)} }` }),
  ),
  repeated("spaces in a webhook's Basic header", async target => {
    const pool = await target.server.createPool({
      columns: [{ name: 'id', jsonProperty: 'id', type: 'STRING', nullable: true }],
      basicAuth: { username: 'user', password: 'a password' },
    })
    const authorization = `Authorization: Basic ${' '.repeat(60_000)}!`
    return requestOf(new URL(pool.url).pathname, [JSON_TYPE, authorization], '{}')
  }),
  webhook('bad bodies to a webhook', '{"id":"a","amount":}'),
  webhook('numbers of 8,000 digits to a webhook', `{"id":"a","amount":${'9'.repeat(8_000)}}`),
  webhook('1,000 numbers near halves to a webhook', `{"id":"a","b":[${many(999, halfway)}0]}`),
  webhook('4,000 nested arrays to a webhook', `{"id":"a","b":${'['.repeat(4_000)}${']'.repeat(4_000)}}`),
  webhook('2,000 keys of one name to a webhook', `{${'"id":"a",'.repeat(2_000)}"id":"b"}`),
  webhook('texts of escapes to a webhook', `{"id":"${'\\u0041'.repeat(1_300)}"}`),
  webhook('a megabyte to a webhook', `{"id":"${'a'.repeat(MIB - 100)}"}`),
]
