/**
 * The commands take every folder and backup that a landed version wrote: verify, repair, rebuild,
 * export, backup and restore.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { temporaryFolder } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { FOLDERS, unpack } from './archive.ts'
import { COMMITS, Golden, LAST, OLDEST, withoutReceived } from './opened-folder.ts'

/** The next start builds an index of an earlier format anew, and so does repair. */
const INDEX_FORMAT_1 = new Set(['c8f41e9'])
const BUILDS_INDEX = 'would: index: rebuilt from the segments\n'

/** The oldest version and the one whose folder was made last; the long run takes all. */
const TRIED = process.env['WEIR_TEST_LONG'] === '1' ? COMMITS : [OLDEST, LAST]

describe.each(TRIED)('the folders of %s', commit => {
  test('verify, repair, rebuild, export, backup and restore', async () => {
    const golden = new Golden(commit, 'stopped')
    const { dataDir, rows } = golden
    await verifyFolder(dataDir)
    const { out: repairs } = await weir(['repair', '--dry-run', '--data-dir', dataDir])
    expect(repairs).toBe(INDEX_FORMAT_1.has(commit) ? BUILDS_INDEX : 'nothing to repair\n')
    await rebuildFolder(dataDir)
    await verifyFolder(dataDir)
    const out = join(temporaryFolder(), 'rows.ndjson')
    await ran(['export', 'every_type', '--format', 'ndjson', '--out', out, '--data-dir', dataDir])
    const lines = readFileSync(out, 'utf8').trimEnd().split('\n').map(withoutReceived)
    expect(lines.sort()).toEqual(rows.get('every_type'))

    const backup = join(temporaryFolder(), 'backup')
    await ran(['backup', backup, '--data-dir', dataDir])
    await ran(['restore', backup, '--data-dir', `${dataDir}-restored`])
    const restored = new Golden(commit, 'stopped', `${dataDir}-restored`)
    await restored.start()
    await restored.holdsRows()
    await restored.stop()
  })

  test.runIf(existsSync(join(FOLDERS, commit, 'backup.tar.gz')))('its backup is restored', async () => {
    const backup = join(temporaryFolder(), 'backup')
    unpack(commit, 'backup', backup)
    await ran(['verify', '--data-dir', backup], 'clean')
    const restored = join(temporaryFolder(), 'data')
    await ran(['restore', backup, '--data-dir', restored])
    const golden = new Golden(commit, 'backup', restored)
    await verifyFolder(restored)
    await golden.start()
    await golden.holdsRows()
    await golden.stop()
  })
})

test('repair writes a log of today, so the version that wrote the folder refuses it by its number', async () => {
  const golden = new Golden('c8f41e9', 'killed')
  const { dataDir } = golden
  rmSync(join(dataDir, 'log', 'head'))
  await ran(['repair', '--data-dir', dataDir], 'clean')
  expect(readFileSync(join(dataDir, 'FORMAT'), 'utf8')).toBe('weir 4\n')
  await golden.start()
  await golden.holdsRows()
  await golden.stop()
})

/** Runs a command to its end, which must be clean. */
async function ran(args: readonly string[], says = ''): Promise<void> {
  const { code, output } = await weir(args)
  expect([code, output], args.join(' ')).toEqual([0, expect.stringContaining(says)])
}
