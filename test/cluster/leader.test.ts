/**
 * One node of a cluster leads. What a former leader sends late changes nothing, wherever its
 * process or its connection stood still.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { OPERATION } from '../../src/cluster/keeper/jute.ts'
import { Leader } from '../../src/cluster/keeper/leader.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { framesProxy } from './frames-proxy.ts'
import { leadingNodeOf, leads } from './keeper-node.ts'
import { standStill, stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SEED = newSeed()
const SESSION_MS = 2_000

async function countingNodeOf(port: number, sessionMs = SESSION_MS) {
  const node = await leadingNodeOf(port, { sessionMs })
  const { catalog, leader } = node
  const count = () =>
    catalog.change(
      leader.fenced(memory => ({
        puts: [['meta', { ...memory.meta(), nextPoolNumber: memory.meta().nextPoolNumber + 1 }]],
        removes: [],
        result: null,
      })),
    )
  return { ...node, count }
}

type Node = Awaited<ReturnType<typeof countingNodeOf>>

describe.skipIf(noZookeeper !== undefined)(`the leader of a cluster ${noZookeeper ?? ''}`, () => {
  test('one of several nodes leads, and another one after it stopped', async () => {
    const { port } = await startZookeeper()
    const one = await countingNodeOf(port)
    await leads(one)
    const others = [await countingNodeOf(port), await countingNodeOf(port)]
    for (let node: Node | undefined = one; node !== undefined; ) {
      await node.count()
      for (const other of others.filter(each => each !== node)) {
        expect(other.terms).toEqual([])
        await expect(other.count()).rejects.toThrow(expect.objectContaining({ code: 'not_leader' }))
      }
      await node.leader.stop()
      expect(node.terms.map(({ aborted }) => aborted)).toEqual([true])
      await expect(node.count()).rejects.toThrow('Another node')
      await node.stop()
      others.splice(others.indexOf(node) >>> 0, 1)
      if (others.length > 0)
        await expect.poll(() => others.filter(({ leader }) => leader.isLeader()).length).toBe(1)
      node = others.find(({ leader }) => leader.isLeader())
    }
  })

  test('a leader that is cut off ends before another one begins, and leads anew when it may', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const one = await countingNodeOf(path.port)
    await leads(one)
    const two = await countingNodeOf(port)
    path.stop()
    await expect.poll(() => two.terms.length, { interval: 5 }).toBe(1)
    expect([one.leader.isLeader(), one.terms[0]!.aborted]).toEqual([false, true])
    await expect(one.count()).rejects.toThrow(expect.objectContaining({ code: 'not_leader' }))
    await two.leader.stop()
    await two.stop()
    path.go()
    await expect.poll(() => one.terms.length).toBe(2)
    expect(one.terms[1]!.aborted).toBe(false)
    await one.count()
  })

  test('a change of a former leader that comes late is not made', async () => {
    const { port } = await startZookeeper()
    let late: (() => Promise<Buffer>) | undefined
    let isArmed = false
    const path = await framesProxy(port, {
      onRequest({ operation, frame, ask }) {
        if (late !== undefined) return undefined
        // Its session goes on: of one that has ended Keeper itself would refuse the change.
        if (!isArmed || operation !== OPERATION.multi || !frame.includes('/changes/')) return frame
        late = () => ask(frame)
        return undefined
      },
    })
    const [one, two] = [await countingNodeOf(path.port, 30_000), await countingNodeOf(port)]
    await leads(one)
    const before = two.catalog.read.meta().nextPoolNumber
    isArmed = true
    const change = one.count().catch((error: Error) => error)
    await expect.poll(() => late).toBeDefined()
    // As Keeper does when it takes the leader for dead.
    await two.store.keeper.write({ kind: 'delete', path: '/weir/leader' })
    await leads(two)
    expect((await late!()).readInt32BE(29)).not.toBe(0)
    expect(two.catalog.read.meta().nextPoolNumber).toBe(before)
    await two.leader.stop()
    await one.leader.stop()
    await one.store.stop()
    await change
    expect(two.catalog.read.meta().nextPoolNumber).toBe(before)
  })

  test(`a leader whose process stands still does nothing when it goes on, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const random = randomFrom(SEED)
    const two = await countingNodeOf(port)
    await leads(two)
    await two.leader.stop()
    const giveUp = () => two.store.keeper.write({ kind: 'delete', path: '/weir/leader' })
    for (let round = 0; round < 4; round += 1) {
      await giveUp()
      const args = [String(port), String(SESSION_MS), temporaryFolder('weir-leader-')]
      const child = fork(new URL('leader_child.js', import.meta.url), args)
      onTestFinished(() => void child.kill('SIGKILL'))
      const said: Record<string, unknown>[] = []
      child.on('message', message => said.push(message as Record<string, unknown>))
      await expect.poll(() => said.length, { interval: 5 }).toBeGreaterThan(20)
      await new Promise(resolve => setTimeout(resolve, random() * 20))
      await standStill(child)
      const { store, catalog } = two
      const next = new Leader({ store, path: '/weir/leader', onLead: () => {} })
      await expect.poll(() => next.isLeader(), { interval: 5 }).toBe(true)
      const acted = said.length
      const made = catalog.read.meta().nextPoolNumber
      child.kill('SIGCONT')
      await expect.poll(() => said.at(-1)).toEqual({ leads: false })
      // Nothing but one step whose question was answered before.
      expect(said.slice(acted).filter(({ acts }) => acts !== undefined).length).toBeLessThanOrEqual(1)
      await store.fence()
      expect(catalog.read.meta().nextPoolNumber).toBe(made)
      await next.stop()
      child.kill('SIGKILL')
      await once(child, 'exit')
      await expect.poll(() => store.nodes.states()).toHaveLength(1)
    }
  })
})
