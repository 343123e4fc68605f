/**
 * Restore and verify refuse links, pipes, names and values that no backup has. They make nothing
 * and wait for nothing.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { restoreBackup } from '../../../src/tools/restore.ts'
import { type Disk, disk } from '../../../src/util/disk.ts'
import { pathsOf } from '../../../src/util/paths.ts'
import { events, KEYED } from '../../path/damage.ts'
import { send, startServer, temporaryFolder } from '../../util/server.ts'
import { weir } from '../folder.ts'
import { backUp, readBackup } from './backups.ts'

const root = temporaryFolder('weir-hostile-')
const good = join(root, 'good')
const bad = join(root, 'bad')
const to = join(root, 'restored')

beforeAll(async () => {
  const server = await startServer()
  const made = await server.createPool(KEYED)
  expect((await send(made.url, events(0, 20))).status).toBe(200)
  expect(await server.count(made.poolId)).toBe('20')
  await backUp(server, good)
  expect((await server.stop()).code).toBe(0)
})

/** Makes a copy of the backup and changes it. */
function copy(change: () => void): void {
  rmSync(bad, { recursive: true, force: true })
  cpSync(good, bad, { recursive: true })
  change()
}

/** Expects restore and verify to end, to name the place, and to leave nothing. */
async function refused(place: string, what: string, code = 1): Promise<void> {
  for (const args of [
    ['restore', bad, '--data-dir', to],
    ['verify', '--data-dir', bad],
  ]) {
    const { code: found, output } = await weir(args)
    expect([args[0], found, output]).toEqual([args[0], code, expect.stringContaining(what)])
    expect(output).toContain(place)
    expect(output).not.toMatch(/\n {4}at |internal error/)
    expect(existsSync(to)).toBe(false)
  }
}

function segmentOf(): string {
  const segment = readBackup(good).files.find(({ path }) => path.startsWith('segment/'))
  if (segment === undefined) throw new Error('the backup has a segment')
  return segment.path
}

describe('files that are not plain are refused', () => {
  test.each(['FORMAT', 'catalog/data.mdb', 'log/head', 'segment'])('a symbolic link at %s', async name => {
    copy(() => {
      const path = name === 'segment' ? segmentOf() : name
      renameSync(join(bad, path), join(root, 'elsewhere'))
      symlinkSync(join(root, 'elsewhere'), join(bad, path))
    })
    await refused(name, 'it is not a plain file')
  })

  test('a folder that is a symbolic link', async () => {
    copy(() => {
      rmSync(join(bad, 'log'), { recursive: true })
      symlinkSync(join(good, 'log'), join(bad, 'log'))
    })
    const { code, output } = await weir(['restore', bad, '--data-dir', to])
    expect([code, output]).toEqual([1, expect.stringContaining('it is not a folder')])
    expect(existsSync(to)).toBe(false)
    expect((await weir(['verify', '--data-dir', bad])).code).toBe(1)
  })

  test.each(['FORMAT', 'BACKUP', 'segment'])('a pipe at %s is not waited for', async name => {
    copy(() => {
      const path = name === 'segment' ? segmentOf() : name
      rmSync(join(bad, path))
      execFileSync('mkfifo', [join(bad, path)])
    })
    await refused(name, 'it is not a plain file')
  })

  test('a folder in place of a file', async () => {
    copy(() => {
      rmSync(join(bad, 'log/head'))
      execFileSync('mkdir', [join(bad, 'log/head')])
    })
    const { code, output } = await weir(['restore', bad, '--data-dir', to])
    expect([code, output]).toEqual([1, expect.stringContaining('it is not a plain file')])
    expect(existsSync(to)).toBe(false)
  })
})

/** Changes values of BACKUP, and makes its checksum match. */
function rewrite(change: (contents: Record<string, unknown>) => void): void {
  const { checksum: _, ...contents } = JSON.parse(readFileSync(join(bad, 'BACKUP'), 'utf8'))
  change(contents)
  const checksum = createHash('sha256').update(JSON.stringify(contents)).digest('hex')
  writeFileSync(join(bad, 'BACKUP'), `${JSON.stringify({ ...contents, checksum }, null, 1)}\n`)
}

const FILE = { path: 'FORMAT', bytes: 7, sha256: '0'.repeat(64) }

