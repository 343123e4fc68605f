/** The tests of the front end again, over node:http: both HTTP libraries keep the same contract. */
import { nodeTransport } from '../../src/api/http/node.ts'
import { runAgain } from '../util/files-again.ts'
import { over } from './fake.ts'

over(nodeTransport)

runAgain([
  ['ingest contract', () => import('./ingest_contract.test.ts')],
  ['control routes', () => import('./control_routes.test.ts')],
  ['body sizes', () => import('./body_sizes.test.ts')],
  ['waiting requests', () => import('./waiting_requests.test.ts')],
  ['stream replies', () => import('./stream_replies.test.ts')],
  ['stream places', () => import('./stream_slots.test.ts')],
  ['clients that do not read', () => import('./clients_that_do_not_read.test.ts')],
  ['bodies that cannot share', () => import('./bodies_that_cannot_share.test.ts')],
  ['wide pools', () => import('./wide_pools.test.ts')],
  ['OpenAPI', () => import('./openapi.test.ts')],
  ['control bodies', () => import('./control_bodies.test.ts')],
  ['imports', () => import('./imports.test.ts')],
  ['connections', () => import('./connections_are_counted.test.ts')],
  ['connections that break', () => import('./connections_that_break.test.ts')],
])
