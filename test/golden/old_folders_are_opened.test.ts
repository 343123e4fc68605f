/**
 * Every folder that a landed version wrote opens in this one: killed with unflushed requests and an
 * unfinished job, and stopped cleanly, with its index and without. CONTRIBUTING.md says how a
 * folder is added.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { NEVER, OFTEN, until, untilRest } from '../path/compaction.ts'
import { crossRead } from '../util/cross-read.ts'
import { newSeed, someOf } from '../util/random.ts'
import { fetchToken, spawnServer } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { COMMITS, Golden, LAST, OLDEST, withoutReceived } from './opened-folder.ts'

const seed = newSeed()
const OTHERS = COMMITS.filter(commit => commit !== OLDEST && commit !== LAST)

/**
 * The versions whose folders are merged, read by others and rebuilt: the oldest one, the one whose
 * folder was made last, and one of the others; in the long run all.
 */
const FURTHER = [OLDEST, LAST, ...someOf(OTHERS, 1, seed)]
const isMore = process.env['WEIR_TEST_MORE'] === '1'
/** `npm test` opens the folders of these alone, and the further tests those of all. */
const OPENED = isMore ? COMMITS : FURTHER
/** `npm test` merges and rebuilds one of them, by lot, and the further tests each. */
const REBUILT = isMore ? FURTHER : someOf(FURTHER, 1, seed)

describe.each(OPENED)(`the folders of %s (seed ${seed})`, commit => {
  test.concurrent('killed: rows are there, change, are merged, and outlive the index', async () => {
    const golden = new Golden(commit, 'killed')
    await golden.start()
    await golden.holdsRows()
    await questionsAreAnswered(golden)
    await controlWorks(golden)
    await rowsChange(golden)
    await golden.holdsRows()
    await golden.stop()
    await verifyFolder(golden.dataDir)
    if (REBUILT.includes(commit)) await isMergedAndRebuilt(golden)
  })

  test.concurrent('stopped: the first start may find no index', async () => {
    const golden = new Golden(commit, 'stopped')
    rmSync(join(golden.dataDir, 'index'), { recursive: true })
    // A killed query of the version may have left such a file.
    const spilled = join(golden.dataDir, 'tmp', 'duckdb_temp_storage_DEFAULT-0.tmp')
    writeFileSync(spilled, 'x')
    await golden.start()
    await until('the spilled file is gone', () => !existsSync(spilled))
    await golden.holdsRows()
    await questionsAreAnswered(golden)
    await rowsChange(golden)
    await golden.holdsRows()
    await golden.stop()
    await verifyFolder(golden.dataDir)
  })
})

test('a start that converts a folder may be killed anywhere', async () => {
  const golden = new Golden(OLDEST, 'killed')
  const { dataDir } = golden
  for (const point of ['catalog.sealed', 'rebuild.committed', 'recover.copied', 'recover.renamed']) {
    const { ended } = spawnServer({ dataDir, env: { ...NEVER, WEIR_CRASH_AT: point } })
    expect(await ended, point).toMatchObject({ signal: 'SIGKILL' })
  }
  await golden.start()
  await golden.holdsRows()
  await golden.stop()
  await verifyFolder(dataDir)
})

/** Merges leave the rows, other readers agree with the index, and a rebuild changes nothing. */
async function isMergedAndRebuilt(golden: Golden): Promise<void> {
  await golden.start(OFTEN)
  await untilRest(golden.server)
  for (const pool of ['every_type', 'by_day', 'by_boolean'])
    expect(await golden.segments(pool), pool).toHaveLength(1)
  await golden.holdsRows()
  const pools = await Promise.all([...golden.rows.keys()].map(pool => golden.idOf(pool)))
  await golden.stop()
  await verifyFolder(golden.dataDir)

  const before = await visibleRows(golden.dataDir)
  expect(pools.map(poolId => before.get(poolId)?.length)).toEqual(
    [...golden.rows.values()].map(rows => rows.length),
  )
  await rebuildFolder(golden.dataDir)
  await verifyFolder(golden.dataDir)
  expect(await visibleRows(golden.dataDir)).toEqual(before)
}

/** The rows by pool id, as two other readers find them by the index. */
async function visibleRows(dataDir: string): Promise<Map<string, string[]>> {
  const found = await crossRead(dataDir)
  return new Map([...found].map(([poolId, rows]) => [poolId, rows.map(row => JSON.stringify(row)).sort()]))
}

