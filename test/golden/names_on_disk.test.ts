/**
 * No name on disk is renamed unnoticed: the names in a folder that this version writes are those of
 * names-on-disk.txt.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../util/server.ts'
import { fillFolder } from './fill-folder.ts'
import { namesOf } from './names.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const LIST = fileURLToPath(new URL('../../../test/golden/names-on-disk.txt', import.meta.url))

const ADVICE = `Names on disk changed. Every folder that a landed version wrote must open in this one.
A name that was changed or removed: read the old one too (RENAMED_KEYS in format/parquet-footer.ts,
catalog/documents/memory.ts, index/index-entry.ts), or raise the format's number, so that earlier versions
refuse the folder, and convert it at the start. A new name: an older folder lacks it.
Then write the change to the page of the format, and run this test with UPDATE=1, which writes the list.`

test('the names on disk are those of names-on-disk.txt; UPDATE=1 writes it', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  let backup = ''
  await fillFolder({
    main: MAIN,
    commit: 'this',
    dataDir,
    onKilled: () => undefined,
    onBackup: folder => {
      backup = folder
    },
  })
  const names = new Set([...(await namesOf(dataDir, 'data folder')), ...(await namesOf(backup, 'backup'))])
  if (process.env['UPDATE'] === '1') writeFileSync(LIST, `${[...names].sort().join('\n')}\n`)
  const listed = new Set(readFileSync(LIST, 'utf8').trimEnd().split('\n'))
  const changes = {
    gone: [...listed].filter(name => !names.has(name)),
    added: [...names].filter(name => !listed.has(name)),
  }
  expect(changes, ADVICE).toEqual({ gone: [], added: [] })
})
