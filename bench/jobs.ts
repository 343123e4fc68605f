/**
 * Question: what do a backfill and a deletion of many rows cost, and what do clients see meanwhile?
 *
 *   backfill          an added column gets its value from the payload of every row
 *   under ingest      the same again, while the pool takes full batches in a closed loop
 *   delete            a fifth of the rows by a filter, with a counter asked all the time
 *
 * PostgreSQL keeps the same rows as jsonb beside its key columns, and does the same work with
 * `UPDATE … SET c = payload->>'…'` and `DELETE`, synced.
 */
import { join } from 'node:path'
import { quoteText } from '../src/util/sql.ts'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS } from './events.ts'
import { type GeneratorDone, generate } from './generator.ts'
import { folderBytes, memory, print, row, short, sleep, watchMemory } from './measure.ts'
import { numberOf } from './options.ts'
import { errorsOf } from './path-runs.ts'
import { hasPostgres, startPostgres } from './peers/postgres.ts'
import { batches, large, post, settled } from './rows.ts'
import { keyedPool, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text; `no-peers` is a flag. */
interface JobsOptions {
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
  readonly 'no-peers'?: boolean | undefined
}

const MEMORY_EVERY_MS = 250
const POLL_MS = 100
/** Times that ingest runs beside the second backfill, which yields to it. */
const PHASES_MAX = 6
/** Of the 20 quantities that events have, these are deleted: a fifth of the rows. */
const DELETED = 'quantity % 5 = 0'
const QUANTITY = "CAST(_service_payload->>'quantity' AS BIGINT)"

/** Runs with `rows` (10M); ingest beside the second backfill has `connections` (4). */
export async function benchJobs(options: JobsOptions): Promise<void> {
  const rows = Math.ceil(numberOf('rows', options.rows, 10_000_000) / BATCH_EVENTS) * BATCH_EVENTS
  const seconds = numberOf('seconds', options.seconds, 10)
  const connections = Math.max(1, numberOf('connections', options.connections, 4))
  print(`jobs: ${rows} rows`)
  const server = await startWeir()
  const pool = await keyedPool(server)
  await post(pool.url, 0, rows, 1, 0)
  await settled(server, pool, rows)
  for (const columnName of ['added_1', 'added_2']) await addColumn(server, pool, columnName)
  await backfill(server, pool, 'backfill', rows, 'added_1')
  await agrees(server, pool, 'added_1')
  await deleteFifth(server, pool, rows)
  await underIngest(server, pool, seconds, connections)
  await server.stop()
  if (options['no-peers'] !== true) await postgres(rows)
}

async function addColumn({ graphql }: TestServer, { poolId }: TestPool, columnName: string): Promise<void> {
  const input = { dataPool: poolId, columnName, columnType: 'INT64', jsonProperty: 'not.there' }
  const { errors } = await graphql(
    `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
      createAddColumnToDataPoolJob(input: $input) { job { id } } }`,
    { input },
  )
  if (errors !== undefined) throw new Error(JSON.stringify(errors))
  const ofPool = 'query ($id: ID!) { dataPool(id: $id) { columns { nodes { columnName } } } }'
  for (;;) {
    const { data } = await graphql<Columns>(ofPool, { id: poolId })
    if (data.dataPool.columns.nodes.some(node => node.columnName === columnName)) return
    await sleep(POLL_MS)
  }
}

interface Columns {
  readonly dataPool: { readonly columns: { readonly nodes: { readonly columnName: string }[] } }
}

/** Runs an update job to its end, and returns its seconds. */
async function update(server: TestServer, { poolId }: TestPool, column: string): Promise<number> {
  const input = { dataPool: poolId, set: [{ column, expression: QUANTITY }] }
  const document = `mutation ($input: CreateUpdateDataPoolRecordsJobInput!) {
    created: createUpdateDataPoolRecordsJob(input: $input) { job { id } } }`
  return await jobSeconds(server, document, input, 'updateDataPoolRecordsJob')
}

async function jobSeconds(
  { graphql }: TestServer,
  document: string,
  input: unknown,
  query: 'updateDataPoolRecordsJob' | 'deletionJob',
): Promise<number> {
  const begin = performance.now()
  const { data, errors } = await graphql<{ created: { job: { id: string } } }>(document, { input })
  if (errors !== undefined) throw new Error(JSON.stringify(errors))
  const variables = { id: data.created.job.id }
  for (;;) {
    const polled = await graphql<{ job: { status: string; error: unknown } }>(
      `query ($id: ID!) { job: ${query}(id: $id) { status error { message } } }`,
      variables,
    )
    const { status, error } = polled.data.job
    if (status === 'SUCCEEDED') return (performance.now() - begin) / 1000
    if (status === 'FAILED') throw new Error(`the job failed: ${JSON.stringify(error)}`)
    await sleep(POLL_MS)
  }
}

async function backfill(
  server: TestServer,
  pool: TestPool,
  name: string,
  rows: number,
  column: string,
): Promise<void> {
  const before = (await scrape(server.base)).value('weir_segments')
  const pid = server.child.pid ?? 0
  const sum = ({ anonymous, shared }: ReturnType<typeof memory>) => anonymous + shared
  const first = sum(memory(pid))
  const peak = watchMemory(pid, MEMORY_EVERY_MS, sum)
  const taken = await update(server, pool, column)
  const after = (await scrape(server.base)).value('weir_segments')
  print(
    row(
      name,
      `${taken.toFixed(1)} s, ${short(rows / taken)} rows/s, memory ${short(first)}B, at most ${short(peak())}B, ${before} segments before and ${after} after`,
    ),
  )
}

/** The new column holds what the payload says. */
async function agrees(server: TestServer, { poolId }: TestPool, column: string): Promise<void> {
  const [filled, wanted] = await Promise.all([server.sum(poolId, column), server.sum(poolId, 'quantity')])
  if (filled === wanted) return
  print(row('', `SUM OF ${column} IS ${filled}, AND OF quantity ${wanted}`))
  process.exitCode = 1
}

async function underIngest(
  server: TestServer,
  pool: TestPool,
  seconds: number,
  connections: number,
): Promise<void> {
  const load = (producer: number, forSeconds: number) =>
    generate({
      target: { kind: 'http', url: pool.url },
      events: BATCH_EVENTS,
      connections,
      seconds: forSeconds,
      producer,
      form: 'array',
    })
  report('ingest alone', await load(1, seconds))
  const rows = Number(await server.count(pool.poolId))
  const all = { isDone: false }
  const job = backfill(server, pool, 'backfill under ingest', rows, 'added_2').finally(() => {
    all.isDone = true
  })
  for (let phase = 1; !all.isDone && phase <= PHASES_MAX; phase++)
    report('ingest beside the backfill', await load(1 + phase, seconds))
  if (!all.isDone) print(row('', 'ingest ends, and the backfill goes on alone'))
  await job
}

function report(phase: string, { sent, requests, seconds, errors }: GeneratorDone): void {
  const rate = (requests * BATCH_EVENTS) / seconds
  print(
    row(
      phase,
      `${short(rate)} events/s, ack p50 ${sent.p50Ms.toFixed(1)} ms, p99 ${sent.p99Ms.toFixed(0)} ms; ${errorsOf(errors)}`,
    ),
  )
}

async function deleteFifth(server: TestServer, pool: TestPool, rows: number): Promise<void> {
  const folder = join(server.dataDir, 'segment', pool.poolId)
  const match = await server.count(pool.poolId, { filterSql: DELETED })
  const before = folderBytes(folder)
  const least = rows - Number(match)
  const seen: number[] = []
  const state = { isDone: false }
  const counting = (async () => {
    while (!state.isDone) seen.push(Number(await server.count(pool.poolId)))
  })()
  const document = `mutation ($input: CreateDeletionJobInput!) {
    created: createDeletionJob(input: $input) { job { id } } }`
  const input = { dataPool: pool.poolId, filterSql: DELETED }
  const taken = await jobSeconds(server, document, input, 'deletionJob')
  state.isDone = true
  await counting
  const after = folderBytes(folder)
  await settled(server, pool, least)
  print(
    row(
      `delete ${match} of ${rows}`,
      `${taken.toFixed(1)} s, ${short(rows / taken)} rows/s looked at, disk ${short(before)}B before, ${short(after)}B after, ${short(folderBytes(folder))}B when merges ended`,
    ),
  )
  const falls = seen.every((count, at) => count <= rows && count >= least && count <= (seen[at - 1] ?? rows))
  print(row('counted meanwhile', `${seen.length} times, ${falls ? 'never rising, never too few' : 'WRONG'}`))
  if (!falls) process.exitCode = 1
}

async function postgres(rows: number): Promise<void> {
  if (!hasPostgres()) {
    print(row('postgres', 'not installed (apt-get install postgresql)'))
    return
  }
  const server = await startPostgres()
  const run = async (sql: string): Promise<number> => {
    const connection = await server.open(sql)
    const begin = performance.now()
    await connection.execute()
    connection.close()
    return (performance.now() - begin) / 1000
  }
  for (const batch of large(batches(0, rows, 1, 0)))
    await run(
      `INSERT INTO events SELECT (e->>'time')::timestamptz, e->>'id', e
        FROM jsonb_array_elements(${quoteText(`[${batch.join(',')}]`)}::jsonb) e`,
    )
  await run('VACUUM ANALYZE events')
  await run('ALTER TABLE events ADD COLUMN added bigint')
  const updated = await run("UPDATE events SET added = (event->>'quantity')::bigint")
  print(row('postgres, backfill', `${updated.toFixed(1)} s, ${short(rows / updated)} rows/s`))
  const deleted = await run("DELETE FROM events WHERE (event->>'quantity')::bigint % 5 = 0")
  print(row('postgres, delete', `${deleted.toFixed(1)} s, ${short(rows / deleted)} rows/s looked at`))
  await server.stop()
}
