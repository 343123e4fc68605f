/**
 * W-6: whenever the power goes during the removal of files that no transaction names, a rebuild
 * finds the same rows.
 *
 * The segments are real files. A disk in memory beside them knows what a power cut would leave at
 * each change.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sweep } from '../../src/index/sweep-orphans.ts'
import { deleteFile, type Paths, pathsOf, segmentFile } from '../../src/util/paths.ts'
import { type CutState, materialise, PowerDisk } from '../util/power-disk.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { type Flush, openHere, SCHEMA, writeFlush } from './segments.ts'

/** The number of states that are tried at each change. */
const CUTS = 12

const row = (id: string, sequence: number) => ({ ts: 1, id, sequence })

/** A folder with an empty index, which is open. */
async function makeFolder() {
  const paths = pathsOf(temporaryFolder())
  const { index } = await openHere(paths)
  const folder = join(paths.segment, 'POOL1')
  const flush = (one: Omit<Flush, 'schema' | 'folder'>) => writeFlush({ schema: SCHEMA, folder, ...one })
  return { paths, index, flush }
}

/** A log that has every request. */
const held = () => new Map([[1, new Set(Array.from({ length: 100 }, (_, i) => i))]])

/**
 * The index that a rebuild makes of a state: its keys, and the sequence up to which the log is not
 * replayed.
 */
async function rebuilt(state: CutState): Promise<{ keys: number; flushed: number }> {
  const folder = temporaryFolder()
  materialise(state, folder)
  const { index, pools } = await openHere(pathsOf(folder), held)
  const keys = index.countKeys(1)
  index.close()
  rmSync(folder, { recursive: true })
  return { keys, flushed: pools[0]?.flushedSequence ?? 0 }
}

/**
 * States that power cuts leave while `work` runs on the disk, each once. The index is not among
 * their files.
 */
async function statesOf(paths: Paths, seed: number, work: (disk: PowerDisk) => Promise<unknown>) {
  const random = randomFrom(seed)
  const disk = new PowerDisk(paths.root)
  const states = new Map<string, CutState>()
  const capture = () => {
    for (let i = 0; i < CUTS; i++) {
      const state = disk.cut(random, [])
      const files = new Map([...state.files].filter(([path]) => path.startsWith('/segment/')))
      states.set([...files.keys()].sort().join(' '), { folders: state.folders, files })
    }
  }
  disk.onChange = capture
  await work(disk)
  capture()
  return states
}

/** The segments that the index names in most tests of the sweep. */
const LAST = { segment: 5, rows: [row('z', 40)], deletes: [row('m', 41)], from: 40, to: 49 }

/** States of the sweep, when the index names segment `named` alone. */
async function sweptStates(
  { paths, index, flush }: Awaited<ReturnType<typeof makeFolder>>,
  seed: number,
  named: Omit<Flush, 'schema' | 'folder'> = LAST,
) {
  index.commit([flush(named)])
  const { pools } = index.state()
  const states = await statesOf(paths, seed, disk =>
    sweep({
      disk,
      segmentFolder: paths.segment,
      opened: pools,
      now: pools,
      folders: ['POOL1'],
      poolsByFolder: new Map([['POOL1', 1]]),
      indexWasWhole: true,
      mayGoOn: () => undefined,
    }),
  )
  index.close()
  return states
}

async function expectOnlyLive(states: ReadonlyMap<string, CutState>, seed: number): Promise<void> {
  const last = [`/segment/POOL1/${deleteFile(5)}`, `/segment/POOL1/${segmentFile(5)}`].join(' ')
  expect([...states.keys()]).toContain(last)
  expect(states.size).toBeGreaterThan(3)
  for (const [files, state] of states)
    expect(await rebuilt(state), `seed ${seed}, left: ${files}`).toEqual({ keys: 1, flushed: 49 })
}

/**
 * Requests 10 to 39 may not be flushed: missing ones must be above the flushed sequence, because
 * the log has them.
 */
async function expectNoGap(states: ReadonlyMap<string, CutState>, seed: number): Promise<void> {
  expect(states.size).toBeGreaterThan(3)
  for (const [files, state] of states) {
    const { keys, flushed } = await rebuilt(state)
    const told = { 9: 1, 19: 2, 29: 3, 39: 3 }[flushed]
    expect(keys, `seed ${seed}, flushed up to ${flushed}, left: ${files}`).toBe(told)
  }
}

test('the sweep removes an uncovered segment after the segments within its sequences', async () => {
  const seed = newSeed()
  const made = await makeFolder()
  // Segment 4 was merged from 1 to 3 after `k` was deleted. The delete of `k` was removed since.
  // Segment 5 deletes `m`.
  made.flush({ segment: 1, rows: [row('k', 1)], from: 1, to: 9 })
  made.flush({ segment: 2, rows: [row('m', 11)], from: 10, to: 19 })
  made.flush({ segment: 3, rows: [row('m', 21)], from: 20, to: 29 })
  made.flush({ segment: 4, rows: [row('m', 21)], from: 1, to: 29 })
  await expectOnlyLive(await sweptStates(made, seed), seed)
})

test('the sweep removes deletes after all older segments, whatever their numbers', async () => {
  const seed = newSeed()
  const made = await makeFolder()
  // Segment 4 is a merge of segments older than 2 and 3. A second merge left no rows of all three.
  made.flush({ segment: 4, rows: [row('k', 1), row('l', 2)], from: 1, to: 9 })
  made.flush({ segment: 2, rows: [row('m', 11)], deletes: [row('k', 12)], from: 10, to: 19 })
  made.flush({ segment: 3, rows: [], deletes: [row('l', 21)], from: 20, to: 29 })
  await expectOnlyLive(await sweptStates(made, seed), seed)
})

test('a start removes the newest of the uncommitted flushes first', async () => {
  const seed = newSeed()
  const { paths, index, flush } = await makeFolder()
  index.commit([flush({ segment: 1, rows: [row('a', 1)], from: 1, to: 9 })])
  index.close()
  flush({ segment: 2, rows: [row('b', 11)], from: 10, to: 19 })
  flush({ segment: 3, rows: [row('c', 21)], deletes: [row('x', 22)], from: 20, to: 29 })
  flush({ segment: 4, rows: [], deletes: [row('y', 31)], from: 30, to: 39 })
  const states = await statesOf(paths, seed, async disk => {
    const opened = await openHere(paths, held, disk)
    opened.index.close()
    expect(opened.cleared.length).toBe(4)
  })
  expect([...states.keys()]).toContain(`/segment/POOL1/${segmentFile(1)}`)
  await expectNoGap(states, seed)
})

test('the sweep removes the newest first of the flushes whose commit failed below a committed merge', async () => {
  const seed = newSeed()
  const made = await makeFolder()
  // The index refused the commits of 2, 3 and 4, and accepted 5, a merge of earlier flushes.
  made.flush({ segment: 2, rows: [row('b', 11)], from: 10, to: 19 })
  made.flush({ segment: 3, rows: [row('c', 21)], from: 20, to: 29 })
  made.flush({ segment: 4, rows: [], deletes: [row('y', 31)], from: 30, to: 39 })
  const states = await sweptStates(made, seed, { segment: 5, rows: [row('a', 1)], from: 1, to: 9 })
  expect([...states.keys()]).toContain(`/segment/POOL1/${segmentFile(5)}`)
  await expectNoGap(states, seed)
})
