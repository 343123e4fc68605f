/** A process that commits seals one by one and dies at an armed point. Prints each commit it was told of. */
import { openIndex } from '../../src/keys/index-client.ts'
import { buildKeyRun } from '../../src/keys/key-run.ts'
import { say } from '../../src/util/say.ts'

const [, , root = '', crashAt = '', kernel] = process.argv
const { index } = await openIndex({
  folder: `${root}/index`,
  segmentFolder: `${root}/segment`,
  identity: 'here',
  pools: [],
  kernel: kernel === 'js' ? 'js' : 'native',
  crashAt,
  nice: 5,
})
for (let segment = 1; segment <= 5; segment++) {
  const keys = buildKeyRun(
    Array.from({ length: 2000 }, (_, row) => ({ key: Buffer.from(`key${segment * 1000 + row}`), row })),
  )
  const ranges = { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: 0, timestampToUs: 0, tenant: null }
  const numbers = { segment, rows: 2000, bytes: 1, planVersion: 1, deletes: 0 }
  const add = { ...numbers, ...ranges, sequenceFrom: segment, sequenceTo: segment }
  const [committed] = await index.commit([{ pool: 1, add, remove: [], keys, sealedSequence: segment }])
  say(`committed ${committed?.commit}`)
}
await index.stop()
say('stopped')
