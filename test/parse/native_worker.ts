/**
 * A worker thread that cuts what it is given with its own native kernel, over and over, and sends
 * the last batch.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { must } from '../../src/util/errors.ts'
import { makeNativeKernel, SCHEMA } from './native_calls.ts'

const { slab, table, turns } = workerData as { slab: Uint8Array; table: Float64Array; turns: number }
const kernel = makeNativeKernel(SCHEMA, 'post')
const requests = table.length / REQUEST_WORDS
let parsed = kernel.parse(slab, table, 0, requests)
for (let turn = 1; turn < turns; turn++) parsed = kernel.parse(slab, table, 0, requests)
must(parentPort, 'parentPort').postMessage(parsed, [parsed.batch as ArrayBuffer])
