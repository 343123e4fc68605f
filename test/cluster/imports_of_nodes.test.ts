/** Imports in a cluster: each runs on the node that has its connection, and ends with that. */
import { describe, expect, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { beginImport, endImport } from '../../src/catalog/change/change-import.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { endImports, endImportsOfNodes } from '../../src/jobs/end-imports.ts'
import { must } from '../../src/util/errors.ts'
import { created } from '../catalog/folder.ts'
import { leadingNodeOf, leads, nodeOf } from './keeper-node.ts'
import { stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const INPUT = { format: 'ndjson', encoding: '', label: '', skipRows: 7, bytes: null }

async function begin(catalog: Catalog, poolId: string, process: string | undefined = catalog.process) {
  const begun = await catalog.change(beginImport(poolId, 'APP1', INPUT, process))
  if (begun === null || 'badRequest' in begun) throw new Error('the import was refused')
  return begun.id
}

describe.skipIf(noZookeeper !== undefined)(`imports in a cluster ${noZookeeper ?? ''}`, () => {
  test('those of a node that is no more end, and no others', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const [one, two, cut] = [await leadingNodeOf(port), await nodeOf(port), await nodeOf(path.port)]
    await leads(one)
    const { pool } = created(await one.catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    const processes = [one, two, cut].map(({ catalog }) => must(catalog.process, 'a process'))
    expect(new Set(processes).size).toBe(3)
    const ids = [
      await begin(one.catalog, pool.id),
      await begin(two.catalog, pool.id),
      await begin(cut.catalog, pool.id),
      // Of a data folder that was moved here.
      await begin(two.catalog, pool.id, ''),
    ]
    const status = () => ids.map(id => one.catalog.read.jobs.get(id)?.status)
    // A start ends nothing.
    const four = await nodeOf(port)
    await endImports(four)
    expect(status()).toEqual(Array.from({ length: 4 }, () => 'IN_PROGRESS'))
    const fenced = one.leader.fencedCatalog(one.catalog)
    const ending = endImportsOfNodes(fenced, () => one.store.nodes.processes(), one.terms[0]!)
    await expect.poll(() => status()[3]).toBe('FAILED')
    expect(status()).toEqual(['IN_PROGRESS', 'IN_PROGRESS', 'IN_PROGRESS', 'FAILED'])
    path.stop()
    await expect.poll(() => status()[2]).toBe('FAILED')
    expect(status().slice(0, 2)).toEqual(['IN_PROGRESS', 'IN_PROGRESS'])
    expect(one.catalog.read.jobs.get(ids[2]!)?.error).toContain('resume with skipRows=7')
    // The node comes back, and cannot begin where it left off.
    path.go()
    await expect.poll(() => cut.store.isCurrent()).toBe(true)
    const late = { rows: 9, accepted: 9, rejected: 0, durableRows: 9, durableBytes: null }
    expect(await cut.catalog.change(endImport(ids[2]!, late, null))).toMatchObject({ status: 'FAILED' })
    const next = await begin(cut.catalog, pool.id)
    await two.stop()
    await expect.poll(() => status()[1]).toBe('FAILED')
    expect(one.catalog.read.jobs.get(next)?.status).toBe('IN_PROGRESS')
    await one.leader.stop()
    await ending
  })

  test('an import that begins while the nodes are read is not one of a node that is no more', async () => {
    const { port } = await startZookeeper()
    const [one, two] = [await nodeOf(port), await nodeOf(port)]
    const { pool } = created(await one.catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1')))
    const left = await begin(one.catalog, pool.id, 'gone')
    const ended = new AbortController()
    let begun = ''
    let looks = 0
    const processes = async () => {
      const live = await one.store.nodes.processes()
      looks += 1
      const late = await nodeOf(port)
      if (looks === 1) begun = await begin(late.catalog, pool.id)
      return live
    }
    const ending = endImportsOfNodes(one.catalog, processes, ended.signal)
    await expect.poll(() => one.catalog.read.jobs.get(left)?.status).toBe('FAILED')
    ended.abort()
    await ending
    expect(two.catalog.read.jobs.get(begun)?.status).toBe('IN_PROGRESS')
  })
})
