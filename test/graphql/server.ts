/** The endpoint over a real catalog, with a counter that records what it was asked. For tests. */

import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Pool, Scope } from '../../src/catalog/model.ts'
import type { CatalogOptions } from '../../src/catalog/open.ts'
import { createTokens } from '../../src/catalog/token.ts'
import type { CounterResult } from '../../src/graphql/context.ts'
import { createGraphql, type GraphqlReply } from '../../src/graphql/endpoint.ts'
import type { BadQuery, CounterQuery } from '../../src/query/protocol.ts'
import { type Folder, makeFolder } from '../catalog/folder.ts'

/** One GraphQL error as clients see it. */
export interface SeenError {
  readonly message: string
  readonly path?: readonly (string | number)[]
  readonly extensions: { readonly code: string }
}

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Data = any

export interface Answer {
  readonly status: number
  readonly data: Data
  readonly errors: readonly SeenError[] | undefined
}

export interface TestServer {
  readonly catalog: Catalog
  readonly folder: Folder
  readonly asked: { readonly pool: Pool; readonly query: CounterQuery; readonly applicationId: string }[]
  /** What the next counters answer. */
  counter: () => Promise<CounterResult | BadQuery>
  ask(
    query: string,
    variables?: object | null,
    more?: { scope?: readonly Scope[]; operationName?: string },
  ): Promise<Answer>
  send(authorization: string | undefined, body: string | Uint8Array): Promise<GraphqlReply>
  stop(): Promise<void>
}

export const BASIC = `Basic ${Buffer.from('app:secret').toString('base64')}`
export const COUNTED: CounterResult = {
  value: '42',
  info: { recordsProcessed: 7, bytesProcessed: 99, durationMs: 1.6, sql: 'SELECT 1' },
}

export async function makeServer(options: Partial<CatalogOptions> = {}): Promise<TestServer> {
  const folder = makeFolder()
  const { catalog } = await folder.open({ clientId: 'app', clientSecret: 'secret', ...options })
  const tokens = createTokens(catalog)
  const graphql = createGraphql({
    catalog,
    verify: authorization => tokens.verify(authorization),
    webhookUrl: id => `http://127.0.0.1:8420/v1/${id}`,
    counter: (pool, query, applicationId) => {
      server.asked.push({ pool, query, applicationId })
      return server.counter()
    },
  })
  const tokenOf = async (scope: readonly Scope[]): Promise<string> => {
    const form = new URLSearchParams({ grant_type: 'client_credentials', scope: scope.join(' ') })
    const { body } = await tokens.token({
      authorization: BASIC,
      contentType: undefined,
      body: Buffer.from(form.toString()),
    })
    return `Bearer ${JSON.parse(body).access_token}`
  }
  const send = (authorization: string | undefined, body: string | Uint8Array): Promise<GraphqlReply> =>
    graphql.handle({ authorization, body: typeof body === 'string' ? Buffer.from(body) : body })
  const server: TestServer = {
    catalog,
    folder,
    asked: [],
    counter: async () => COUNTED,
    async ask(query, variables, { scope, operationName } = {}) {
      const authorization = scope === undefined ? BASIC : await tokenOf(scope)
      const { status, body } = await send(authorization, JSON.stringify({ query, variables, operationName }))
      return { status, ...JSON.parse(body) }
    },
    send,
    stop: () => folder.remove(),
  }
  return server
}
