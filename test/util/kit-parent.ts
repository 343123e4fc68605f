/**
 * Starts a process that hears nothing any more, and prints its id. process_kit.test.ts kills this
 * one.
 */
import { startProcess } from '../../src/util/process-kit.ts'
import type { KitCalls } from './kit-thread.ts'

const kit = startProcess<KitCalls>({
  name: 'kit',
  file: new URL('./kit-thread.js', import.meta.url),
  data: { greeting: 'Hello' },
  nice: 0,
  crashAt: '',
  heapMiB: 256,
  dataBytesMax: 400 * 1024 ** 2,
  on: { progress: () => undefined } as never,
})
const pid = await kit.call('pid', undefined)
if (process.argv[2] === 'spin') kit.tell('spin', undefined)
process.stdout.write(`${pid}\n`)
