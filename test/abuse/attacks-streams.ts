/** Attacks of a reader: Arrow streams that nobody reads. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { head } from '../api/client.ts'
import { fetchToken, send } from '../util/server.ts'
import { type Attack, keepBusy } from './attack.ts'

const ROWS = 40_000
/** So much of each row that a stream fits in no socket's buffer. */
const ROW_BYTES = 450

let token = ''

/** A backup of another client, to its end. */
async function backUp(base: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-abuse-backup-'))
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  try {
    const body = JSON.stringify({ folder: join(folder, 'copy') })
    const answer = await fetch(`${base}/v1/admin/backup`, { method: 'POST', headers, body })
    const text = await answer.text()
    if (answer.status !== 200 || !text.includes('"done":true'))
      throw new Error(`a backup says ${answer.status} ${text.slice(-200)}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const STREAM_ATTACKS: readonly Attack[] = [
  {
    name: 'Arrow streams that nobody reads',
    prepare: async ({ server, pool }) => {
      token = await fetchToken(server.base, server.dataDir)
      const text = 'x'.repeat(ROW_BYTES)
      for (let from = 0; from < ROWS; from += 500)
        await send(
          pool.url,
          Array.from({ length: 500 }, (_, index) => ({ id: `${from + index}`, text })),
        )
      // DuckDB and the threads of exports and backups are loaded by the first of each: that is no
      // growth by the attack.
      const headers = { authorization: `Bearer ${token}` }
      await (await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow`, { headers })).arrayBuffer()
      await backUp(server.base)
    },
    run: target =>
      keepBusy(target, 16, async attacker => {
        attacker.stopReading()
        await attacker.write(
          head(`/v1/pools/${target.pool.poolId}/arrow`, [`Authorization: Bearer ${token}`], 'GET'),
        )
        await Promise.race([target.over, attacker.closed])
      }),
    probe: ({ server }) => backUp(server.base),
  },
]
