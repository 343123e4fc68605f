import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { poolKey, TAG } from '../../src/index/index-entry.ts'
import { planSalvage } from '../../src/log/salvage.ts'
import { FINDINGS_TOLD_MAX } from '../../src/tools/report.ts'
import { type Disk, disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import { events, flipBit, readStoppedLog, segmentsOf } from '../path/damage.ts'
import { send, spawnServer, startServer, type TestServer } from '../util/server.ts'
import {
  cannotBeRead,
  changeIndex,
  contents,
  copyOf,
  type Filled,
  fillFolder,
  holds,
  ROWS,
  SUM,
  weir,
} from './folder.ts'

// Each test runs several processes, one after the other.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let filled: Filled
const running: TestServer[] = []

beforeAll(async () => {
  filled = await fillFolder()
})

afterAll(async () => {
  for (const server of running) await server.kill()
})

async function start(dataDir: string): Promise<TestServer> {
  const server = await startServer({ dataDir })
  running.push(server)
  return server
}

function repair(dataDir: string, ...flags: string[]) {
  return weir(['repair', '--data-dir', dataDir, ...flags])
}

/**
 * Expects --dry-run and a run without --yes to change nothing, then repairs with --yes. Returns the
 * plan.
 */
async function repairLosing(dataDir: string): Promise<string> {
  const before = contents(dataDir)
  const dry = await repair(dataDir, '--dry-run')
  expect([dry.code, dry.out]).toEqual([1, expect.stringMatching(/^would: /)])
  const refused = await repair(dataDir)
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('--yes')])
  expect(contents(dataDir)).toEqual(before)
  const done = await repair(dataDir, '--yes')
  expect([done.code, done.out, done.err]).toEqual([
    0,
    expect.stringMatching(/\nclean: .*\n$/),
    expect.anything(),
  ])
  expect(await weir(['verify', '--data-dir', dataDir])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^clean: /),
  })
  return done.out
}

/** Names below data/damaged. */
function aside(dataDir: string): string[] {
  return (readdirSync(join(dataDir, 'damaged'), { recursive: true }) as string[]).sort()
}

test('repair changes nothing in a clean folder', async () => {
  const dataDir = copyOf(filled)
  const before = contents(dataDir)
  expect(await repair(dataDir, '--yes')).toMatchObject({ code: 0, out: 'nothing to repair\n' })
  expect(contents(dataDir)).toEqual(before)
})

/**
 * A folder of a killed server. Ten requests of one event each are in the log only, ids u0 to u9.
 */
async function withLog(): Promise<{ dataDir: string; places: ReturnType<typeof readStoppedLog>['records'] }> {
  const dataDir = copyOf(filled)
  const server = await start(dataDir)
  const url = `${server.base}${filled.path}`
  const pad = 'x'.repeat(1500) // not all of them in one page
  for (let n = 0; n < 10; n++)
    expect((await send(url, [{ ts: '2026-01-02', id: `u${n}`, n: 100, pad }])).status).toBe(200)
  await server.kill()
  return {
    dataDir,
    places: readStoppedLog(dataDir)
      .records.filter(({ kind }) => kind === 'post')
      .slice(-10),
  }
}

test('a damaged record in the middle of the log loses one request, which repair names', async () => {
  const { dataDir, places } = await withLog()
  const { file, fileOffset } = must(places[3], 'a record')
  flipBit(file, fileOffset + 70)
  expect((await spawnServer({ dataDir }).ended).code).toBe(1)
  const out = await repairLosing(dataDir)
  expect(out).toMatch(new RegExp(`log: .*${file}.*byte ${fileOffset}`))
  expect(out).toMatch(/log: sequences (\d+) to \1 cannot be read: 1 requests are lost/)
  expect(aside(dataDir).some(name => name.endsWith('.log'))).toBe(true)
  const server = await start(dataDir)
  expect(await server.count(filled.poolId)).toBe(String(ROWS + 9))
  expect(await server.sum(filled.poolId, 'n')).toBe(String(SUM + 900))
  expect((await send(`${server.base}${filled.path}`, events(9000, 9001))).status).toBe(200)
  expect((await server.stop()).code).toBe(0)
  expect(await weir(['verify', '--data-dir', dataDir])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^clean: /),
  })
})

