/**
 * W-5, W-6: the order of the calls that make a segment durable or remove it. The wasm memory stays
 * flat.
 */
import { wasmMemory } from 'parquet-wasm'
import { describe, expect, test } from 'vitest'
import { clearUncommitted, type SweepOptions, sweep } from '../../src/index/sweep-orphans.ts'
import { comparePoolFolders } from '../../src/index/uncommitted-files.ts'
import type { FlushTask } from '../../src/store/flush/segment-writer.ts'
import { tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { publishInPieces, publishSegment, unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import { FlushWriter } from '../../src/store/segment/write-segment.ts'
import { type Disk, disk } from '../../src/util/disk.ts'
import { deleteFile, segmentFile } from '../../src/util/paths.ts'
import { metaOf } from '../index/flushes.ts'
import { MemoryDisk, PowerCut } from '../util/memory-disk.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { randomEntries, schemaOfAll } from './rows.ts'

/** Records calls by file name; `failAt` refuses one. Nothing reaches the disk. */
function recorder(failAt?: string) {
  const calls: string[] = []
  const names = new Map<number, string>()
  const files = new Set<string>()
  const folders = new Set<string>()
  const say = (call: string) => {
    calls.push(call)
    if (call === failAt) throw Object.assign(new Error('refused'), { code: 'EIO', syscall: 'x' })
  }
  const fake: Disk = {
    ...disk,
    open: path => {
      names.set(names.size + 3, path)
      return names.size + 2
    },
    close: () => {},
    exists: path => files.has(path) || folders.has(path),
    mkdir: path => {
      say(`mkdir ${path}`)
      folders.add(path)
    },
    write: file => {
      files.add(names.get(file)!)
      say(`write ${names.get(file)}`)
    },
    fdatasync: file => say(`sync ${names.get(file)}`),
    fsync: file => say(`sync ${names.get(file)}`),
    rename: (from, to) => {
      say(`rename ${from}`)
      files.delete(from)
      files.add(to)
    },
    unlink: path => {
      files.delete(path)
      calls.push(`unlink ${path}`)
    },
  }
  return { fake, calls, files }
}

const both = { parquet: new Uint8Array(1), deletes: new Uint8Array(1) }

describe('a segment', () => {
  test('W-5: is written, synced, renamed, and its folder synced; the delete file first', () => {
    const { fake, calls } = recorder()
    publishSegment(fake, '/d/s/p', 1, both)
    expect(calls).toEqual([
      'mkdir /d/s/p',
      'sync /d/s',
      'sync /d',
      'write /d/s/p/0000000001.deletes.tmp',
      'sync /d/s/p/0000000001.deletes.tmp',
      'write /d/s/p/0000000001.parquet.tmp',
      'sync /d/s/p/0000000001.parquet.tmp',
      'rename /d/s/p/0000000001.deletes.tmp',
      'sync /d/s/p',
      'rename /d/s/p/0000000001.parquet.tmp',
      'sync /d/s/p',
    ])
  })

  test('W-5: without deletes costs one sync of its folder, and so does its removal', () => {
    const { fake, calls } = recorder()
    publishSegment(fake, '/d/s/p', 1, { ...both, deletes: undefined })
    expect(calls.filter(call => call === 'sync /d/s/p')).toHaveLength(1)
    calls.length = 0
    unlinkSegments(fake, '/d/s/p', [1])
    expect(calls).toEqual(['unlink /d/s/p/0000000001.parquet', 'sync /d/s/p'])
  })

  test('W-6: loses its Parquet file first; many at once cost two syncs, and a removal that is there already one', () => {
    const { fake, calls } = recorder()
    for (const segment of [1, 2]) publishSegment(fake, '/d/s/p', segment, both)
    calls.length = 0
    unlinkSegments(fake, '/d/s/p', [1, 2])
    expect(calls).toEqual([
      'unlink /d/s/p/0000000001.parquet',
      'unlink /d/s/p/0000000002.parquet',
      'sync /d/s/p',
      'unlink /d/s/p/0000000001.deletes',
      'unlink /d/s/p/0000000002.deletes',
      'sync /d/s/p',
    ])
    calls.length = 0
    // Whoever removed them may not have come to the sync.
    unlinkSegments(fake, '/d/s/p', [1, 2])
    expect(calls).toEqual(['sync /d/s/p'])
  })

  test('leaves no file behind, whichever call is refused, but delete files where the folder cannot be synced', () => {
    const { fake, calls } = recorder()
    publishSegment(fake, '/d/s/p', 1, both)
    expect(fake).toBeDefined()
    for (const failAt of calls) {
      const { fake: refusing, files } = recorder(failAt)
      expect(() => publishSegment(refusing, '/d/s/p', 1, both)).toThrow('refused')
      const left = failAt === 'sync /d/s/p' ? ['/d/s/p/0000000001.deletes'] : []
      expect([...files]).toEqual(left)
    }
  })
})

const FOLDER = '/data/segment/p'
const names = (disk: MemoryDisk) => (disk.exists(FOLDER) ? disk.readdir(FOLDER) : [])

/** The operations on segments 1 and 2. Both have two files, and segment 2 is live. */
const works: Record<string, (on: MemoryDisk) => unknown> = {
  'a flush': on => publishSegment(on, FOLDER, 3, both),
  'a merge': on => publishInPieces(on, FOLDER, 3, pieces(), 1, async () => undefined),
  'a merge that is given up': on =>
    publishInPieces(on, FOLDER, 3, pieces(), 1, async () => {
      throw new Error('given up')
    }),
  'a flush that fails at its last sync': on => {
    on.failNext('fsync', 'EIO', /p$/)
    on.failNext('fsync', 'EIO', /p$/)
    publishSegment(on, FOLDER, 3, both)
  },
  'a flush over files of the same number': on => publishSegment(on, FOLDER, 2, both),
  'a removal': on => unlinkSegments(on, FOLDER, [1, 2]),
  'a removal that fails': on => {
    on.failNext('fsync', 'EIO', /p$/)
    unlinkSegments(on, FOLDER, [1, 2])
  },
  'a removal after one that was not synced': on => {
    for (const segment of [1, 2]) on.unlink(`${FOLDER}/${segmentFile(segment)}`)
    unlinkSegments(on, FOLDER, [1, 2])
  },
  'the sweep': on => sweep(sweepOf(on)),
  'the sweep of a deleted pool': on => sweep({ ...sweepOf(on), poolsByFolder: new Map() }),
  'files of a flush that was not committed': on =>
    clearUncommitted(on, comparePoolFolders([{ pool: 1, folder: FOLDER, names: on.readdir(FOLDER) }], [])),
}

const pieces = () => ({
  deletes: new Uint8Array(2),
  parquet: (into: Uint8Array, position: number) => (position < 2 ? into.fill(1).byteLength : 0),
})

function sweepOf(on: MemoryDisk): SweepOptions {
  const state = {
    pool: 1,
    flushedSequence: 9,
    nextSegment: 3,
    receivedToUs: 0,
    segments: [{ ...metaOf(2), deletedRows: 0, deletes: 1 }],
  }
  const where = {
    disk: on,
    segmentFolder: '/data/segment',
    folders: ['p'],
    poolsByFolder: new Map([['p', 1]]),
  }
  return { ...where, opened: [state], now: [state], indexWasWhole: true, mayGoOn: () => undefined }
}

test.each(Object.keys(works))(
  'W-6: whenever the power goes, no Parquet file misses its delete file: %s',
  async what => {
    const seed = newSeed()
    const random = randomFrom(seed)
    let states = 0
    for (let changes = 1; ; changes++) {
      const disk = new MemoryDisk()
      for (const segment of [1, 2])
        for (const name of [segmentFile(segment), deleteFile(segment)])
          disk.put(`${FOLDER}/${name}`, new Uint8Array(1))
      disk.stopAfter(changes)
      const isCut = await Promise.resolve()
        .then(() => works[what]!(disk))
        .then(
          () => false,
          (error: Error) => error instanceof PowerCut,
        )
      for (let cut = 0; cut < 20; cut++) {
        const left = names(disk.cut(random))
        const torn = left.filter(
          name => name.endsWith('.parquet') && !left.includes(name.replace('parquet', 'deletes')),
        )
        expect(torn, `seed ${seed}, after ${changes} changes: ${left.join()}`).toEqual([])
        states += 1
      }
      if (!isCut) break
    }
    expect(states).toBeGreaterThan(60)
  },
)

test('memory of parquet-wasm does not grow from flush to flush', () => {
  const { fake } = recorder()
  const writer = new FlushWriter(tryAssemblerNative() ?? assemblerJs, encoderJs, fake)
  const schema = schemaOfAll(true)
  const entries = randomEntries(schema, 1, 60)
  const task: FlushTask = {
    poolId: 'P',
    schema,
    segment: 1,
    folder: '/d/s/p',
    entries,
    replaces: [],
    sequenceFrom: 1,
    sequenceTo: 1e6,
  }
  for (let i = 0; i < 5; i++) writer.write(task)
  const bytes = wasmMemory().buffer.byteLength
  for (let i = 0; i < 60; i++) expect(writer.write(task).meta!.rows).toBeGreaterThan(0)
  expect(wasmMemory().buffer.byteLength).toBe(bytes)
})
