/**
 * A backup with damaged segments, of a running server and of a stopped folder, has everything else,
 * names each damaged file, and never ends with `done`. It can be restored, repaired and started.
 */
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { must } from '../../../src/util/errors.ts'
import { flipBit, segmentsOf } from '../../path/damage.ts'
import { startServer, temporaryFolder } from '../../util/server.ts'
import { type Filled, fillFolder, weir } from '../folder.ts'
import { askBackup, readBackup } from './backups.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const root = temporaryFolder('weir-damaged-')
let filled: Filled

beforeAll(async () => {
  filled = await fillFolder()
})

/** A copy of the folder with damage, and the paths in it that are damaged. */
function damaged(name: string, damage: (parquet: string, deletes: string) => void) {
  const dataDir = join(root, name)
  cpSync(filled.dataDir, dataDir, { recursive: true })
  const second = must(segmentsOf(dataDir, filled.poolId)[1], 'the second segment')
  const deletes = second.replace('.parquet', '.deletes')
  damage(second, deletes)
  return { dataDir, second, deletes }
}

/** Flips a bit in the middle. The file may still decode, but its checksum is wrong. */
const inTheMiddle = (file: string) => flipBit(file, Math.floor(readFileSync(file).length / 2))

test.each([
  [
    'a flipped bit of a Parquet file',
    (parquet: string) => inTheMiddle(parquet),
    '.parquet',
    'do not match their checksum',
  ],
  [
    'a flipped bit of a delete file',
    (_: string, deletes: string) => inTheMiddle(deletes),
    '.deletes',
    'do not match their checksum',
  ],
  ['a missing Parquet file', (parquet: string) => rmSync(parquet), '.parquet', 'it is missing'],
])('%s makes the backup of a stopped folder and of a server incomplete', async (name, damage, file, what) => {
  const { dataDir } = damaged(name, damage)
  const path = `segment/${filled.poolId}/0000000002${file}`
  const stopped = join(root, `${name} stopped`)
  const { code, output } = await weir(['backup', stopped, '--data-dir', dataDir, '--log-level', 'error'])
  expect([code, output]).toEqual([
    1,
    expect.stringMatching(/the backup .* is incomplete, these files were damaged before it was made/),
  ])
  expect(output).toMatch(new RegExp(`${path} \\(.*${what}`))
  expect(output).not.toMatch(/^backup of/m)
  expect(readBackup(stopped)).toMatchObject({ format: 2, damaged: [{ path }] })

  const server = await startServer({ dataDir })
  const running = join(root, `${name} running`)
  const { lines } = await askBackup(server, { folder: running })
  expect(lines.filter(line => 'done' in line)).toEqual([])
  expect(lines.at(-1)).toMatchObject({
    code: 'backup_incomplete',
    error: expect.stringContaining(join(dataDir, path)),
    damaged: [{ path }],
    segments: 3,
  })
  const asked = await weir(['backup', `${running} 2`, '--url', server.base, '--data-dir', dataDir])
  expect([asked.code, asked.output]).toEqual([1, expect.stringContaining(path)])
  await server.kill()
})

test('restore takes an incomplete backup only with --incomplete, and repair makes it start', async () => {
  const { dataDir } = damaged('to restore', parquet => inTheMiddle(parquet))
  const folder = join(root, 'incomplete')
  expect((await weir(['backup', folder, '--data-dir', dataDir])).code).toBe(1)
  const verified = await weir(['verify', '--data-dir', folder])
  expect([verified.code, verified.output]).toEqual([
    1,
    expect.stringContaining('it was damaged before the backup was made'),
  ])
  const to = join(root, 'restored')
  const refused = await weir(['restore', folder, '--data-dir', to])
  expect([refused.code, refused.output, existsSync(to)]).toEqual([
    1,
    expect.stringContaining('--incomplete'),
    false,
  ])
  const restored = await weir(['restore', folder, '--incomplete', '--data-dir', to, '--log-level', 'error'])
  expect([restored.code, restored.output]).toEqual([
    1,
    expect.stringMatching(/restored sequence .*\n.*weir repair/),
  ])
  const repaired = await weir(['repair', '--yes', '--data-dir', to])
  expect([repaired.code, repaired.output]).toEqual([
    expect.any(Number),
    expect.stringContaining('0000000002'),
  ])
  const server = await startServer({ dataDir: to })
  // The 500 rows that the damaged segment had replaced are as they were; its deletes are there.
  expect([await server.count(filled.poolId), await server.sum(filled.poolId, 'n')]).toEqual(['3900', '3900'])
  expect((await server.stop()).code).toBe(0)
})