test('a log file with a damaged header loses its requests, and repair asks before that', async () => {
  const { dataDir, places } = await withLog()
  const { file } = must(places[0], 'a record')
  writeFileSync(file, Buffer.concat([Buffer.alloc(4096), readFileSync(file).subarray(4096)]))
  const out = await repairLosing(dataDir)
  expect(out).toContain(
    'the checksum of the log file header does not match, so its records cannot be checked',
  )
  expect(out).toContain('an unknown number of requests at its end may be lost')
  expect(aside(dataDir).some(name => name.endsWith('.log'))).toBe(true)
  const server = await start(dataDir)
  expect(await server.sum(filled.poolId, 'n')).toBe(String(SUM))
  expect((await server.stop()).code).toBe(0)
})

test('repair restores a lost log header and a log folder without files', async () => {
  const { dataDir } = await withLog()
  rmSync(join(dataDir, 'log', 'head'))
  expect((await repair(dataDir, '--yes')).code).toBe(0)
  const server = await start(dataDir)
  expect(await server.sum(filled.poolId, 'n')).toBe(String(SUM + 1000))
  expect((await server.stop()).code).toBe(0)
  for (const name of readdirSync(join(dataDir, 'log')))
    if (name !== 'head') rmSync(join(dataDir, 'log', name))
  expect((await spawnServer({ dataDir }).ended).code).toBe(1)
  expect((await repair(dataDir, '--yes')).code).toBe(0)
  const again = await start(dataDir)
  expect(await again.sum(filled.poolId, 'n')).toBe(String(SUM + 1000))
  expect((await send(`${again.base}${filled.path}`, events(0, 1, 3))).status).toBe(200)
  expect(await again.sum(filled.poolId, 'n')).toBe(String(SUM + 1001))
  expect((await again.stop()).code).toBe(0)
})

test('repair moves a damaged segment aside, counts its rows, and the pool answers again', async () => {
  const dataDir = copyOf(filled)
  const first = must(segmentsOf(dataDir, filled.poolId)[0], 'a segment')
  writeFileSync(first, readFileSync(first).subarray(0, 5000))
  expect(await repairLosing(dataDir)).toContain('3,400 live rows are lost')
  expect(aside(dataDir).some(name => name.endsWith('0000000001.parquet'))).toBe(true)
  const server = await start(dataDir)
  expect(await server.count(filled.poolId)).toBe('500')
  expect(await server.sum(filled.poolId, 'n')).toBe('1000')
  expect(await server.count(filled.plainId)).toBe('7')
  expect((await server.stop()).code).toBe(0)
})

test('repair moves unreadable files aside, and nothing else', async () => {
  const dataDir = copyOf(filled)
  const [first, second] = segmentsOf(dataDir, filled.poolId)
  cannotBeRead(must(first, 'a segment'))
  cannotBeRead(must(second, 'a second one').replace('.parquet', '.deletes'))
  const out = await repairLosing(dataDir)
  expect(out).toContain('3,400 live rows are lost')
  expect(out).toMatch(/its deletes are lost.*the rows of the segment stay/)
  const server = await start(dataDir)
  expect(await server.count(filled.poolId)).toBe('500')
  expect((await server.stop()).code).toBe(0)
})

test('repair sees a damaged segment behind more findings than it prints', async () => {
  const dataDir = copyOf(filled)
  changeIndex(dataDir, txn => {
    for (let n = 0; n <= FINDINGS_TOLD_MAX; n++)
      txn.put(Buffer.concat([poolKey(TAG.key, 3), Buffer.from(`no such key ${n}`)]), Buffer.alloc(8, 77))
  })
  const plain = must(segmentsOf(dataDir, filled.plainId)[0], 'a segment')
  writeFileSync(plain, readFileSync(plain).subarray(0, 500))
  expect(await repairLosing(dataDir)).toContain('7 live rows are lost')
})

test('repair keeps the rest of a log file with unreadable sectors', async () => {
  const { dataDir, places } = await withLog()
  const { file, fileOffset } = must(places[3], 'a record')
  const opened = new Map<number, string>()
  const broken: Disk = {
    ...disk,
    open: (path, flags, mode) => {
      const handle = disk.open(path, flags, mode)
      opened.set(handle, path)
      return handle
    },
    read: (handle, into, position) => {
      if (opened.get(handle) === file && position <= fileOffset && fileOffset < position + into.byteLength)
        throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', syscall: 'read' })
      return disk.read(handle, into, position)
    },
  }
  const folder = join(dataDir, 'log')
  const options = { folder, fileBytesMax: 8 * 1024 * 1024, isKnown: () => true, flushedSequence: 0 }
  const whole = await planSalvage({ ...options, disk })
  const found = await planSalvage({ ...options, disk: broken })
  const at = Math.floor(fileOffset / 4096) * 4096
  expect(found.places[0]).toMatchObject({ file, offset: at, message: expect.stringContaining('EIO') })
  expect([whole.mayMissEnd, found.mayMissEnd, found.files]).toEqual([false, true, [file]])
  expect(found.salvaged).toBeGreaterThan(0)
  expect(found.salvaged).toBeLessThan(whole.salvaged)
})

