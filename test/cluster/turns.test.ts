/**
 * Two nodes update the same records in turn, each after the other's answer: the last answer wins
 * each time, whatever the clocks of the nodes say.
 *
 *   WEIR_TEST_TURNS   default 100
 */
import { describe, expect, test } from 'vitest'
import { send } from '../util/server.ts'
import { atNode, clockAhead, noCluster, POOL, startCluster } from './nodes.ts'

const TURNS = Number(process.env['WEIR_TEST_TURNS'] ?? 100)
const KEYS = 7
const AT = '2026-01-01T00:00:00Z'

describe.skipIf(noCluster !== undefined)(`turns ${noCluster ?? ''}`, () => {
  test('the last answer wins each time', { timeout: 60_000 + TURNS * 500 }, async () => {
    const cluster = await startCluster()
    const nodes = [await cluster.node(), await cluster.node([], clockAhead(-300))] as const
    const { poolId, url } = await nodes[0].createPool(POOL)
    const last = new Map<string, number>()
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const [writer, reader] = turn % 2 === 0 ? nodes : [nodes[1], nodes[0]]
      const id = `k${turn % KEYS}`
      const isDelete = turn % 11 === 0
      const event = { at: AT, id, n: turn }
      const answer = await send(atNode(url, writer), [event], isDelete ? 'DELETE' : 'POST')
      expect(answer.status).toBe(200)
      if (isDelete) last.delete(id)
      else last.set(id, turn)
      const sum = [...last.values()].reduce((all, n) => all + n, 0)
      expect(Number(await reader.sum(poolId, 'n')), `turn ${turn}`).toBe(sum)
    }
  })
})
