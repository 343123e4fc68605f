/** A process that appends, prints acknowledged texts, and is killed at the given point. */
import { writeSync } from 'node:fs'
import { startLog } from '../../src/log/open-log.ts'
import { spanOf } from './log.ts'

const [folder = '', crashAt = '', count = '0', fileBytes = '0'] = process.argv.slice(2)
const releasing = crashAt === 'log.released'
// Where files are to be released, the five records of the process before count as flushed.
const flushed = new Map([[1, releasing ? 5 : 0]])
const options = { folder, durability: 'fsync', crashAt, fileBytesMax: Number(fileBytes) } as const
const { commit } = await startLog(options).recover({ flushed, replay: async () => {} })
for (let index = 0; index < Number(count); index++) {
  const text = `k${String(process.pid % 1000).padStart(3, '0')}${String(index).padStart(4, '0')}`
  const { durable } = commit.append([spanOf({ text: text + 'z'.repeat(20_000) })], 1)
  await durable
  writeSync(1, `${text}\n`)
}
if (releasing) {
  // The first file's records stand below 20. The kill comes from the spare thread: wait for it.
  commit.release(20)
  await new Promise(resolve => setTimeout(resolve, 20_000))
}
await commit.stop()
