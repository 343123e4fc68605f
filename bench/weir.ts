/** Starts Weir for the questions: the real server on a folder that the bench removes. */
import { join } from 'node:path'
import { type StartOptions, startServer, type TestPool, type TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS } from './events.ts'
import { benchFolder, tracked } from './leftovers.ts'

/** Starts it and waits until it is ready. */
export async function startWeir(options: StartOptions = {}): Promise<TestServer> {
  const dataDir = options.dataDir ?? join(benchFolder('weir-bench-'), 'data')
  const server = await startServer({ ...options, dataDir })
  tracked(server.child)
  return server
}

/** A pool of the six bench columns with a key. */
export function keyedPool(server: TestServer): Promise<TestPool> {
  return server.createPool({
    columns: [...BENCH_COLUMNS],
    timestamp: 'time',
    uniqueId: 'id',
    tenant: 'tenant',
  })
}