/** Questions whose segments are picked by the range of tenant and timestamp. */
async function questionsAreAnswered(golden: Golden): Promise<void> {
  const rows = (golden.rows.get('every_type') ?? []).map(line => JSON.parse(line) as Record<string, string>)
  const poolId = await golden.idOf('every_type')
  for (const tenant of ['tenant 0', 'tenant 1', 'tenant 2', 'nobody'])
    expect(await golden.server.count(poolId, { filterSql: `tenant = '${tenant}'` }), tenant).toBe(
      String(rows.filter(row => row['tenant'] === tenant).length),
    )
  const timeRange = { start: '2026-01-05T00:00:00Z', stop: '2026-01-12T00:00:00Z' }
  const within = rows.filter(({ at = '' }) => at >= timeRange.start && at < timeRange.stop).length
  expect(within).toBeGreaterThan(0)
  expect(await golden.server.count(poolId, { timeRange })).toBe(String(within))
}

/** Applications, their rights, metrics, policies and Basic credentials are as they were made. */
async function controlWorks({ expected: { facts }, server, dataDir }: Golden): Promise<void> {
  // The first application has every right, those too that its version did not know.
  await fetchToken(server.base, dataDir, 'data_pool:write')
  const guarded = await fetch(`${server.base}${facts.webhooks['guarded']}`, { method: 'POST', body: '{}' })
  expect(guarded.status).toBe(401)
  if (facts.reader === undefined) return
  const metric = await server.graphql('{ counter(input: {metricName: "golden"}) { value } }')
  expect(metric.data).toEqual({ counter: { value: facts.metric } })
  const { id, secret, rows } = facts.reader
  const token = (await (
    await fetch(`${server.base}/oauth2/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    })
  ).json()) as { access_token: string }
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      query: '{ counter(input: {metric: {count: {dataPool: {name: "closed"}}}}) { value } }',
    }),
  })
  expect(await answer.json()).toEqual({ data: { counter: { value: String(rows) } } })
}

/** Updates and deletes rows that the old version wrote, and adds new ones. */
async function rowsChange(golden: Golden): Promise<void> {
  const rows = golden.rows.get('every_type')!
  const [updated = '', deleted = '', long = ''] = [
    rows[0],
    rows[1],
    rows.find(line => line.includes('"id":"long long')),
  ]
  for (const line of [updated, deleted, long]) rows.splice(rows.indexOf(line), 1)
  // A pool that rounds epoch numbers goes on so: what is posted again has the key that it had.
  const at = golden.format < 6 ? '2027-01-01T00:00:00.000001Z' : '2027-01-01T00:00:00.000Z'
  const added = { at: 1798761600.0000007, id: 'new', tenant: 'tenant 1', round: 0 }
  const changes = [added, ...[updated, long].map(line => ({ ...keyOf(line), round: -1 }))]
  await golden.send('every_type', 'POST', changes)
  await golden.send('every_type', 'DELETE', [keyOf(deleted)])
  rows.push(...changes.map(event => everyTypeLine(event, event === added ? at : event.at)))

  // A row without a unique timestamp of its sender is deleted by the time at which it arrived.
  const arrived = (await golden.export('arrivals'))[0] ?? ''
  const { _service_received_at, id } = JSON.parse(arrived) as Record<string, string>
  await golden.send('arrivals', 'DELETE', [{ _service_received_at, id }])
  const left = golden.rows.get('arrivals')!
  left.splice(left.indexOf(withoutReceived(arrived)), 1)

  const guarded = golden.rows.get('guarded')!
  await golden.send('guarded', 'POST', [{ round: 0 }])
  guarded.push('{"_service_payload":{"round":0}}')
}

/** The columns of `every_type` that an event must have. */
function keyOf(line: string) {
  const { at, id, tenant } = JSON.parse(line) as Record<string, string>
  return { at, id, tenant }
}

const NULLS = ['flag', 'f', 'd', 'i8', 'i16', 'i32', 'i64', 'day', 'moment', 'j', 'city']

function everyTypeLine(
  event: Omit<ReturnType<typeof keyOf>, 'at'> & { readonly at: unknown; readonly round: number },
  at: unknown,
): string {
  const { round, ...key } = event
  const columns = { ...key, at, ...Object.fromEntries(NULLS.map(name => [name, null])), round }
  return JSON.stringify({ _service_payload: event, ...columns })
}
