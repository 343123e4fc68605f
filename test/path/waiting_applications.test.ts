/** An application that waits for its own queries is seen on /metrics, by its unique name. */
import { afterAll, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { removeLeftovers, startServer } from '../util/server.ts'

afterAll(removeLeftovers)

/** A count of all rows would not wait: it reads none. */
const DISTINCT =
  'countDistinct: { dataPool: { name: "events" }, dimension: { columnName: "_service_received_at" } }'

test('queries of a small application wait for each other, and /metrics says whose', async () => {
  const server = await startServer()
  const create = ['applications', 'create', 'small "one"', '--scopes', 'data_pool:query', '--json']
  const made = await weir([...create, '--data-dir', server.dataDir, '--url', server.base])
  const [{ id, secret }] = JSON.parse(made.out) as [{ readonly id: string; readonly secret: string }]
  const authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  const counters = Array.from(
    { length: 20 },
    (_, i) => `c${i}: counter(input: { metric: { ${DISTINCT} } }) { value }`,
  )
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ query: `{ ${counters.join('\n')} }` }),
  })
  const { data } = (await answer.json()) as { readonly data: Record<string, { readonly value: string }> }
  expect(Object.values(data).map(({ value }) => value)).toEqual(Array.from({ length: 20 }, () => '0'))
  const page = await (await fetch(`${server.base}/metrics`)).text()
  const seconds = /^weir_application_query_wait_seconds_total\{application="small \\"one\\""\} (\S+)$/m.exec(
    page,
  )
  expect(Number(seconds?.[1])).toBeGreaterThan(0)
  expect(page).not.toContain(`application="${id}"`)
  await server.stop()
})
