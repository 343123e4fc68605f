/**
 * A C++ compiler that is missing, broken, or fails: Weir runs its js kernel, says why, and tries
 * again when that may help.
 */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Clone } from './clone.ts'

let clone: Clone
beforeEach(() => {
  clone = new Clone()
})
afterEach(() => clone.close())

const FAILS =
  '[ $kind = compile ] && { echo tried >> "$CALLS"; echo "fatal error: No space left on device" >&2; exit 1; }'

/** How many native builds the next start tried, and what it said. */
async function start() {
  const { code, output } = await clone.start()
  expect([code, output]).toEqual([0, expect.stringContaining('weir runs')])
  const calls = clone.takeCalls()
  return { isTried: calls.includes('tried') || calls.includes('link'), output }
}

test('a build that failed is tried again at the next start', async () => {
  clone.compiler('1', FAILS)
  const first = await start()
  expect([first.isTried, clone.has('dist/native/weir.node')]).toEqual([true, false])
  expect(first.output).toContain('the native module did not build: Weir will run its js kernel (slower)')
  clone.compiler('1') // the disk has room again
  expect((await start()).isTried).toBe(true)
  expect(clone.has('dist/native/weir.node')).toBe(true)
  expect(await start()).toEqual({ isTried: false, output: 'weir runs\n' })
})

test('a compiler that always fails is not paid for at every start; the reason is kept', async () => {
  clone.compiler('1', FAILS)
  for (const isTried of [true, true, true, false, false]) expect((await start()).isTried).toBe(isTried)
  const { output } = await start()
  expect(output).toContain('did not build with g++: fatal error: No space left on device')
  expect(output).toContain('remove dist/setup/native-failed.json to try again')
})

test('… but for another version of it, and for other sources', async () => {
  clone.compiler('1', FAILS)
  for (const _ of [1, 2, 3, 4]) await start()
  clone.append('src/parse/native/a.cpp', 'changed')
  expect((await start()).isTried).toBe(true)
  for (const _ of [1, 2, 3]) await start()
  expect((await start()).isTried).toBe(false)
  clone.compiler('2')
  expect((await start()).isTried).toBe(true)
  expect(clone.has('dist/native/weir.node')).toBe(true)
})

test('a compiler without its library or linker is told so, and counts when the rest is installed', async () => {
  const broken = '[ $kind = probe ] && { echo "fatal error: atomic: No such file or directory" >&2; exit 1; }'
  clone.compiler('1', broken)
  for (const _ of [1, 2, 3, 4]) {
    const { isTried, output } = await start()
    expect(isTried).toBe(false)
    expect(output).toContain('the C++ compiler g++ builds no module (fatal error: atomic: No such file')
  }
  clone.compiler('1')
  expect((await start()).isTried).toBe(true)
})
