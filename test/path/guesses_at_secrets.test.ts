/**
 * Guesses over HTTP, in a closed loop on many connections: few are answered, and clients with
 * the right secret are served beside them.
 */
import { Agent } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GUESSES_WAITING_MAX } from '../../src/util/limits.ts'
import { ask } from '../api/client.ts'
import { fetchToken, startServer, type TestServer } from '../util/server.ts'
import { column, pathOf, portOf } from './client.ts'

const CONNECTIONS = 16
const SECONDS = 3
/** The most answers for one address and application, or webhook. */
const AT_ONCE = 10

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/**
 * Sends guesses while `honest` runs and SECONDS pass. Returns how many were answered with each
 * status.
 */
async function guessWhile(
  one: (agent: Agent, index: number) => Promise<{ readonly status: number }>,
  honest: () => Promise<void>,
  connections = CONNECTIONS,
): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const answers = new Map<number, number>()
  let isOver = false
  const guess = async () => {
    for (let index = 0; !isOver; index += 1) {
      const { status } = await one(agent, index)
      answers.set(status, (answers.get(status) ?? 0) + 1)
    }
  }
  const guessing = Promise.all(Array.from({ length: connections }, guess))
  const time = new Promise(resolve => setTimeout(resolve, SECONDS * 1000))
  try {
    await Promise.all([honest(), time])
  } finally {
    isOver = true
    await guessing
    agent.destroy()
  }
  return answers
}

test('at an application’s secret, over the form and over Basic', async () => {
  const { clientId } = await adminOf()
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const answers = await guessWhile(
    (agent, index) => {
      if (index % 2 === 0)
        return ask(portOf(server), '/oauth2/token', {
          agent,
          headers: form,
          body: `grant_type=client_credentials&client_id=${clientId}&client_secret=guess-${index}-and-more`,
        })
      const basic = Buffer.from(`${clientId}:guess-${index}`).toString('base64')
      return ask(portOf(server), '/graphql', {
        agent,
        headers: { authorization: `Basic ${basic}` },
        body: '{}',
      })
    },
    async () => {
      const begin = performance.now()
      await fetchToken(server.base, server.dataDir) // throws where it is refused
      expect(performance.now() - begin).toBeLessThan(10_000)
    },
  )
  const checked = answers.get(401) ?? 0
  expect(checked).toBeGreaterThanOrEqual(AT_ONCE)
  // Ten a second, and those that waited at the end. Without the limit it was 560 to 1,200 a second.
  expect(checked).toBeLessThanOrEqual(AT_ONCE + 10 * (SECONDS + 8) + CONNECTIONS)
})

test('over imports, on more connections than guesses may wait', async () => {
  const { poolId } = await server.createPool({ columns: [column('id', 'STRING')] })
  const path = `/v1/pools/${poolId}/import?format=ndjson`
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const answers = await guessWhile(
    (agent, index) => {
      const guess = Buffer.from(`APP${index % 3}:guess-${index}`).toString('base64')
      return ask(portOf(server), path, { agent, headers: { authorization: `Basic ${guess}` }, body: '{}' })
    },
    async () => {
      for (let count = 0; count < 20; count += 1)
        expect((await ask(portOf(server), path, { headers: { authorization }, body: '{}' })).status).toBe(200)
    },
    2 * GUESSES_WAITING_MAX,
  )
  expect([...answers.keys()].sort()).toEqual([401, 429])
})

test('at a webhook’s credentials', async () => {
  const basicAuth = { username: 'user', password: 'the right one' }
  const pool = await server.createPool({ columns: [column('id', 'STRING')], basicAuth })
  const post = (agent: Agent | undefined, password: string) =>
    ask(portOf(server), pathOf(pool), {
      ...(agent === undefined ? {} : { agent }),
      headers: {
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from(`user:${password}`).toString('base64')}`,
      },
      body: '{"id":"x"}',
    })
  const answers = await guessWhile(
    (agent, index) => post(agent, `guess ${index}`),
    async () => {
      for (let count = 0; count < 50; count += 1)
        expect((await post(undefined, basicAuth.password)).status).toBe(200)
    },
  )
  expect([...answers.keys()]).toEqual([401])
  expect(answers.get(401)).toBeGreaterThanOrEqual(AT_ONCE)
  expect(answers.get(401)).toBeLessThanOrEqual(AT_ONCE + CONNECTIONS * (SECONDS + 3))
})

async function adminOf(): Promise<{ readonly clientId: string }> {
  const token = await fetchToken(server.base, server.dataDir)
  const claims = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()
  return { clientId: (JSON.parse(claims) as { sub: string }).sub }
}