test('deleted rows stay deleted when the Parquet file beside a good delete file is missing', async () => {
  const dataDir = copyOf(filled)
  rmSync(must(segmentsOf(dataDir, filled.poolId)[1], 'the second segment'))
  expect(await repairLosing(dataDir)).toMatch(/500 live rows are lost.*its deletes stay/)
  const server = await start(dataDir)
  // The 500 rows that the lost segment had replaced are back as they were.
  expect([await server.count(filled.poolId), await server.sum(filled.poolId, 'n')]).toEqual(['3900', '3900'])
  expect((await server.stop()).code).toBe(0)
})

test('rows stay when the delete file beside a good Parquet file is damaged', async () => {
  const dataDir = copyOf(filled)
  const deletes = must(segmentsOf(dataDir, filled.poolId)[1], 'a segment').replace('.parquet', '.deletes')
  flipBit(deletes, 60)
  expect(await repairLosing(dataDir)).toMatch(/its deletes are lost.*the rows of the segment stay/)
  expect(existsSync(deletes)).toBe(false)
  const server = await start(dataDir)
  expect([await server.count(filled.poolId), await server.sum(filled.poolId, 'n')]).toEqual(['4000', '4500'])
  expect((await server.stop()).code).toBe(0)
})

test('repair of the index and of admin.json loses nothing and needs no --yes', async () => {
  for (const damage of [
    (dataDir: string) => writeFileSync(join(dataDir, 'index', 'data.mdb'), Buffer.alloc(20_000, 7)),
    (dataDir: string) => rmSync(join(dataDir, 'index'), { recursive: true }),
    (dataDir: string) => rmSync(join(dataDir, 'admin.json')),
    (dataDir: string) => flipBit(join(dataDir, 'admin.json'), 25),
  ]) {
    const dataDir = copyOf(filled)
    damage(dataDir)
    expect(await repair(dataDir)).toMatchObject({ code: 0, out: expect.stringMatching(/\nclean: .*\n$/) })
    expect(readFileSync(join(dataDir, 'admin.json'))).toEqual(
      readFileSync(join(filled.dataDir, 'admin.json')),
    )
    const server = await start(dataDir)
    expect(server.output()).not.toContain('the index was rebuilt')
    await holds(server, filled.poolId)
    expect((await server.stop()).code).toBe(0)
  }
})

test('rebuild makes the same index; a damaged segment stops it and the old index stays', async () => {
  const dataDir = copyOf(filled)
  const done = await weir(['rebuild', '--data-dir', dataDir])
  expect([done.code, done.out]).toEqual([0, expect.stringMatching(/rebuilt: 3 segments of 2 pools/)])
  expect(await weir(['verify', '--data-dir', dataDir])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^clean: /),
  })
  const server = await start(dataDir)
  await holds(server, filled.poolId)
  const held = await weir(['rebuild', '--data-dir', dataDir])
  expect([held.code, held.err]).toEqual([2, expect.stringContaining(dataDir)])
  expect((await server.stop()).code).toBe(0)
  const first = must(segmentsOf(dataDir, filled.poolId)[0], 'a segment')
  writeFileSync(first, readFileSync(first).subarray(0, 5000))
  const before = contents(dataDir)
  const failed = await weir(['rebuild', '--data-dir', dataDir])
  expect([failed.code, failed.err]).toEqual([1, expect.stringContaining(first)])
  expect(contents(dataDir)).toEqual(before)
})

test('a damaged catalog cannot be repaired, and repair says so', async () => {
  const dataDir = copyOf(filled)
  writeFileSync(join(dataDir, 'catalog', 'data.mdb'), Buffer.alloc(20_000, 7))
  const before = contents(dataDir)
  const { code, err } = await repair(dataDir, '--yes')
  expect([code, err]).toEqual([1, expect.stringMatching(/catalog.*backup/)])
  expect(contents(dataDir)).toEqual(before)
})
