/**
 * Question: what does adding columns cost the acks of a pool at full ingest?
 *
 *   Full batches in a closed loop: before, while columns are added one after another at equal
 *   intervals, and afterwards. Each cut-over pauses the pool until the parsed requests have
 *   their sequences and the catalog is synced, so the largest time of the second phase shows it.
 *
 * Jobs are timed from their creation to the first answer that says SUCCEEDED.
 */
import { BATCH_EVENTS } from './events.ts'
import { type GeneratorDone, generate } from './generator.ts'
import { everyMs, print, quantileOf, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { agreed, errorsOf } from './path-runs.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface AddColumnOptions {
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
  readonly rounds?: string | undefined
}

type Asked = (query: string, variables: unknown) => Promise<{ data: unknown; errors?: unknown }>

const CREATE = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id } } }`
const STATUS = 'query ($id: ID!) { addColumnToDataPoolJob(id: $id) { status } }'

/** Runs three phases of `seconds` (20) with `connections` (16), and adds `rounds` (10) columns. */
export async function benchAddColumn(options: AddColumnOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 20)
  const connections = Math.max(1, numberOf('connections', options.connections, 16))
  const rounds = Math.max(1, numberOf('rounds', options.rounds, 10))
  print(
    `add column: ${BATCH_EVENTS} events a request, ${connections} connections in a closed loop, three times ${seconds} s, ${rounds} columns`,
  )
  const server = await startWeir()
  const pool = await keyedPool(server)
  const load = (producer: number) =>
    generate({
      target: { kind: 'http', url: pool.url },
      events: BATCH_EVENTS,
      connections,
      seconds,
      producer,
      form: 'array',
    })
  report('before', await load(1))
  const jobMs: number[] = []
  const end = performance.now() + seconds * 1000
  const add = async () => {
    if (jobMs.length < rounds) jobMs.push(await addColumn(server.graphql, pool.poolId, jobMs.length + 1))
  }
  const [during] = await Promise.all([load(2), everyMs((seconds * 1000) / (rounds + 1), end, add)])
  report('while columns are added', during)
  report('after', await load(3))
  print(
    row(
      'a job',
      `${jobMs.length} columns, p50 ${quantileOf(jobMs, 0.5).toFixed(0)} ms, max ${quantileOf(jobMs, 1).toFixed(0)} ms from creation to SUCCEEDED`,
    ),
  )
  if (jobMs.length < rounds) {
    print(row('', `ONLY ${jobMs.length} OF ${rounds} COLUMNS WERE ADDED in time`))
    process.exitCode = 1
  }
  await agreed(server, pool)
  await server.stop()
}

/** Adds a column, and returns the time until its job has SUCCEEDED. */
async function addColumn(graphql: Asked, dataPool: string, round: number): Promise<number> {
  const begin = performance.now()
  const columnName = `added_${round}`
  const input = { dataPool, columnName, columnType: 'STRING', jsonProperty: 'id' }
  const { data, errors } = await graphql(CREATE, { input })
  if (errors !== undefined) throw new Error(`createAddColumnToDataPoolJob: ${JSON.stringify(errors)}`)
  const { id } = (data as { createAddColumnToDataPoolJob: { job: { id: string } } })
    .createAddColumnToDataPoolJob.job
  for (;;) {
    const answer = (await graphql(STATUS, { id })).data as { addColumnToDataPoolJob: { status: string } }
    const { status } = answer.addColumnToDataPoolJob
    if (status === 'SUCCEEDED') return performance.now() - begin
    if (status === 'FAILED') throw new Error(`the job of ${columnName} failed`)
  }
}

function report(phase: string, { sent, requests, seconds, errors }: GeneratorDone): void {
  const rate = (requests * BATCH_EVENTS) / seconds
  print(
    row(
      `ack ${phase}`,
      `p50 ${sent.p50Ms.toFixed(1)} ms, p99 ${sent.p99Ms.toFixed(1)} ms, max ${sent.maxMs.toFixed(0)} ms; ${short(rate)} events/s; ${errorsOf(errors)}`,
    ),
  )
}
