/**
 * A backup of a server under load holds exactly what was acknowledged up to one sequence number.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { KEYED } from '../../path/damage.ts'
import { send, startServer, type TestServer, temporaryFolder } from '../../util/server.ts'
import { weir } from '../folder.ts'
import { askBackup, restoreAndStart } from './backups.ts'
import { textOf, Writer } from './prefix_model.ts'

async function rowsOf(server: TestServer, poolId: string, ids: readonly string[]): Promise<string> {
  const rows = new Map<string, number>()
  for (const id of ids) {
    const n = await server.sum(poolId, 'n', { filters: [{ column: 'id', operator: 'EQUALS', value: id }] })
    if (n !== null) rows.set(id, Number(n))
  }
  return textOf(rows)
}

const spec = (uniqueName: string) => ({ ...KEYED, uniqueName })

for (const durability of ['fsync', 'os']) {
  test(`W-6, W-12 with durability ${durability}: the backup is one moment of posts, updates, deletes, flushes, merges and changes of pools`, async () => {
    const root = temporaryFolder()
    const args = [
      '--backup-bytes-per-second',
      '3000000',
      '--durability',
      durability,
      '--compact-tick-ms',
      '50',
    ]
    const server = await startServer({ args: [...args, '--log-file-bytes', String(4 * 1024 * 1024)] })
    const [one, two] = [await server.createPool(spec('one')), await server.createPool(spec('two'))]
    const doomed = await server.createPool(spec('doomed'))
    expect((await send(doomed.url, [{ ts: '2026-01-01', id: 'd', n: 1 }])).status).toBe(200)
    const gone = await server.createPool(spec('gone'))
    expect((await send(gone.url, [{ ts: '2026-01-01', id: 'g', n: 1 }])).status).toBe(200)
    await server.graphql(`mutation { deleteDataPool(id: "${gone.poolId}") }`)
    const writers = [new Writer('a', one), new Writer('b', one), new Writer('c', two)]
    for (const writer of writers) writer.start()
    await delay(1500)
    await server.count(one.poolId)

    const before = writers.map(writer => writer.done.length)
    const folder = join(root, 'backup')
    let others: Promise<unknown> | undefined
    const meanwhile = async () => {
      const made = await server.createPool(spec('made'))
      expect((await send(made.url, [{ ts: '2026-01-01', id: 'm', n: 1 }])).status).toBe(200)
      await server.graphql(`mutation { deleteDataPool(id: "${doomed.poolId}") }`)
      // Flushes of the pools that are being copied: their small segments are replaced meanwhile.
      for (let i = 0; i < 5; i++) await server.count(one.poolId)
    }
    const { lines } = await askBackup(server, { folder }, line => {
      if ('phase' in line && line.phase === 'log') others ??= meanwhile()
    })
    const begun = writers.map(writer => writer.begun)
    await others
    const last = lines.at(-1) as { done: true; sequence: number }
    expect(last).toMatchObject({ done: true })
    await delay(300)
    for (const writer of writers) await writer.stop()
    expect((await server.stop()).code).toBe(0)

    const restored = await restoreAndStart(folder, join(root, 'restored'))
    expect(restored.output()).toContain('the index was built from')
    const taken = await Promise.all(
      writers.map(async (writer, w) => {
        const rows = await rowsOf(restored, w === 2 ? two.poolId : one.poolId, writer.ids())
        for (let k = before[w]!; k <= begun[w]!; k++) if (writer.stateAfter(k) === rows) return k
        throw new Error(`writer ${writer.name}: no prefix from ${before[w]} to ${begun[w]} gives ${rows}`)
      }),
    )
    // Each request has one sequence, and two requests came before the writers.
    expect(taken.reduce((sum, k) => sum + k, 2)).toBe(last.sequence)
    // One moment for all writers: an answer before the begin of an operation in the backup is in it
    // too.
    for (const [w, k] of taken.entries())
      for (const [v, other] of writers.entries()) {
        const beginMs = writers[w]!.done[k - 1]!.beginMs
        const answered = other.done.filter(({ ackMs }) => ackMs < beginMs).length
        expect(taken[v]).toBeGreaterThanOrEqual(answered)
      }
    // Deleted before: gone. Deleted after the moment: there, with its row. Made after it: not
    // there.
    const { data } = await restored.graphql<{ dataPools: { nodes: { uniqueName: string }[] } }>(
      '{ dataPools { nodes { uniqueName } } }',
    )
    const names = data.dataPools.nodes.map(node => node.uniqueName).sort()
    expect(names).toEqual(['doomed', 'events', 'one', 'two', 'weir_rejected_events'])
    expect(await restored.count(doomed.poolId)).toBe('1')
    // The old URLs and credentials work, and numbers go on.
    const url = `${restored.base}${new URL(one.url).pathname}`
    expect((await send(url, [{ ts: '2026-01-01', id: 'new', n: 7 }])).status).toBe(200)
    expect((await restored.stop()).code).toBe(0)
    expect(await weir(['verify', '--data-dir', join(root, 'restored')])).toMatchObject({ code: 0 })
    const again = await startServer({ dataDir: join(root, 'restored') })
    expect(await rowsOf(again, one.poolId, ['new'])).toBe('[["new",7]]')
    expect((await again.stop()).code).toBe(0)
  })
}

test('weir backup copies a stopped folder, that of a killed server, and a running server', async () => {
  const root = temporaryFolder()
  const server = await startServer()
  const pool = await server.createPool(KEYED)
  const post = (url: string, id: string) => send(url, [{ ts: '2026-01-01', id, n: 1 }])
  expect((await post(pool.url, 'x')).status).toBe(200)
  const online = join(root, 'online')
  const asked = await weir(['backup', online, '--url', server.base, '--data-dir', server.dataDir])
  expect(asked).toMatchObject({ code: 0, output: expect.stringContaining('backup of sequence') })
  // The folder is in use: only --url helps.
  const used = await weir(['backup', join(root, 'used'), '--data-dir', server.dataDir])
  expect([used.code, existsSync(join(root, 'used'))]).toEqual([2, false])
  expect((await post(pool.url, 'y')).status).toBe(200)
  await server.kill()

  const killed = join(root, 'killed')
  expect(await weir(['backup', killed, '--data-dir', server.dataDir])).toMatchObject({ code: 0 })
  const twice = await weir(['backup', killed, '--data-dir', server.dataDir])
  expect(twice).toMatchObject({ code: 2, output: expect.stringContaining('has a backup already') })
  const counts: (string | null)[] = []
  for (const [index, folder] of [online, killed].entries()) {
    const restored = await restoreAndStart(folder, join(root, `restored ${index}`))
    counts.push(await restored.count(pool.poolId))
    expect((await post(`${restored.base}${new URL(pool.url).pathname}`, 'z')).status).toBe(200)
    expect(await restored.count(pool.poolId)).toBe(String(index + 2))
    expect((await restored.stop()).code).toBe(0)
  }
  expect(counts).toEqual(['1', '2'])
  const wrong = await weir([
    'backup',
    join(root, 'no'),
    '--url',
    'http://127.0.0.1:1',
    '--data-dir',
    server.dataDir,
  ])
  expect(wrong).toMatchObject({ code: 2, output: expect.stringContaining('cannot be reached') })
})
