/** Which segments count as whole, and that each file is read once, whoever waits for it. */
import { expect, test } from 'vitest'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import type { CheckFile } from '../../src/store/check/check-file.ts'
import { Scrub } from '../../src/store/check/scrub.ts'
import { SegmentChecks } from '../../src/store/check/segment-checks.ts'
import { SegmentDamaged, Unavailable } from '../../src/util/errors.ts'

const LONG = { fairKey: 'a', msMax: 60_000 }

function segmentOf(segment: number, rows = 1) {
  const meta = { segment, rows, bytes: 100, checksum: rows === 0 ? null : segment, deletes: 0 } as SegmentMeta
  return { pool: 1, file: `/pool/${segment}.parquet`, deletes: `/pool/${segment}.deletes`, meta }
}

/** A reader whose checks end when the test says so. */
class Reader {
  readonly begun: string[] = []
  readonly #ends: ((error?: Error) => void)[] = []

  readonly check: CheckFile = ({ file }) => {
    this.begun.push(file)
    return new Promise((resolve, reject) =>
      this.#ends.push(error => (error === undefined ? resolve() : reject(error))),
    )
  }

  /** Ends the running check, and lets the next one begin. */
  async end(error?: Error): Promise<void> {
    this.#ends.shift()!(error)
    await new Promise(setImmediate)
  }
}

function checksOf() {
  const reader = new Reader()
  const damaged: string[] = []
  const checks = new SegmentChecks(reader.check, ({ file }) => damaged.push(file))
  return { reader, checks, damaged }
}

const begun = () => new Promise(setImmediate)

test('a file is read once, one at a time, for all that wait; then nothing waits', async () => {
  const { reader, checks } = checksOf()
  const [a, b] = [segmentOf(1), segmentOf(2)]
  const all = [checks.ensureWhole([a, b], LONG), checks.ensureWhole([b], LONG), checks.ensureWhole([a], LONG)]
  await begun()
  expect(reader.begun).toEqual([a.file])
  await reader.end()
  expect(reader.begun).toEqual([a.file, b.file])
  await reader.end()
  await Promise.all(all)
  expect(checks.ensureWhole([a, b], LONG)).toBeUndefined()
})

test('applications take turns, also where they need the same files', async () => {
  const { reader, checks } = checksOf()
  const files = [1, 2, 3, 4, 5].map(segment => segmentOf(segment))
  const [first, second, third, fourth, own] = files
  const many = checks.ensureWhole([first!, second!, third!, fourth!], LONG)
  const few = checks.ensureWhole([fourth!, own!], { ...LONG, fairKey: 'b' })
  for (const _ of files) {
    await begun()
    await reader.end()
  }
  await Promise.all([many, few])
  expect(reader.begun).toEqual([first, second, fourth, third, own].map(each => each!.file))
})

test('segments of this process, and those without rows, are not read', () => {
  const { checks } = checksOf()
  const written = segmentOf(1)
  checks.setWhole(written.meta)
  expect(checks.ensureWhole([written, segmentOf(2, 0)], LONG)).toBeUndefined()
})

test('a damaged segment is told once, and rejects later queries without being read', async () => {
  const { reader, checks, damaged } = checksOf()
  const one = segmentOf(1)
  const waiting = checks.ensureWhole([one], LONG)
  await begun()
  const failed = expect(waiting).rejects.toThrow(one.file)
  await reader.end(new SegmentDamaged(one.file, 'x'))
  await failed
  expect(() => checks.ensureWhole([one], LONG)).toThrow(one.file)
  checks.setDamaged(one.meta, new SegmentDamaged(one.file, 'again'))
  expect([reader.begun, damaged]).toEqual([[one.file], [one.file]])
})

test('a refusal of the system is no damage: the next query reads the file again', async () => {
  const { reader, checks, damaged } = checksOf()
  const one = segmentOf(1)
  const refused = expect(checks.ensureWhole([one], LONG)).rejects.toMatchObject({ code: 'check_io' })
  await begun()
  await reader.end(new Unavailable('check_io', 'EMFILE'))
  await refused
  const again = checks.ensureWhole([one], LONG)
  await begun()
  await reader.end()
  await again
  expect([reader.begun.length, damaged]).toEqual([2, []])
})

test('who has gone waits no longer; a check that nobody waits for does not begin, or tells nothing', async () => {
  const { reader, checks, damaged } = checksOf()
  const [a, b] = [segmentOf(1), segmentOf(2)]
  const leaving = new AbortController()
  const gone = expect(checks.ensureWhole([a, b], { ...LONG, gone: leaving.signal })).rejects.toMatchObject({
    code: 'client_gone',
  })
  await begun()
  leaving.abort()
  await gone
  await reader.end(new SegmentDamaged(a.file, 'its pool was dropped meanwhile'))
  expect([reader.begun, damaged]).toEqual([[a.file], []])
  const late = checks.ensureWhole([b], { ...LONG, msMax: 1 })
  await expect(late).rejects.toMatchObject({ code: 'segments_unchecked' })
})

test('a scrub reads all files, tells of damage, and leaves alone what is not live any more', async () => {
  const { checks, damaged } = checksOf()
  const segments = [1, 2, 3, 4].map(segment => segmentOf(segment))
  const read: string[] = []
  let onRead = () => {}
  const allRead = new Promise<void>(resolve => {
    onRead = resolve
  })
  const scrub = new Scrub(
    {
      checkFile: async ({ file, bytesPerSecond }) => {
        read.push(file)
        expect(bytesPerSecond).toBe(1000)
        if (read.length === 3) onRead()
        if (file === segments[1]!.file) throw new SegmentDamaged(file, 'x')
        if (file === segments[2]!.file) throw new Unavailable('check_io', 'EMFILE')
      },
      checks,
      manifest: { files: () => segments, isLive: segment => segment !== segments[3] },
      onDamaged: () => undefined,
    },
    { beginMs: 1, passMs: 1e9, bytesPerSecondMin: 1000 },
  )
  scrub.start()
  await allRead
  await begun()
  expect(read.toSorted()).toEqual(segments.slice(0, 3).map(({ file }) => file))
  expect(damaged).toEqual([segments[1]!.file])
  expect(segments.map(({ meta }) => checks.isKnown(meta))).toEqual([true, true, false, false])
  expect(scrub.stats()).toEqual({ bytes: 400, passes: 1, progress: 1 })
  scrub.stop()
})
