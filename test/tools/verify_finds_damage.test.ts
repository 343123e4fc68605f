import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import {
  decodeSegment,
  deletionVectorKey,
  encodeSegment,
  poolKey,
  segmentKey,
  TAG,
} from '../../src/index/index-entry.ts'
import type { KeyTxn } from '../../src/index/index-store.ts'
import { must } from '../../src/util/errors.ts'
import { flipBit, readStoppedLog, segmentsOf } from '../path/damage.ts'
import { below, casesOf, randomFrom } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import {
  cannotBeRead,
  changeIndex,
  contents,
  copyOf,
  type Filled,
  fillFolder,
  weir,
  weirInside,
} from './folder.ts'

/** Number of the keyed pool: `events` is 1, the pool of rejected events 2. */
const POOL = 3
/** Random damage to the index; each run takes other bits, and each round a process. */
const FLIP_ROUNDS = casesOf(3, 6)
// Each test runs several processes, one after the other.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let filled: Filled
/** The counts of the filled folder. The number of log records depends on the kill. */
const CLEAN = /^clean: 4 pools, 3 segments with 4,507 rows and 100 deletes, 3,900 keys, \d+ log records\n$/

beforeAll(async () => {
  filled = await fillFolder()
})

/** `weir verify` on a folder, which it must leave as it is. */
async function verify(
  dataDir: string,
  args: readonly string[] = [],
  run: typeof weir | typeof weirInside = weirInside,
) {
  const before = contents(dataDir)
  const done = await run(['verify', '--data-dir', dataDir, ...args])
  expect(contents(dataDir)).toEqual(before)
  return done
}

/** The files of the keyed pool's segments. */
function files(dataDir: string) {
  const parquet = segmentsOf(dataDir, filled.poolId)
  const [first, second] = [must(parquet[0], 'a segment'), must(parquet[1], 'a second one')]
  return { first, second, deletes: second.replace('.parquet', '.deletes') }
}

/** The first key of the keyed pool that points at a row of `segment`. */
function keyOf(txn: KeyTxn, segment: number): [key: Uint8Array, value: Uint8Array] {
  const entries = txn.range(poolKey(TAG.key, POOL), poolKey(TAG.key, POOL + 1), 10_000)
  return entries.find(([, value]) => Buffer.from(value).readUInt32LE(0) === segment) as never
}

function pointing(segment: number, row: number): Uint8Array {
  const value = Buffer.alloc(8)
  value.writeUInt32LE(segment, 0)
  value.writeUInt32LE(row, 4)
  return value
}

function changeDeletedRows(txn: KeyTxn, segment: number, by: number): void {
  const record = decodeSegment(must(txn.get(segmentKey(POOL, segment)), 'the record'))
  txn.put(segmentKey(POOL, segment), encodeSegment({ ...record, deletedRows: record.deletedRows + by }))
}

test.each(['native', 'js'])(
  'a folder after updates, deletes and a kill is clean (--kernel %s)',
  async kernel => {
    const done = await verify(copyOf(filled), ['--kernel', kernel], weir)
    expect([done.code, done.out]).toEqual([0, expect.stringMatching(CLEAN)])
  },
)

test('--json has the same findings and counts', async () => {
  const dataDir = copyOf(filled)
  expect(JSON.parse((await verify(dataDir, ['--json'])).out)).toEqual({
    clean: true,
    count: 0,
    findings: [],
    notes: [],
    checked: {
      files: 0,
      pools: 4,
      segments: 3,
      rows: 4507,
      deletes: 100,
      keys: 3900,
      logRecords: expect.any(Number),
    },
  })
  const { first } = files(dataDir)
  rmSync(first)
  const { code, out } = await verify(dataDir, ['--json'])
  expect(code).toBe(1)
  expect(JSON.parse(out)).toMatchObject({ clean: false, count: 1, findings: [{ file: first }] })
})

