/**
 * W-6, W-13: files that the index does not name, beside a log that has all of their requests, some,
 * none, or an unknown part. So it is after an older index was put back, and in a rebuild after an
 * interrupted flush.
 */
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loggedSequences } from '../../src/log/read-log.ts'
import { disk } from '../../src/util/disk.ts'
import { deleteFile, pathsOf, segmentFile } from '../../src/util/paths.ts'
import { openOn, spanOf } from '../log/log.ts'
import { temporaryFolder } from '../util/server.ts'
import { type Change, openHere, SCHEMA, writeFlush } from './segments.ts'

const FLUSHED = new Map([
  [1, 0],
  [2, 0],
])

/** Requests 1 to 9 in the log, 8 of pool 2; the index names segment 1, requests 1 to 3. */
async function home() {
  const paths = pathsOf(temporaryFolder())
  const pool = join(paths.segment, 'POOL1')
  const open = () => openHere(paths, pools => loggedSequences(disk, paths.log, pools))
  const flush = (segment: number, from: number, to: number) =>
    writeFlush({ schema: SCHEMA, folder: pool, segment, rows: rowsOf(from, to), from, to })
  /** The log after a start that found requests up to `flushed` flushed. */
  const reopenLog = async (flushed: number) => {
    const options = { folder: paths.log, flushed: new Map([...FLUSHED, [1, flushed]]) }
    await (await openOn(disk, options)).commit.stop()
  }
  const { commit } = await openOn(disk, { folder: paths.log, flushed: FLUSHED })
  for (let sequence = 1; sequence <= 9; sequence++)
    await commit.append([spanOf({ text: `request ${sequence}`, pool: sequence === 8 ? 2 : 1 })], 1).durable
  await commit.stop()
  const { index } = await open()
  index.commit([flush(1, 1, 3)])
  index.close()
  return { paths, pool, open, flush, reopenLog }
}

const rowsOf = (from: number, to: number): Change[] =>
  Array.from({ length: to - from + 1 }, (_, i) => ({ ts: 1, id: `id ${from + i}`, sequence: from + i }))

/** Changes a byte of a request in the log. */
function damageLog(log: string, request: string): void {
  for (const name of readdirSync(log)) {
    const bytes = readFileSync(join(log, name))
    const at = bytes.indexOf(request)
    if (at < 0) continue
    bytes[at]! ^= 0xff
    writeFileSync(join(log, name), bytes)
    return
  }
  throw new Error(`no log file holds ${request}`)
}

describe('an index that is older by one flush', () => {
  /** Segment 2, requests 4 to 6, is committed; then the index from before it is put back. */
  async function older() {
    const made = await home()
    const data = join(made.paths.index, 'data.mdb')
    copyFileSync(data, join(made.paths.root, 'old.mdb'))
    const { index } = await made.open()
    index.commit([made.flush(2, 4, 6)])
    index.close()
    copyFileSync(join(made.paths.root, 'old.mdb'), data)
    return { ...made, second: join(made.pool, segmentFile(2)) }
  }

  test('clears its file where the log has all of its requests: they are flushed again', async () => {
    const { open, second } = await older()
    const { index, ...opened } = await open()
    expect([opened.rebuiltBecause, opened.cleared]).toEqual([undefined, [second]])
    expect(opened.pools).toMatchObject([{ flushedSequence: 3, segments: [{ segment: 1 }] }])
    expect(existsSync(second)).toBe(false)
    index.close()
  })

  test.each([
    ['some of them', 5, 'request 4'],
    ['later ones alone', 6, 'request 4'],
  ])('is rebuilt where the log has %s', async (_what, flushed, lost) => {
    const { open, reopenLog } = await older()
    await reopenLog(flushed)
    const { index, ...opened } = await open()
    expect(opened.rebuiltBecause).toContain(`holds ${lost}, the log does not`)
    expect(opened.pools).toMatchObject([{ flushedSequence: 6, segments: [{ segment: 1 }, { segment: 2 }] }])
    index.close()
  })

  test('is rebuilt where there is no log', async () => {
    const { open, paths } = await older()
    rmSync(paths.log, { recursive: true })
    const { index, ...opened } = await open()
    expect(opened.rebuiltBecause).toContain('holds request 4, the log does not')
    expect(opened.pools).toMatchObject([{ flushedSequence: 6 }])
    index.close()
  })

  test('stays, and so does the file, where the log is damaged: its recovery reports that', async () => {
    const { open, paths, second } = await older()
    damageLog(paths.log, 'request 5')
    const { index, ...opened } = await open()
    expect([opened.rebuiltBecause, opened.cleared]).toEqual([undefined, []])
    expect(opened.pools).toMatchObject([{ flushedSequence: 3 }])
    expect(existsSync(second)).toBe(true)
    index.close()
  })
})

describe('a rebuild that finds a delete file alone', () => {
  /**
   * Segment 2, requests 4 to 6 with a delete in the last one, has no Parquet file.
   */
  async function cutShort() {
    const made = await home()
    const deletes = [{ ts: 1, id: 'id 1', sequence: 6 }]
    writeFlush({ schema: SCHEMA, folder: made.pool, segment: 2, rows: rowsOf(4, 5), deletes, from: 4, to: 6 })
    rmSync(join(made.pool, segmentFile(2)))
    rmSync(made.paths.index, { recursive: true })
    return { ...made, alone: join(made.pool, deleteFile(2)) }
  }

  test('says nothing where the log has its requests', async () => {
    const { open } = await cutShort()
    const { index, ...opened } = await open()
    expect([opened.rebuiltBecause, opened.possibleLosses]).toEqual(['it is new', []])
    expect(opened.pools).toMatchObject([{ flushedSequence: 3, nextSegment: 3, segments: [{ segment: 1 }] }])
    index.close()
  })

  type CutShort = Awaited<ReturnType<typeof cutShort>>
  test.each([
    ['has some of them', (made: CutShort) => made.reopenLog(4)],
    ['is not there', async ({ paths }: CutShort) => rmSync(paths.log, { recursive: true })],
    ['is damaged', async ({ paths }: CutShort) => damageLog(paths.log, 'request 5')],
  ])('says what may be lost where the log %s', async (_what, change) => {
    const made = await cutShort()
    await change(made)
    const { index, ...opened } = await made.open()
    expect(opened.possibleLosses).toEqual([
      expect.stringMatching(
        /0000000002.deletes has no Parquet file beside it.* 4 to 6.* 0000000002.parquet is missing with up to 2 rows/,
      ),
    ])
    expect(existsSync(made.alone)).toBe(true)
    index.close()
  })
})
