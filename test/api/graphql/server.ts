/** The endpoint over a real catalog, with a query stage that records its questions. For tests. */
import { type AuditEntry, type GraphqlDeps, QUERY_STAGE } from '../../../src/api/graphql/context.ts'
import { createGraphql, type GraphqlReply } from '../../../src/api/graphql/endpoint.ts'
import { createTokens } from '../../../src/catalog/access/token.ts'
import type { Catalog } from '../../../src/catalog/catalog.ts'
import type { Job, Pool, Scope } from '../../../src/catalog/documents/model.ts'
import type { CatalogOptions } from '../../../src/catalog/open-catalog.ts'
import { Activity } from '../../../src/database/activity.ts'
import type { Answered } from '../../../src/query/ask.ts'
import type { BadQuery } from '../../../src/query/expression/values.ts'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import { must } from '../../../src/util/errors.ts'
import { type Folder, makeFolder } from '../../catalog/folder.ts'

/** One GraphQL error as clients see it. */
interface SeenError {
  readonly message: string
  readonly path?: readonly (string | number)[]
  readonly extensions: { readonly code: string }
}

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Data = any

interface Answer {
  readonly status: number
  readonly data: Data
  readonly errors: readonly SeenError[] | undefined
}

export interface TestServer {
  readonly catalog: Catalog
  readonly folder: Folder
  readonly asked: {
    readonly pool: Pool
    readonly query: unknown
    readonly applicationId: string
    readonly policy: RowPolicy | null
  }[]
  readonly audited: AuditEntry[]
  /** The checks of SQL texts; they accept every text unless a test sets others. */
  readonly checks: Pick<GraphqlDeps['query'], 'checkFilters' | 'checkFilterSql' | 'checkMetricExpression'>
  /** The jobs that were created. Nobody runs them. */
  readonly jobs: Job[]
  /** The answer to the next questions. */
  answer: () => Promise<Answered | BadQuery>
  ask(
    query: string,
    variables?: object | null,
    more?: { scope?: readonly Scope[]; operationName?: string },
  ): Promise<Answer>
  send(
    authorization: string | undefined,
    body: string | Uint8Array,
    gone?: AbortSignal,
  ): Promise<GraphqlReply>
  stop(): Promise<void>
}

const ADDRESS = '127.0.0.1'
export const BASIC = `Basic ${Buffer.from('app:a-secret-of-the-app').toString('base64')}`
/** An answer that every kind of question can show. */
const FIELDS = {
  value: '42',
  values: [],
  labels: [],
  groups: [],
  headers: [],
  columns: [],
  rows: [],
  edges: [],
  nodes: [],
  pageInfo: { startCursor: null, endCursor: null, hasNextPage: false, hasPreviousPage: false },
}

export const COUNTED: Answered = {
  rows: [['42']],
  answer: FIELDS,
  outputs: [],
  recordsProcessed: 7,
  bytesProcessed: 99,
  durationMs: 1.6,
  sql: 'SELECT 1',
  fromCache: false,
}

export async function makeServer(options: Partial<CatalogOptions> = {}): Promise<TestServer> {
  const folder = makeFolder()
  const { catalog } = await folder.open({ clientId: 'app', clientSecret: 'a-secret-of-the-app', ...options })
  const tokens = createTokens(catalog)
  const graphql = createGraphql({
    catalog,
    jobs: { created: job => void server.jobs.push(job) },
    verify: (authorization, address) => tokens.verify(authorization, address),
    webhookUrl: id => `http://127.0.0.1:8420/v1/${id}`,
    sizeOf: () => ({ rows: 7, bytes: 5e11 }),
    boundary: async () => 1,
    // Statements and jobs that change rows are asked over HTTP, in test/clients and test/jobs.
    activity: new Activity(),
    serverStatus: () => Promise.reject(new Error('no server runs here')),
    reading: {
      engine: { parseStatement: async () => ({ badRequest: 'no statement is parsed here' }) },
    } as unknown as GraphqlDeps['reading'],
    query: {
      ...QUERY_STAGE,
      checkFilters: (...args) => server.checks.checkFilters(...args),
      checkFilterSql: (...args) => server.checks.checkFilterSql(...args),
      checkMetricExpression: (...args) => server.checks.checkMetricExpression(...args),
      checkRowChanges: async () => undefined,
      ask: async (_question, [asked], query, { applicationId }) => {
        const { schema, policy } = must(asked, 'a pool')
        const pool = must(catalog.poolByNumber(schema.pool), 'the asked pool')
        server.asked.push({ pool, query, applicationId, policy })
        return (await server.answer()) as never
      },
    },
    audit: entry => {
      server.audited.push(entry)
    },
  })
  const tokenOf = async (scope: readonly Scope[]): Promise<string> => {
    const form = new URLSearchParams({ grant_type: 'client_credentials', scope: scope.join(' ') })
    const { body } = await tokens.token({
      address: ADDRESS,
      authorization: BASIC,
      contentType: undefined,
      body: Buffer.from(form.toString()),
    })
    return `Bearer ${JSON.parse(body).access_token}`
  }
  const send: TestServer['send'] = (authorization, body, gone) =>
    graphql({
      ...(gone && { gone }),
      address: ADDRESS,
      authorization: authorization ?? '',
      body: typeof body === 'string' ? Buffer.from(body) : body,
    })
  const server: TestServer = {
    catalog,
    folder,
    asked: [],
    audited: [],
    checks: {
      checkFilters: () => undefined,
      checkFilterSql: async () => undefined,
      checkMetricExpression: async () => undefined,
    },
    jobs: [],
    answer: async () => COUNTED,
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
