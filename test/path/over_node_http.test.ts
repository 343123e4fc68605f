/** Tests of the real server once more, over node:http: the same contract, whatever HTTP library runs. */
import { describe } from 'vitest'

process.env['WEIR_HTTP'] = 'node' // the servers that these tests start inherit it

describe('ingest contract', async () => {
  await import('./ingest_contract.test.ts')
})
describe('Arrow stream', async () => {
  await import('./arrow_stream.test.ts')
})
describe('operation', async () => {
  await import('./operation.test.ts')
})