/** Damage, and a text that the report must have. */
const damages: Record<string, [damage: (dataDir: string) => void, names: RegExp]> = {
  'a bit of a log record': [
    dataDir => {
      const { records } = readStoppedLog(dataDir)
      const { file, fileOffset } = must(records[0], 'a record')
      flipBit(file, fileOffset + 20)
    },
    /log\/\d+-\d+\.log at byte 4096: no valid record of sequence \d+/,
  ],
  'a bit of the log head': [
    dataDir => flipBit(join(dataDir, 'log', 'head'), 20),
    /log\/head: the checksum of the log header/,
  ],
  'a bit of a log file header': [
    dataDir => flipBit(must(readStoppedLog(dataDir).records[0], 'a record').file, 20),
    /\.log: the checksum of the log file header does not match/,
  ],
  'the magic of a Parquet file': [
    dataDir => flipBit(files(dataDir).first, statSync(files(dataDir).first).size - 2),
    /0000000001\.parquet/,
  ],
  'a bit in the Parquet footer': [
    dataDir => flipBit(files(dataDir).first, statSync(files(dataDir).first).size - 300),
    /0000000001\.parquet: its bytes do not match their checksum in the index/,
  ],
  'a bit of a value': [
    dataDir => flipBit(files(dataDir).first, 2000),
    /0000000001\.parquet: its bytes do not match their checksum in the index/,
  ],
  'half a Parquet file': [
    dataDir => {
      const { first } = files(dataDir)
      writeFileSync(first, readFileSync(first).subarray(0, 5000))
    },
    /0000000001\.parquet/,
  ],
  'a bit of a delete file': [
    dataDir => flipBit(files(dataDir).deletes, 60),
    /\d+\.deletes at byte \d+: the checksum does not match/,
  ],
  'a bit of admin.json': [dataDir => flipBit(join(dataDir, 'admin.json'), 25), /admin\.json: /],
  'an index that is not LMDB': [
    dataDir => writeFileSync(join(dataDir, 'index', 'data.mdb'), Buffer.alloc(20_000, 7)),
    /index.*: .*not an LMDB file/,
  ],
  'a catalog that is not LMDB': [
    dataDir => writeFileSync(join(dataDir, 'catalog', 'data.mdb'), Buffer.alloc(20_000, 7)),
    /catalog.*: .*not an LMDB file/,
  ],
  'a key that is gone': [
    dataDir => changeIndex(dataDir, txn => txn.remove(keyOf(txn, 1)[0])),
    /0000000001\.parquet, row \d+: the index does not have its key/,
  ],
  'a key that points at another row': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(keyOf(txn, 1)[0], pointing(1, 3999))
      }),
    /0000000001\.parquet, row \d+: its key points at row 3999 of segment 1/,
  ],
  'a key too many': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(Buffer.concat([poolKey(TAG.key, POOL), Buffer.from('no such key')]), pointing(1, 3999))
      }),
    /index: pool DPO\w+: the key [0-9a-f]+ points at row 3999 of segment 1, as another key does/,
  ],
  'a key of a segment that does not exist': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(Buffer.concat([poolKey(TAG.key, POOL), Buffer.from('no such key')]), pointing(77, 0))
      }),
    /the key [0-9a-f]+ points at segment 77, which does not exist/,
  ],
  'a key in a pool without keys': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(Buffer.concat([poolKey(TAG.key, 4), Buffer.from('no such key')]), pointing(1, 0))
      }),
    /it has 1 keys for 0 live rows/,
  ],
  'a deleted row too many': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(deletionVectorKey(POOL, 1, 99), new Uint8Array(Uint32Array.of(3999).buffer))
        changeDeletedRows(txn, 1, 1)
      }),
    /0000000001\.parquet, row 3999: it is deleted, but its key points at it/,
  ],
  'a deletion vector that is gone': [
    dataDir =>
      changeIndex(dataDir, txn => {
        const removed = txn.removeRange(
          poolKey(TAG.deletionVector, POOL),
          poolKey(TAG.deletionVector, POOL + 1),
          100,
        )
        expect(removed).toBeGreaterThan(0)
        changeDeletedRows(txn, 1, -600)
      }),
    /0000000001\.parquet, row \d+: .*the row is not deleted/,
  ],
  'a wrong count of deleted rows': [
    dataDir => changeIndex(dataDir, txn => changeDeletedRows(txn, 1, -1)),
    /0000000001\.parquet: its deletion vector has 600 rows, the index counts 599/,
  ],
  'a deleted row beyond the rows': [
    dataDir =>
      changeIndex(dataDir, txn => {
        txn.put(deletionVectorKey(POOL, 1, 99), new Uint8Array(Uint32Array.of(4000).buffer))
        changeDeletedRows(txn, 1, 1)
      }),
    /0000000001\.parquet, row 4000: its deletion vector has a row beyond its 4000 rows/,
  ],
  'a wrong zone map in the manifest': [
    dataDir =>
      changeIndex(dataDir, txn => {
        const { meta, deletedRows } = decodeSegment(must(txn.get(segmentKey(POOL, 1)), 'the record'))
        const changed = { ...meta, timestampToUs: (meta.timestampToUs ?? 0) - 1 }
        txn.put(segmentKey(POOL, 1), encodeSegment({ meta: changed, deletedRows }))
      }),
    /0000000001\.parquet: the index has timestampToUs \d+, its rows have \d+/,
  ],
  'sequences that overlap': [
    dataDir =>
      changeIndex(dataDir, txn => {
        const { meta, deletedRows } = decodeSegment(must(txn.get(segmentKey(POOL, 1)), 'the record'))
        const changed = { ...meta, sequenceTo: meta.sequenceTo + 3 }
        txn.put(segmentKey(POOL, 1), encodeSegment({ meta: changed, deletedRows }))
      }),
    /its sequences \d+ to \d+ overlap those of segment 1/,
  ],
  'a missing Parquet file': [
    dataDir => rmSync(files(dataDir).first),
    /0000000001\.parquet: the file is missing; it held 4000 rows/,
  ],
  'a missing delete file': [
    dataDir => rmSync(files(dataDir).deletes),
    /\.deletes: the file is missing; it held 100 deletes/,
  ],
  'a Parquet file that cannot be read': [
    dataDir => cannotBeRead(files(dataDir).first),
    /0000000001\.parquet: EISDIR/,
  ],
  'a delete file that cannot be read': [dataDir => cannotBeRead(files(dataDir).deletes), /\.deletes: EISDIR/],
  'an admin.json that cannot be read': [
    dataDir => cannotBeRead(join(dataDir, 'admin.json')),
    /admin\.json: EISDIR/,
  ],
  'two segments that changed places': [
    dataDir => {
      const { first, second } = files(dataDir)
      renameSync(first, `${first}.x`)
      renameSync(second, first)
      renameSync(`${first}.x`, second)
    },
    /0000000001\.parquet: its footer has segment \d+, it should have 1/,
  ],
}

