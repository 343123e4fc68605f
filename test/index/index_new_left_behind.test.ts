/**
 * W-6: the next start removes the folders that a killed `weir rebuild` left beside the index. The
 * index itself stays.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolder } from '../../src/util/data-folder.ts'
import { disk } from '../../src/util/disk.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { temporaryFolder } from '../util/server.ts'

test.each([
  ['while it built', { index: true, indexNew: true, indexOld: false }],
  ['between its two renames', { index: false, indexNew: true, indexOld: true }],
  ['before it removed the old one', { index: true, indexNew: false, indexOld: true }],
] as const)('killed %s', (_when, left) => {
  const paths = pathsOf(temporaryFolder())
  disk.close(openFolder(paths))
  // An index without a catalog means that the catalog is missing, and no start goes on.
  mkdirSync(paths.catalog)
  writeFileSync(join(paths.catalog, 'data.mdb'), 'catalog')
  for (const which of ['index', 'indexNew', 'indexOld'] as const) {
    if (!left[which]) continue
    mkdirSync(paths[which])
    for (const name of ['data.mdb', 'lock.mdb', 'data.mdb.damaged-1'])
      writeFileSync(join(paths[which], name), which)
  }
  disk.close(openFolder(paths))
  expect([paths.index, paths.indexNew, paths.indexOld].map(path => existsSync(path))).toEqual([
    left.index,
    false,
    false,
  ])
  expect(existsSync(join(paths.index, 'data.mdb'))).toBe(left.index)
})
