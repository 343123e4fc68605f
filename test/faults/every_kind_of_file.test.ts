/**
 * EIO of each kind of file that disk_faults and merge_faults leave out: in reads, writes and syncs
 * of catalog, index, segments and temporary files by LMDB and DuckDB, and at starts. The answer or
 * the output names the file, ingest goes on, the same request succeeds when the disk works again,
 * and the next start has every acknowledged row.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { ask } from '../api/client.ts'
import { createJob, ended, stateOf } from '../jobs/rewrite-jobs.ts'
import { until } from '../path/compaction.ts'
import { askBackup } from '../tools/backup/backups.ts'
import { fetchToken, spawnServer, startServer } from '../util/server.ts'
import { verifyFolder } from '../util/verify.ts'
import { FaultyServer, SMALL_LOG } from './faulty-server.ts'

/** The answer to a request of one kind, as text. */
type Asking = (faulty: FaultyServer) => Promise<string>

const exporting =
  (format: string): Asking =>
  async ({ server, pool }) => {
    const headers = { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` }
    const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/export?format=${format}`, { headers })
    return `${answer.status} ${await answer.text()}`
  }

let backups = 0
const ASK = {
  newPool: ({ server }) =>
    server.createPool({ uniqueName: 'other' }).then(
      () => 'made',
      (error: Error) => error.message,
    ),
  count: ({ server, pool }) =>
    server.count(pool.poolId).then(
      count => `count ${count}`,
      (error: Error) => error.message,
    ),
  sum: ({ server, pool }) =>
    server.sum(pool.poolId, 'n').then(
      sum => `sum ${sum}`,
      (error: Error) => error.message,
    ),
  /** A job that fails tells it, and one that waits has told the log. */
  job: async faulty => {
    const set = [{ column: 'n', expression: 'n + 1' }]
    const job = await createJob(faulty.server, 'update', { dataPool: faulty.pool.poolId, set })
    const waits = `job ${job.id} .* waits`
    let state = await stateOf(faulty.server, job)
    await until('the job ends or waits', async () => {
      state = await stateOf(faulty.server, job)
      const isOver = state.status === 'SUCCEEDED' || state.status === 'FAILED'
      return isOver || new RegExp(waits).test(faulty.server.output())
    })
    const line = new RegExp(`${waits}.*`).exec(faulty.server.output())?.[0]
    faulty.waiting = line === undefined ? undefined : job
    return `${state.status} ${state.error?.message ?? line ?? ''}`
  },
  backup: async faulty => {
    backups += 1
    const { lines } = await askBackup(faulty.server, { folder: join(faulty.folder, `to-${backups}`) })
    return JSON.stringify(lines.at(-1))
  },
  ndjson: exporting('ndjson'),
  parquet: exporting('parquet'),
} satisfies Record<string, Asking>

/** How each request is answered when the disk works. */
const FINE: Readonly<Record<keyof typeof ASK, RegExp>> = {
  newPool: /^made$/,
  count: /^count \d+$/,
  sum: /^sum \d+$/,
  job: /^SUCCEEDED/,
  backup: /"done":true/,
  ndjson: /^200 /,
  parquet: /^200 PAR1/,
}

const SEGMENT = '/data/segment/.*[.]parquet$'
const RUNNING: readonly (readonly [fault: string, asked: keyof typeof ASK, answer: RegExp])[] = [
  ['write /catalog/data[.]mdb$', 'newPool', /The change was not made: Input\/output error/],
  ['sync /catalog/data[.]mdb$', 'newPool', /The change was not made: Input\/output error/],
  ['write /index/data[.]mdb$', 'count', /^UNAVAILABLE: .*the key index cannot be changed: Input\/output/],
  ['sync /index/data[.]mdb$', 'count', /^UNAVAILABLE: .*the key index cannot be changed: Input\/output/],
  [`read ${SEGMENT}`, 'sum', /^SEGMENT_DAMAGED: segment \w+\/\d+[.]parquet cannot be read: .*Input\/output/],
  [
    `read ${SEGMENT}`,
    'ndjson',
    /^500 .*segment \w+\/\d+[.]parquet cannot be read: .*"code":"segment_damaged"/,
  ],
  [`read ${SEGMENT}`, 'job', /^FAILED segment \/.*[.]parquet cannot be read: .*Input\/output/],
  [`read ${SEGMENT}`, 'backup', /backup_incomplete.*segment\/.*[.]parquet","what":"EIO/],
  ['read /data/segment/.*[.]deletes$', 'backup', /backup_incomplete.*segment\/.*[.]deletes","what":"EIO/],
  ['read /data/log/.*[.]log$', 'backup', /\/data\/log\/.*[.]log is damaged at byte \d+: EIO/],
  ['read /data/secret[.]key$', 'backup', /EIO: i\/o error, read '\/.*\/data\/secret[.]key'/],
  ['write /tmp/changes-', 'job', /^IN_PROGRESS job .*the log of the server has the error/],
  ['read /tmp/changes-', 'job', /^IN_PROGRESS job .*\/tmp\/changes-.*Input\/output error/],
  [
    'write /tmp/export-',
    'parquet',
    /^503 ((?!\/tmp\/).)*the log of the server has the error.*"code":"query_io"/,
  ],
  [
    'read /tmp/export-',
    'parquet',
    /^503 ((?!\/tmp\/).)*a temporary file of the query cannot be read [(]EIO[)].*"code":"query_io"/,
  ],
  [
    'write /tmp/export-',
    'ndjson',
    /^503 ((?!\/tmp\/).)*a temporary file of the query cannot be written [(]EIO[)].*"code":"query_io"/,
  ],
  [
    'read /tmp/export-',
    'ndjson',
    /^503 ((?!\/tmp\/).)*a temporary file of the query cannot be read [(]EIO[)].*"code":"query_io"/,
  ],
]

