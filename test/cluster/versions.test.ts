/** Versions of rows over several nodes: the later request has the higher ones. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { KeeperClient } from '../../src/cluster/keeper/keeper-client.ts'
import { ROWS_MAX, Versions } from '../../src/cluster/keeper/versions.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SEED = newSeed()

async function versionsOf(port: number, zxidOffset = 0) {
  let resolve = () => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  const keeper = new KeeperClient({
    servers: [{ host: '127.0.0.1', port }],
    sessionMs: 4_000,
    onConnected: () => resolve(),
    onWatched: () => {},
  })
  onTestFinished(() => keeper.stop())
  await promise
  const versions = new Versions(keeper, '/versions', zxidOffset)
  await versions.open()
  return { keeper, versions }
}

describe.skipIf(noZookeeper !== undefined)(`versions ${noZookeeper ?? ''}`, () => {
  test('rise from answer to request, whichever nodes they are on, 10,000 times', async () => {
    const { port } = await startZookeeper()
    const nodes = [await versionsOf(port), await versionsOf(port)]
    let last = 0n
    for (let turn = 0; turn < 10_000; turn += 1) {
      const first = await nodes[turn % 2]!.versions.take(1 + (turn % 3))
      expect(first > last).toBe(true)
      last = first + BigInt(turn % 3)
    }
  })

  test(`of requests at the same time never meet, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const nodes = [await versionsOf(port), await versionsOf(port), await versionsOf(port)]
    const random = randomFrom(SEED)
    const taken = await Promise.all(
      Array.from({ length: 900 }, async (_, index) => {
        const rows = random() < 0.05 ? ROWS_MAX : 1 + Math.floor(random() * 500)
        const first = await nodes[index % 3]!.versions.take(rows)
        return { first, end: first + BigInt(rows), node: index % 3 }
      }),
    )
    for (const node of [0, 1, 2]) {
      const own = taken.filter(each => each.node === node)
      // Of one node, in the order in which they asked.
      for (const [index, { first }] of own.entries()) expect(first >= (own[index - 1]?.end ?? 0n)).toBe(true)
    }
    const all = taken.toSorted((a, b) => (a.first < b.first ? -1 : 1))
    for (const [index, { first }] of all.entries()) expect(first >= (all[index - 1]?.end ?? 0n)).toBe(true)
  })

  test('of a Keeper that was set up anew are above the earlier ones by their offset', async () => {
    const { port } = await startZookeeper()
    const before = await (await versionsOf(port)).versions.take(1)
    const offset = Number(before >> 16n) + 1
    expect((await (await versionsOf(port, offset)).versions.take(1)) > before).toBe(true)
    const last = await versionsOf(port, 2 ** 48 - 1)
    await expect(last.versions.take(1)).rejects.toThrow(expect.objectContaining({ code: 'keeper_exhausted' }))
  })

  test('are refused while Keeper is away, and rise afterwards', async () => {
    const zookeeper = await startZookeeper({ tickMs: 2_000 })
    const { versions, keeper } = await versionsOf(zookeeper.port)
    const before = await versions.take(1)
    await zookeeper.kill()
    const refused = await Promise.allSettled([versions.take(1), versions.take(2)])
    for (const each of refused)
      expect(each).toMatchObject({ status: 'rejected', reason: { name: 'Unavailable' } })
    await zookeeper.restart()
    await expect.poll(() => keeper.isAlive()).toBe(true)
    expect((await versions.take(1)) > before).toBe(true)
  })
})