describe('verify finds and names', () => {
  test.each(Object.entries(damages))('%s', async (_, [damage, names]) => {
    const dataDir = copyOf(filled)
    damage(dataDir)
    const { code, out } = await verify(dataDir)
    expect([code, out]).toEqual([1, expect.stringMatching(names)])
    expect(out.trimEnd().split('\n').at(-1)).toMatch(/^\d+ findings?; checked: /)
  })
})

test('verify goes on after unreadable files and reports the rest', async () => {
  const dataDir = copyOf(filled)
  const { first, deletes } = files(dataDir)
  cannotBeRead(first)
  flipBit(deletes, 60)
  cannotBeRead(join(dataDir, 'admin.json'))
  const { code, out } = await verify(dataDir)
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/\.deletes at byte \d+: the checksum does not match/),
  ])
  expect(out).toContain(`${first}: EISDIR`)
})

test('a file that the next start removes or makes again is a note, not a finding', async () => {
  const dataDir = copyOf(filled)
  const folder = join(dataDir, 'segment', filled.poolId)
  writeFileSync(join(folder, '0000000099.parquet.tmp'), 'x')
  writeFileSync(join(folder, '0000000099.parquet'), 'x')
  mkdirSync(join(dataDir, 'segment', 'nobody'))
  rmSync(join(dataDir, 'admin.json'))
  const { code, out, err } = await verify(dataDir)
  expect([code, out]).toEqual([0, expect.stringMatching(CLEAN)])
  for (const name of ['0000000099.parquet.tmp', '0000000099.parquet', 'nobody', 'admin.json'])
    expect(err).toContain(`${name} `)
})

