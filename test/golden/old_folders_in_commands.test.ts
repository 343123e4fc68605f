/**
 * The commands take every folder and backup that a landed version wrote: verify, repair, rebuild,
 * export, backup and restore.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { FakeS3 } from '../tools/bucket/fake-s3.ts'
import { weir } from '../tools/folder.ts'
import { temporaryFolder } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { FOLDERS, unpack } from './archive.ts'
import { COMMITS, Golden, LAST, OLDEST, withoutReceived } from './opened-folder.ts'

/** `1.tar.gz`: the objects of a bucket in format 1, below `golden/`. */
const BUCKETS = join(FOLDERS, '..', 'buckets')

/** The next start builds an index of an earlier format anew, and so does repair. */
const INDEX_FORMAT_1 = new Set(['c8f41e9'])
const BUILDS_INDEX = 'would: index: rebuilt from the segments\n'

/** The oldest version and the one whose folder was made last; the long run takes all. */
const TRIED = process.env['WEIR_TEST_LONG'] === '1' ? COMMITS : [OLDEST, LAST]

const bucket = await FakeS3.start()
Object.assign(process.env, bucket.environment)
afterAll(() => bucket.stop())

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

    await ran(['backup', 's3://bucket/old', '--data-dir', dataDir])
    await ran(['restore', 's3://bucket/old', '--data-dir', `${dataDir}-from-bucket`])
    const fromBucket = new Golden(commit, 'stopped', `${dataDir}-from-bucket`)
    await fromBucket.start()
    await fromBucket.holdsRows()
    await fromBucket.stop()
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

test('a backup in a bucket of each version of its format is restored', async () => {
  for (const format of readdirSync(BUCKETS)) {
    const folder = join(temporaryFolder(), 'bucket')
    mkdirSync(folder)
    expect(spawnSync('tar', ['-xzf', join(BUCKETS, format), '-C', folder]).status).toBe(0)
    for (const name of readdirSync(folder, { recursive: true }) as string[])
      if (statSync(join(folder, name)).isFile()) bucket.put(name, readFileSync(join(folder, name)))
    const restored = join(temporaryFolder(), 'data')
    await ran(['restore', 's3://bucket/golden', '--data-dir', restored])
    // It was made of the stopped folder of this version.
    const golden = new Golden('c13ed4a', 'stopped', restored)
    await verifyFolder(restored)
    await golden.start()
    await golden.holdsRows()
    await golden.stop()
  }
})

test('repair writes a log of today, so the version that wrote the folder refuses it by its number', async () => {
  const golden = new Golden('c8f41e9', 'killed')
  const { dataDir } = golden
  rmSync(join(dataDir, 'log', 'head'))
  await ran(['repair', '--data-dir', dataDir], 'clean')
  expect(readFileSync(join(dataDir, 'FORMAT'), 'utf8')).toBe('weir 6\n')
  await golden.start()
  await golden.holdsRows()
  await golden.stop()
})

/** Runs a command to its end, which must be clean. */
async function ran(args: readonly string[], says = ''): Promise<void> {
  const { code, output } = await weir(args)
  expect([code, output], args.join(' ')).toEqual([0, expect.stringContaining(says)])
}
