/**
 * The tests of the real server again, over node:http: the contract is the same for every HTTP
 * library.
 */
import { describe } from 'vitest'

process.env['WEIR_HTTP'] = 'node' // the servers of these tests inherit it

describe('ingest contract', async () => {
  await import('./ingest_contract.test.ts')
})
describe('Arrow stream', async () => {
  await import('./arrow_stream.test.ts')
})
describe('imports', async () => {
  await import('./imports.test.ts')
})
describe('operation', async () => {
  await import('./operation.test.ts')
})
