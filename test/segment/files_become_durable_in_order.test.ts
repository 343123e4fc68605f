/** W-5: the calls that make a segment durable, in their order; and the wasm memory stays flat. */
import { wasmMemory } from 'parquet-wasm'
import { describe, expect, it } from 'vitest'
import { assemblerJs, tryAssemblerNative } from '../../src/segment/assembler.ts'
import { encoderJs } from '../../src/segment/encoder-js.ts'
import type { SealJob } from '../../src/segment/protocol.ts'
import { publishSegment } from '../../src/segment/publish.ts'
import { Writer } from '../../src/segment/write.ts'
import { type Disk, disk } from '../../src/util/disk.ts'
import { planOfAll, randomEntries } from './rows.ts'

/** Records calls by file name; `failAt` refuses one. Nothing reaches the disk. */
function recorder(failAt?: string) {
  const calls: string[] = []
  const names = new Map<number, string>()
  const files = new Set<string>()
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
    exists: path => files.has(path),
    mkdir: path => say(`mkdir ${path}`),
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
  it('W-5: is written, synced, renamed, and its folder synced; the delete file first', () => {
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
      'rename /d/s/p/0000000001.parquet.tmp',
      'sync /d/s/p',
    ])
  })

  it('leaves no file behind, whichever call is refused', () => {
    const { fake, calls } = recorder()
    publishSegment(fake, '/d/s/p', 1, both)
    expect(fake).toBeDefined()
    for (const failAt of calls) {
      const { fake: refusing, files } = recorder(failAt)
      expect(() => publishSegment(refusing, '/d/s/p', 1, both)).toThrow('refused')
      expect([...files]).toEqual([])
    }
  })
})

it('memory of parquet-wasm does not grow from seal to seal', () => {
  const { fake } = recorder()
  const writer = new Writer(tryAssemblerNative() ?? assemblerJs, encoderJs, fake)
  const plan = planOfAll(true)
  const entries = randomEntries(plan, 1, 60)
  const job: SealJob = {
    poolId: 'P',
    plan,
    segment: 1,
    folder: '/d/s/p',
    entries,
    replaces: [],
    sequenceFrom: 1,
    sequenceTo: 1e6,
    giveBack: true,
  }
  for (let i = 0; i < 5; i++) writer.write(job)
  const bytes = wasmMemory().buffer.byteLength
  for (let i = 0; i < 60; i++) expect(writer.write(job).meta!.rows).toBeGreaterThan(0)
  expect(wasmMemory().buffer.byteLength).toBe(bytes)
})