test('without an index the segments are checked alone', async () => {
  const dataDir = copyOf(filled)
  rmSync(join(dataDir, 'index'), { recursive: true })
  const whole = await verify(dataDir)
  expect([whole.code, whole.out, whole.err]).toEqual([
    0,
    expect.stringMatching(/^clean: 4 pools, 3 segments with 4,507 rows and 100 deletes, \d+ log records\n$/),
    expect.stringContaining('Not checked without it: missing segments'),
  ])
  flipBit(files(dataDir).deletes, 60)
  expect(await verify(dataDir)).toMatchObject({ code: 1, out: expect.stringContaining('.deletes') })
})

test('verify goes on after pages that make the decoder trap, and a start without an index names the file and ends', async () => {
  const dataDir = copyOf(filled)
  rmSync(join(dataDir, 'index'), { recursive: true })
  const { first, deletes } = files(dataDir)
  const pages = Buffer.from(readFileSync(first))
  for (let at = 4; at < pages.length - 3000; at += 5) pages[at]! ^= 0xff
  writeFileSync(first, pages)
  flipBit(deletes, 60)
  const { code, out } = await verify(dataDir)
  expect([code, out]).toEqual([1, expect.stringMatching(/0000000001\.parquet: row group 0: /)])
  expect(out).toMatch(/\d+\.deletes at byte \d+: the checksum does not match/)
  flipBit(deletes, 60)
  for (const kernel of ['native', 'js']) {
    const start = await weir(['start', '--data-dir', dataDir, '--port', '0', '--kernel', kernel])
    expect([start.code, start.err + start.out]).toEqual([1, expect.stringContaining(`${first} is damaged`)])
  }
})

test('verify survives flipped bits anywhere in the index: it is clean or has findings, and never crashes', async () => {
  const seed = Date.now() % 2 ** 31
  const random = randomFrom(seed)
  const clean = readFileSync(join(filled.dataDir, 'index', 'data.mdb'))
  const ends: unknown[] = []
  for (let round = 0; round < FLIP_ROUNDS; round++) {
    const dataDir = copyOf(filled)
    const bytes = Buffer.from(clean)
    for (let flip = 0; flip < 40; flip++) bytes[below(random, bytes.length)]! ^= 1 << below(random, 8)
    writeFileSync(join(dataDir, 'index', 'data.mdb'), bytes)
    const { code, out } = await weir(['verify', '--data-dir', dataDir])
    ends.push([seed, round, code, /^(clean: |\d+ findings?; )/m.test(out)])
    expect([0, 1]).toContain(code)
  }
  expect(ends.filter(end => !(end as unknown[])[3])).toEqual([])
})

test('commands exit with 2 on an empty folder and leave it empty', async () => {
  const folder = temporaryFolder()
  for (const command of ['verify', 'inspect', 'rebuild', 'repair']) {
    const { code, err } = await weir([command, '--data-dir', folder])
    expect([command, code, err]).toEqual([command, 2, expect.stringContaining('is not a data folder')])
  }
  expect(contents(folder).size).toBe(0)
})