describe('every value of BACKUP is checked', () => {
  test.each<[string, Record<string, unknown>]>([
    ['its files are not a list', { files: undefined }],
    ['its files are not a list', { files: { length: 1 } }],
    ['which no backup has', { files: [null] }],
    ['which no backup has', { files: [{ ...FILE, path: 7 }] }],
    ['which no backup has', { files: [{ ...FILE, path: 'LOCK' }] }],
    ['which no backup has', { files: [{ ...FILE, path: 'RESTORING' }] }],
    ['which no backup has', { files: [{ ...FILE, path: 'BACKUP' }] }],
    ['which no backup has', { files: [{ ...FILE, path: 'index/data.mdb' }] }],
    ['which no backup has', { files: [{ ...FILE, path: '../FORMAT' }] }],
    ['which no backup has', { files: [{ ...FILE, path: 'segment/../../0000000001.parquet' }] }],
    ['which no backup has', { files: [{ ...FILE, path: '/etc/passwd' }] }],
    ['which no backup has', { files: [{ ...FILE, path: `${'x'.repeat(100_000)}\u001b[2J` }] }],
    ['twice', { files: [FILE, FILE] }],
    ['no length', { files: [{ ...FILE, bytes: '7' }] }],
    ['no length', { files: [{ ...FILE, bytes: -1 }] }],
    ['no checksum', { files: [{ ...FILE, sha256: null }] }],
    ['sequence', { sequence: '9' }],
    ['sequence', { sequence: 1.5 }],
    ['pools', { pools: {} }],
    ['createdAt', { createdAt: 5 }],
    ['format', { format: { toString: 1, valueOf: 1 } }],
    ['format', { format: `\u001b[2J${'x'.repeat(5000)}` }],
    ['"more"', { more: 1 }],
    ['more keys of FORMAT', { files: [{ ...FILE, more: [] }] }],
    ['does not list the file FORMAT', { files: [] }],
    ['does not list the file catalog/data.mdb', { files: [FILE] }],
    [
      'were damaged before',
      { format: 2, damaged: [{ path: 'FORMAT', what: `\u001b[2J\u009b${'x'.repeat(5000)}` }] },
    ],
    ['the damaged file', { format: 2, damaged: [null] }],
    ['files are not a list', { format: 2, damaged: 'all' }],
  ])('%s: %j', async (what, values) => {
    copy(() => rewrite(contents => Object.assign(contents, values)))
    const { code, output } = await weir(['restore', bad, '--data-dir', to])
    expect([code, output]).toEqual([1, expect.stringContaining(what)])
    expect(output).toContain('BACKUP')
    expect(output.length).toBeLessThan(1000)
    expect(output).not.toMatch(/\n {4}at /)
    for (const control of [0x1b, 0x9b]) expect(output).not.toContain(String.fromCharCode(control))
    expect(existsSync(to)).toBe(false)
  })

  test('values nested too deep to be written', async () => {
    const nested = '['.repeat(100_000) + ']'.repeat(100_000)
    copy(() => writeFileSync(join(bad, 'BACKUP'), `{"files":${nested},"checksum":"x"}`))
    await refused('BACKUP', 'its checksum does not match')
  })

  test('a BACKUP that is a broken link is refused before anything else is opened', async () => {
    copy(() => {
      for (const name of ['BACKUP', 'FORMAT']) rmSync(join(bad, name))
      symlinkSync('/nowhere', join(bad, 'BACKUP'))
      execFileSync('mkfifo', [join(bad, 'FORMAT')])
    })
    await refused('BACKUP', 'it is not a plain file')
  })

  test.each(['FORMAT', 'admin.json', 'log/head', 'segment'])(
    'an endless file is not read: %s',
    async name => {
      copy(() => truncateSync(join(bad, name === 'segment' ? segmentOf() : name), 2 ** 40))
      await refused(name, ' bytes')
    },
  )

  test('a BACKUP that is too large is not read', async () => {
    copy(() => truncateSync(join(bad, 'BACKUP'), 3 * 2 ** 30))
    await refused('BACKUP', 'more than the maximum')
  })
})

test('restore leaves a folder with other files as it is', async () => {
  copy(() => undefined)
  mkdirSync(to, { mode: 0o755 })
  writeFileSync(join(to, 'mine'), 'x')
  const { code, output } = await weir(['restore', bad, '--data-dir', to])
  expect([code, output]).toEqual([2, expect.stringContaining('is not empty')])
  expect([readdirSync(to), statSync(to).mode & 0o777]).toEqual([['mine'], 0o755])
  rmSync(to, { recursive: true })
})

test('a failed restore removes no file of others beside its folder', async () => {
  copy(() => undefined)
  const failing: Disk = {
    ...disk,
    fdatasync: file => {
      if (!existsSync(join(to, 'mine'))) writeFileSync(join(to, 'mine'), 'x')
      else throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall: 'fdatasync' })
      disk.fdatasync(file)
    },
  }
  const restored = restoreBackup({
    disk: failing,
    from: bad,
    to: pathsOf(join(to, 'data')),
    takesIncomplete: false,
    onProgress: () => undefined,
  })
  await expect(restored).rejects.toThrow('ENOSPC')
  expect(readdirSync(to)).toEqual(['mine'])
  rmSync(to, { recursive: true })
})

test('a restore that fails in the middle leaves nothing', async () => {
  copy(() => undefined)
  let syncs = 0
  const failing: Disk = {
    ...disk,
    fdatasync: file => {
      syncs += 1
      if (syncs === 4)
        throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall: 'fdatasync' })
      disk.fdatasync(file)
    },
  }
  const options = {
    from: bad,
    to: pathsOf(join(to, 'data')),
    takesIncomplete: false,
    onProgress: () => undefined,
  }
  await expect(restoreBackup({ ...options, disk: failing })).rejects.toThrow('ENOSPC')
  expect([syncs, existsSync(to)]).toEqual([4, false])
  await restoreBackup({ ...options, disk })
  expect(existsSync(join(to, 'data', 'FORMAT'))).toBe(true)
  rmSync(to, { recursive: true })
})
