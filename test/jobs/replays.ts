/** Replays of rejected events, for tests over HTTP. */
import { expect } from 'vitest'
import type { Source } from '../util/senders.ts'
import type { Graphql, TestServer } from '../util/server.ts'

/** A column of a source. */
export const column = (name: string, type: string, nullable = false, more = {}) => ({
  ...{ name, jsonProperty: name, type, nullable },
  ...more,
})

export interface Replay {
  readonly id: string
  readonly status: string
  readonly total: number
  readonly accepted: number
  readonly refused: number
  readonly truncated: number
  readonly firstRefusal: string | null
  readonly error: { readonly message: string } | null
}

const STATE = 'id status progress total accepted refused truncated firstRefusal error { message }'

export async function ask<T>(graphql: Graphql, query: string, variables: object): Promise<T> {
  const { data, errors } = await graphql(query, variables)
  if (errors !== undefined) throw new Error(errors[0]?.message)
  return data as T
}

export async function replay(graphql: Graphql, input: object): Promise<string> {
  const { createReplayRejectedEventsJob } = await ask<{
    createReplayRejectedEventsJob: { job: { id: string } }
  }>(
    graphql,
    'mutation ($input: CreateReplayRejectedEventsJobInput!) { createReplayRejectedEventsJob(input: $input) { job { id } } }',
    { input },
  )
  return createReplayRejectedEventsJob.job.id
}

export async function stateOf(graphql: Graphql, id: string): Promise<Replay> {
  const query = `query ($id: ID!) { replayRejectedEventsJob(id: $id) { ${STATE} } }`
  return (await ask<{ replayRejectedEventsJob: Replay }>(graphql, query, { id })).replayRejectedEventsJob
}

export async function ended(graphql: Graphql, id: string): Promise<Replay> {
  await expect
    .poll(async () => (await stateOf(graphql, id)).status, { timeout: 120_000, interval: 50 })
    .toMatch(/SUCCEEDED|FAILED/)
  return await stateOf(graphql, id)
}

export const replayed = async (graphql: Graphql, input: object) =>
  ended(graphql, await replay(graphql, input))

/** Rows of the pool of rejected events that a pool has, once there are so many. */
export async function untilRejected(server: TestServer, { poolId }: Source, rows: number): Promise<void> {
  const query = `query ($filters: [FilterInput!]) { counter(input: {
    metric: { count: { dataPool: { name: "weir_rejected_events" } } }, filters: $filters }) { value } }`
  const filters = [{ column: 'data_pool_id', operator: 'EQUALS', value: poolId }]
  const count = async () =>
    Number((await ask<{ counter: { value: string } }>(server.graphql, query, { filters })).counter.value)
  await expect.poll(count, { timeout: 30_000, interval: 20 }).toBe(rows)
}

export async function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<number> {
  const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  const answer = await fetch(url, {
    method: 'POST',
    body: text as string,
    headers: { 'content-type': 'application/json', ...headers },
  })
  await answer.arrayBuffer()
  return answer.status
}
