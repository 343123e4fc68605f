/**
 * `npm run golden -- <checkout> <commit>` makes the golden folder of a landed version: two data
 * folders, one killed and one stopped cleanly, and a backup, all written by the server of
 * <checkout>, which is a work tree of that commit that is set up:
 *
 *   git worktree add --detach <checkout> <commit> && (cd <checkout> && node src/setup.mjs)
 *
 * Golden folders that are there are never made again.
 */
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { say } from '../../src/util/say.ts'
import { temporaryFolder } from '../util/server.ts'
import { FOLDERS, pack, writeExpected } from './archive.ts'
import { fillFolder } from './fill-folder.ts'

const [checkout = '', commit = basename(checkout)] = process.argv.slice(2)
const main = ['src/app/main.js', 'src/main.js'].map(name => join(checkout, 'dist', name)).find(existsSync)
if (main === undefined) throw new Error(`${checkout} is no work tree that is set up`)
const folder = join(FOLDERS, commit)
if (existsSync(folder)) throw new Error(`${folder} is there already`)

const dataDir = join(temporaryFolder(), 'data')
const expected = await fillFolder({
  main,
  commit,
  dataDir,
  onKilled: killed => pack(killed, commit, 'killed'),
  onBackup: backup => pack(backup, commit, 'backup'),
})
pack(dataDir, commit, 'stopped')
writeExpected(expected)
say(`made ${folder}: ${expected.pools.size} pools`)
process.exit(0)
