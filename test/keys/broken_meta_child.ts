/**
 * A process whose index fails in the middle of a commit: LMDB has its file open twice, for data pages and for meta pages, and
 * one of the two is closed under it. Prints a line of JSON for each thing that it saw.
 *
 *   node broken_meta_child.js native|js meta|data FOLDER
 */
import { closeSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { openIndex } from '../../src/keys/index-client.ts'
import { pathsOf } from '../../src/paths.ts'
import { must } from '../../src/util/assert.ts'
import { endNow } from '../../src/util/end-now.ts'
import { say } from '../../src/util/say.ts'
import { seal } from './child-seals.ts'

const [, , kernel = '', which = '', folder = ''] = process.argv
const O_DSYNC = 0o10000

/** LMDB writes its meta pages through a file that syncs each write. */
function closeUnderLmdb(file: string): void {
  const found = readdirSync('/proc/self/fd').find(fd => {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== file) return false
      const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1]
      return ((Number.parseInt(flags ?? '0', 8) & O_DSYNC) !== 0) === (which === 'meta')
    } catch {
      return false // the one that read this folder
    }
  })
  closeSync(Number(must(found, `an open file ${file}`)))
}

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
    // As the server does (command/start.ts).
    process.stdout.write(`${JSON.stringify({ failed: error.message })}\n`)
    endNow()
  },
})
const [first] = await index.commit([seal(1, 1)])
say(JSON.stringify({ commit: first?.commit }))
closeUnderLmdb(`${paths.index}/data.mdb`)
const seen = (what: string) => (result: unknown) => say(JSON.stringify({ [what]: String(result) }))
await Promise.all([
  index.commit([seal(2, 1)]).then(seen('answered'), seen('refused')),
  index.commit([seal(3, 1)]).then(seen('answered'), seen('refused')),
])
process.exit(0) // the thread could not close its file