test.each(RUNNING)('%s, asked for %s', async (fault, asked, answer) => {
  const faulty = await new FaultyServer(fault).start()
  expect(await faulty.delete('id 0')).toBe(200)
  expect(await faulty.server.count(faulty.pool.poolId)).toBe('2')
  expect(await faulty.post(20)).toBe(200)
  faulty.arm()
  expect(await ASK[asked](faulty)).toMatch(answer)
  expect(await faulty.post(5)).toBe(200)
  faulty.clear()
  if (faulty.waiting !== undefined)
    expect((await ended(faulty.server, faulty.waiting)).status).toBe('SUCCEEDED')
  for (;;) {
    const later = await ASK[asked](faulty)
    if (FINE[asked].test(later)) break
    // A flush that failed is tried again each second.
    expect(later).toMatch(/^UNAVAILABLE/)
    await delay(100)
  }
  expect(await faulty.readyz()).toBe(200)
  await faulty.restart()
  await verifyFolder(faulty.dataDir)
})

test.each(['write', 'read'])(
  '%s of an imported file: 503, and the import succeeds later',
  async operation => {
    const faulty = await new FaultyServer(`${operation} /data/tmp/import-`).start()
    const { server, pool } = faulty
    const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
    const exported = await fetch(`${server.base}/v1/pools/${pool.poolId}/export?format=parquet`, {
      headers: { authorization },
    })
    const body = new Uint8Array(await exported.arrayBuffer())
    const load = async () => {
      const path = `/v1/pools/${pool.poolId}/import?format=parquet`
      const answer = await ask(Number(new URL(server.base).port), path, { body, headers: { authorization } })
      return JSON.stringify([answer.status, answer.json.code ?? answer.json.accepted, answer.json.errors])
    }
    faulty.arm()
    expect(await load()).toMatch(/^\[503,.*\/data\/tmp\/import-.*(EIO|Input\/output error)/)
    faulty.clear()
    expect(await load()).toMatch(/^\[200,3/)
    await faulty.restart()
  },
)

let killed: FaultyServer

beforeAll(async () => {
  killed = await new FaultyServer('sync /none$').start()
  expect(await killed.delete('id 0')).toBe(200)
  expect(await killed.server.count(killed.pool.poolId)).toBe('2')
  expect(await killed.post(20)).toBe(200)
  await killed.server.kill()
})

/** Starts a server whose disk fails; its exit code and the line that says why. */
async function startFailing(faulty: FaultyServer) {
  faulty.arm()
  const { child, ended, ready } = spawnServer(faulty.options)
  const isReady = await ready.then(
    () => true,
    () => false,
  )
  if (isReady) child.kill('SIGKILL')
  const { code, output } = await ended
  return { isReady, code, output }
}

/** `name`: the file that the output names. */
const STARTS: readonly (readonly [fault: string, code: number, name: RegExp])[] = [
  ['read /data/FORMAT$', 1, /\/FORMAT is damaged at byte 0: EIO/],
  ['open /data/LOCK$ 1 EIO', 2, /\/data cannot be used: EIO.*\/LOCK'/],
  ['read /data/secret[.]key$', 1, /\/secret[.]key is damaged at byte 0: EIO/],
  ['open /data/secret[.]key$ 1 EIO', 2, /^\S+ EIO.*\/secret[.]key'/m],
  ['read /data/catalog/data[.]mdb$', 2, /^\S+ EIO.*\/catalog\/data[.]mdb'/m],
  ['fsync /data/catalog$ 1 EIO', 2, /^\S+ EIO.*\/catalog'/m],
  ['read /data/index/data[.]mdb$', 2, /\/index cannot be opened: EIO.*\/index\/data[.]mdb'/],
  ['sync /data/index/data[.]mdb$', 2, /\/index cannot be opened: EIO.*\/index\/data[.]mdb'/],
  ['read /data/log/head$', 1, /\/log\/head is damaged at byte 0: EIO/],
  ['read /data/log/.*[.]log$', 1, /\/log\/\S+[.]log is damaged at byte \d+: EIO/],
  ['write /data/log/.*[.]log', 2, /^\S+ EIO.*\/log\/\S+'/m],
  ['sync /data/log/.*[.]log', 2, /^\S+ EIO.*\/log\/\S+'/m],
  ['write /data/log/head', 2, /^\S+ EIO.*\/log\/head[.]tmp'/m],
  ['sync /data/log/head', 2, /^\S+ EIO.*\/log\/head[.]tmp'/m],
  ['readdir /data/log$ 1 EIO', 2, /^\S+ EIO.*\/log'/m],
  ['readdir /data/segment 1 EIO', 2, /^\S+ EIO.*\/segment/m],
]

test.each(STARTS)('W-10 a start with %s: exit %i, one line names the file', async (fault, code, name) => {
  const faulty = new FaultyServer(fault)
  faulty.takeFolder(killed)
  const failed = await startFailing(faulty)
  expect(failed).toMatchObject({ isReady: false, code, output: expect.stringMatching(name) })
  expect(failed.output).not.toContain('    at ')
  await faulty.startWithoutFaults()
  await verifyFolder(faulty.dataDir)
})

test.each(['read /data/admin[.]json$', 'write /data/catalog/data[.]mdb$', 'write /data/index/data[.]mdb$'])(
  'W-10 a start with %s needs nothing of it',
  async fault => {
    const faulty = new FaultyServer(fault)
    faulty.takeFolder(killed)
    expect((await startFailing(faulty)).isReady).toBe(true)
    await faulty.startWithoutFaults()
    await verifyFolder(faulty.dataDir)
  },
)

const FIRST_STARTS: readonly (readonly [fault: string, name: RegExp])[] = [
  ['write /data/FORMAT', /EIO.*\/FORMAT[.]tmp'/],
  ['sync /data/FORMAT', /EIO.*\/FORMAT[.]tmp'/],
  ['rename /data/FORMAT$ 1 EIO', /EIO.*\/FORMAT'/],
  ['write /data/secret[.]key', /EIO.*\/secret[.]key[.]tmp'/],
  ['sync /data/secret[.]key', /EIO.*\/secret[.]key[.]tmp'/],
  ['write /data/admin[.]json', /EIO.*\/admin[.]json[.]tmp'/],
  ['sync /data/admin[.]json', /EIO.*\/admin[.]json[.]tmp'/],
  ['sync /data$', /EIO.*\/data'/],
  ['sync /data/catalog$', /EIO.*\/catalog'/],
  ['sync /data/catalog/data[.]mdb$', /The change was not made: Input\/output error/],
  ['write /data/index/data[.]mdb$', /\/index cannot be opened: Input\/output error/],
  ['write /data/log/', /EIO.*\/log\/\S+'/],
  ['sync /data/log/', /EIO.*\/log\/\S+'/],
  ['sync /data/log$', /EIO.*\/log'/],
]

test.each(FIRST_STARTS)(
  'a first start with %s: the file is named, and the next start works',
  async (fault, name) => {
    const faulty = new FaultyServer(fault)
    const failed = await startFailing(faulty)
    expect(failed).toMatchObject({ isReady: false, output: expect.stringMatching(name) })
    expect(failed.output).not.toContain('    at ')
    faulty.clear()
    const next = await startServer({ dataDir: faulty.dataDir, args: SMALL_LOG })
    const pool = must(
      (await next.graphql<{ dataPools: { nodes: { id: string }[] } }>('{ dataPools { nodes { id } } }')).data
        .dataPools.nodes[0],
      'the first pool',
    )
    expect(await next.count(pool.id)).toBe('0')
    expect((await next.stop()).code).toBe(0)
  },
)
