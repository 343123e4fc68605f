/**
 * U+FEFF is a character like any other in names and values. Decoders remove it from the beginning
 * of a text by default. A column with such a name was null everywhere, and was confused with the
 * column that has the rest of its name.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, describe, expect, test } from 'vitest'
import { weirInside } from '../tools/folder.ts'
import { fetchToken, removeLeftovers, send, startServer, temporaryFolder } from '../util/server.ts'
import { column, where } from './client.ts'

const MARK = '\uFEFF'
const ID = `${MARK}id`
const POOL = {
  uniqueName: `${MARK}marks`,
  columns: [
    column('id', 'INT64', true, 'other'),
    column(ID, 'STRING'),
    column(`${MARK}at`, 'TIMESTAMP', false, 'at'),
    column(`${MARK}n`, 'INT64', true, 'n'),
    column(MARK, 'STRING', true, `${MARK}.${MARK}x`),
  ],
  timestamp: `${MARK}at`,
  uniqueId: ID,
  tenant: MARK,
}
const NAMES = ['_service_received_at', '_service_payload', ...POOL.columns.map(({ name }) => name)]
const eventOf = (id: string, n: number, tenant: string) => ({
  other: 1000,
  at: '2026-05-06T12:00:00Z',
  [ID]: id,
  n,
  [MARK]: { [`${MARK}x`]: tenant },
})

afterAll(removeLeftovers)

/** The number of times that `bytes` has `text`, as UTF-8. */
function timesIn(bytes: Buffer, text: string): number {
  return bytes.toString('latin1').split(Buffer.from(text).toString('latin1')).length - 1
}

describe.each(['native', 'js'])('kernel %s', kernel => {
  test('columns, values, ids and properties that begin with U+FEFF are what they are', async () => {
    const dataDir = join(temporaryFolder(), 'data')
    const start = () => startServer({ dataDir, args: ['--kernel', kernel] })
    let server = await start()
    const { poolId, url } = await server.createPool(POOL)
    const events = [eventOf('a', 1, `${MARK}t`), eventOf(`${MARK}a`, 10, 't'), eventOf('b', 100, `${MARK}t`)]
    expect((await send(url, events)).status).toBe(200)
    expect(await server.count(poolId)).toBe('3')
    // The same keys again in a second segment, and one delete: the index finds all of them.
    expect((await send(url, [eventOf('a', 2, `${MARK}t`), eventOf(`${MARK}a`, 20, 't')])).status).toBe(200)
    const key = { [ID]: 'b', at: '2026-05-06T12:00:00Z' }
    expect((await send(url, key, 'DELETE')).status).toBe(200)
    const look = async () => [
      await server.count(poolId),
      await server.sum(poolId, `${MARK}n`),
      await server.sum(poolId, 'id'),
      await server.sum(poolId, `${MARK}n`, where(ID, 'EQUALS', `${MARK}a`)),
      await server.sum(poolId, `${MARK}n`, where(ID, 'EQUALS', 'a')),
      await server.count(poolId, where(ID, 'LIKE', `${MARK}%`)),
      await server.count(poolId, where(MARK, 'EQUALS', `${MARK}t`)),
      await server.count(poolId, where('id', 'EQUALS', '1000')),
    ]
    const seen = ['2', '22', '2000', '20', '2', '1', '1', '2']
    expect(await look()).toEqual(seen)

    const token = await fetchToken(server.base, dataDir)
    const wanted = `columns=${encodeURIComponent(`${ID},id,${MARK}n`)}`
    const answer = await fetch(`${server.base}/v1/pools/${poolId}/arrow?${wanted}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const bytes = Buffer.from(await answer.arrayBuffer())
    expect([answer.status, timesIn(bytes, ID), timesIn(bytes, `${MARK}a`)]).toEqual([200, 1, 1])
    const table = tableFromIPC(bytes)
    expect([table.getChildAt(1)?.nullCount, ...(table.getChildAt(2)?.toArray() ?? [])]).toEqual([0, 2n, 20n])

    // A rebuild reads the keys from the files.
    expect((await server.stop()).code).toBe(0)
    rmSync(join(dataDir, 'index'), { recursive: true })
    server = await start()
    expect(await look()).toEqual(seen)
    expect((await send(url.replace(/^.*?(?=\/v1)/, server.base), eventOf('a', 3, 't'))).status).toBe(200)
    expect(await server.sum(poolId, `${MARK}n`)).toBe('23')
    expect((await server.stop()).code).toBe(0)
    expect(await weirInside(['verify', '--data-dir', dataDir, '--kernel', kernel])).toMatchObject({ code: 0 })

    if (kernel === 'js') return // the rest does not depend on the kernel
    const out = async (format: string) => {
      const file = join(dataDir, '..', `rows.${format}`)
      const args = ['export', poolId, '--data-dir', dataDir, '--format', format, '--out', file]
      expect(await weirInside(args)).toMatchObject({ code: 0 })
      return readFileSync(file)
    }
    const rows = (await out('ndjson'))
      .toString()
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(rows.map(row => [row[ID], row['id'], row[`${MARK}n`], row[MARK]]).sort()).toEqual([
      ['a', 1000, 3, 't'],
      [`${MARK}a`, 1000, 20, 't'],
    ])
    const [head, ...lines] = (await out('csv')).toString().trim().split('\r\n')
    expect(head).toBe(NAMES.join())
    expect(lines.map(line => line.split(',').slice(-4).join()).sort()).toEqual(
      [`${MARK}a,2026-05-06T12:00:00.000Z,20,t`, 'a,2026-05-06T12:00:00.000Z,3,t'].sort(),
    )
    // Parquet readers in JavaScript remove the byte order mark, so the bytes of the footer are
    // compared.
    const parquet = await out('parquet')
    expect(NAMES.filter(name => timesIn(parquet, name) === 0)).toEqual([])
  })
})
