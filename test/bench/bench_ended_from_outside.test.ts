/** However a bench ends, its servers and generators end with it, and its folders are removed. */
import { describe, expect, test } from 'vitest'
import { alive, barePath, eventually, familyWith, startBench } from './run.ts'

const LOADED = [
  'path',
  '--only',
  'batches',
  '--no-peers',
  '--seconds',
  '600',
  '--pause',
  '0',
  '--connections',
  '2',
]

describe.concurrent('a bench under load', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('leaves nothing after %s', async (signal, code) => {
    const bench = startBench(LOADED, barePath())
    const family = await familyWith(bench, /generator\.js generator/)
    expect(family.some(one => /main\.js start/.test(one.command))).toBe(true)
    bench.child.kill(signal)
    const end = await bench.ended
    expect({ code: end.code, left: end.left }, end.output).toEqual({ code, left: [] })
    expect(end.output).toContain(`bench: ${signal}: ending what was started`)
    expect(alive(family)).toEqual([])
  })

  test('leaves nothing after its server was killed, and fails', async () => {
    const short = LOADED.map(one => (one === '600' ? '2' : one))
    const bench = startBench(short, barePath())
    const family = await familyWith(bench, /generator\.js generator/)
    process.kill(family.find(one => /main\.js start/.test(one.command))!.pid, 'SIGKILL')
    const end = await bench.ended
    expect({ code: end.code, left: end.left }, end.output).toEqual({ code: 1, left: [] })
    expect(alive(family)).toEqual([])
  })

  test('takes its generator along when it is killed itself', async () => {
    const bench = startBench(LOADED, barePath())
    const family = await familyWith(bench, /generator\.js generator/)
    bench.child.kill('SIGKILL')
    // No process of the bench is left to end the server, so the test does it.
    process.kill(family.find(one => /main\.js start/.test(one.command))!.pid, 'SIGKILL')
    await eventually(() => (alive(family).length === 0 ? true : undefined))
  })
})
