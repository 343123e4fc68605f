/**
 * The tests of the real server again, over node:http: the contract is the same for every HTTP
 * library.
 */
import { runAgain } from '../util/files-again.ts'

process.env['WEIR_HTTP'] = 'node' // the servers of these tests inherit it

runAgain([
  ['ingest contract', () => import('./ingest_contract.test.ts')],
  ['Arrow stream', () => import('./arrow_stream.test.ts')],
  ['imports', () => import('./imports.test.ts')],
  ['OpenAPI', () => import('./openapi.test.ts')],
  ['operation', () => import('./operation.test.ts')],
])
