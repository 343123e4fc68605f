/**
 * A process whose index fails in the middle of a commit: LMDB has its file open twice, for data
 * pages and for meta pages, and the test closes one of the two. Prints a line of JSON for each
 * event.
 *
 *   node broken_meta_child.js native|js meta|data FOLDER
 */
import { closeSync } from 'node:fs'
import { openIndex } from '../../src/index/index-client.ts'
import { endNow } from '../../src/util/end-process.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { say } from '../../src/util/say.ts'
import { lmdbDescriptor } from '../util/lmdb-descriptor.ts'
import { flushOfNewKeys } from './flushes.ts'

const [, , kernel = '', which = '', folder = ''] = process.argv

const paths = pathsOf(folder)
const { index } = await openIndex({
  folder: paths.index,
  segmentFolder: paths.segment,
  identity: 'here',
  pools: [],
  kernel: kernel as 'native' | 'js',
  crashAt: '',
  nice: undefined,
  onFailed: error => {
    // As the server does (app/run-server.ts).
    process.stdout.write(`${JSON.stringify({ failed: error.message })}\n`)
    endNow()
  },
})
const [first] = await index.commit([flushOfNewKeys(1, 1)])
say(JSON.stringify({ commit: first?.commit }))
closeSync(lmdbDescriptor(`${paths.index}/data.mdb`, which as 'meta' | 'data'))
const seen = (what: string) => (result: unknown) => say(JSON.stringify({ [what]: String(result) }))
await Promise.all([
  index.commit([flushOfNewKeys(2, 1)]).then(seen('answered'), seen('refused')),
  index.commit([flushOfNewKeys(3, 1)]).then(seen('answered'), seen('refused')),
])
process.exit(0) // the index thread cannot close its file
