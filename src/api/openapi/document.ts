/**
 * The OpenAPI document: every path of the server, its operations, and the answers that each may
 * give. It is written by hand beside the routes. test/api/openapi.test.ts compares it with the
 * router and with docs/contract.md, test/path/openapi.test.ts with real answers.
 */
import { WEIR_VERSION } from '../../util/version.ts'
import { COMPONENTS } from './components.ts'
import { POOL_PATHS } from './pool-paths.ts'
import type { Json } from './schema.ts'
import { SERVER_PATHS } from './server-paths.ts'
import { WEBHOOK_PATHS } from './webhook-paths.ts'

const TEXT = `Events come in by webhooks, records are read by GraphQL, SQL, Arrow and files.

- A path with GET takes HEAD too: the same status and headers without the body. Webhooks are an exception and list it.
- An error is a problem of RFC 9457. Programs compare \`code\`; \`errors\` repeats the text for clients of the older protocol.
- A request may have an \`X-Request-Id\`, which its answer repeats.
- The GraphQL schema stands at \`/graphql/schema\`.
- The pages of the console are not listed.`

const TAGS = {
  webhooks: 'What senders post to.',
  pools: 'Rows of a Data Pool, in and out.',
  queries: 'GraphQL, and any question as a table.',
  access: 'Tokens.',
  admin: 'What the commands ask of a running server.',
  server: 'Probes, metrics, and this document.',
  console: 'Sessions of the console.',
}

export const OPENAPI: Json = {
  openapi: '3.1.1',
  info: {
    title: 'Weir',
    version: WEIR_VERSION,
    summary: 'A self-hosted webhook data pool.',
    description: TEXT,
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/' }],
  tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  paths: { ...WEBHOOK_PATHS, ...POOL_PATHS, ...SERVER_PATHS },
  components: COMPONENTS,
}
