/**
 * Beside a step of a tail: a policy that changes holds for what the step has read, and readers hear
 * from the server.
 */
import { expect, test } from 'vitest'
import { tailRoute } from '../../src/api/tail-route.ts'
import type { TailStep } from '../../src/query/tail.ts'
import { TailReader } from '../util/tail-reader.ts'
import { Fake, start } from './fake.ts'

interface Policy {
  readonly columns: readonly string[]
  readonly rows: readonly never[]
  readonly filterSql: string | null
}

/** A pool with access control, and a tail whose second step the test answers. */
async function reading(before: Policy | undefined) {
  let policy = before
  const pool = { id: 'DPO1', number: 1, accessControlEnabled: true }
  const caller = {
    applicationId: 'APP1',
    scopes: new Set(['data_pool:query']),
    policyValues: {},
    verifyAgain: () => {},
  }
  let stepped = () => {}
  const running = new Promise<void>(resolve => (stepped = resolve))
  let answer = (_: TailStep) => {}
  const nothing = { columns: ['id'], rows: [], missed: 0 }
  let steps = 0
  const step = async (): Promise<TailStep> => {
    steps += 1
    if (steps === 3) return { ...nothing, rows: [['last']] }
    if (steps !== 2) return nothing
    stepped()
    return await new Promise<TailStep>(resolve => (answer = resolve))
  }
  const pools = { get: () => pool, has: () => true, find: () => pool }
  const read = { pools, policyOf: () => policy, applications: new Map(), currentSchema: () => ({ pool: 1 }) }
  const deps = {
    catalog: { read },
    verify: async () => caller,
    openTail: () => ({ hasNews: () => true, step }),
  } as unknown as Parameters<typeof tailRoute>[0]
  const api = await start(new Fake(), {}, { routes: [tailRoute(deps)] })
  const reader = new TailReader(await fetch(`http://127.0.0.1:${api.port}/v1/pools/DPO1/tail`))
  await running
  return {
    api,
    reader,
    /** Rows are read, and the policy is another one before they are sent. */
    change(after: Policy | undefined) {
      policy = after
      answer({ ...nothing, rows: [['hidden']], missed: 3 })
    },
  }
}

const ALL: Policy = { columns: ['*'], rows: [], filterSql: null }

test('an application that may not read any more gets nothing that came since', async () => {
  const { api, reader, change } = await reading(ALL)
  change(undefined)
  await reader.untilClosed()
  expect([reader.rows, reader.missed, reader.ended?.code]).toEqual([[], 0, 'forbidden'])
  expect(await api.stop(1000)).toBe(true)
})

test('what another policy showed is not told', async () => {
  const { api, reader, change } = await reading(ALL)
  change({ ...ALL, filterSql: "id = 'last'" })
  await reader.until(() => reader.rows.length > 0)
  expect([reader.rows, reader.missed]).toEqual([[{ id: 'last' }], 0])
  expect(await api.stop(1000)).toBe(true)
})

test('what the same policy shows is', async () => {
  const { api, reader, change } = await reading(ALL)
  change({ ...ALL })
  await reader.until(() => reader.rows.length > 1)
  expect([reader.rows, reader.missed]).toEqual([[{ id: 'hidden' }, { id: 'last' }], 3])
  expect(await api.stop(1000)).toBe(true)
})

test('a step that takes long leaves its readers connected', async () => {
  const { api, reader, change } = await reading(ALL)
  await reader.until(() => reader.comments > 1)
  change({ ...ALL })
  await reader.until(() => reader.rows.length > 1)
  expect(await api.stop(1000)).toBe(true)
})
