/** The tests of the front end again, over node:http: both HTTP libraries keep the same contract. */
import { describe } from 'vitest'
import { nodeTransport } from '../../src/api/http/node.ts'
import { over } from './fake.ts'

over(nodeTransport)

describe('ingest contract', async () => {
  await import('./ingest_contract.test.ts')
})
describe('control routes', async () => {
  await import('./control_routes.test.ts')
})
describe('body sizes', async () => {
  await import('./body_sizes.test.ts')
})
describe('waiting requests', async () => {
  await import('./waiting_requests.test.ts')
})
describe('stream replies', async () => {
  await import('./stream_replies.test.ts')
})
describe('stream places', async () => {
  await import('./stream_slots.test.ts')
})
describe('clients that do not read', async () => {
  await import('./clients_that_do_not_read.test.ts')
})
describe('bodies that cannot share', async () => {
  await import('./bodies_that_cannot_share.test.ts')
})
describe('wide pools', async () => {
  await import('./wide_pools.test.ts')
})
describe('control bodies', async () => {
  await import('./control_bodies.test.ts')
})
describe('imports', async () => {
  await import('./imports.test.ts')
})
describe('connections', async () => {
  await import('./connections_are_counted.test.ts')
})
describe('connections that break', async () => {
  await import('./connections_that_break.test.ts')
})
