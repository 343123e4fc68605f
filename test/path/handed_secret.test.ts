/**
 * Asana hands its secret over in its first request: it is taken only in the time that an operator
 * gave, once, and signs every request from then on.
 */
import { createHmac } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { EXAMPLES } from '../catalog/preset-examples.ts'
import { STORE } from '../util/cluster-node.ts'
import { createSource, type Source } from '../util/senders.ts'
import { fetchToken, removeLeftovers, startServer, type TestServer } from '../util/server.ts'

afterAll(removeLeftovers)

const FIRST = 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81'
const SECOND = 'an-attacker-may-choose-any-secret-of-his-own-for-this-webhook-00'

async function hand(source: Source, secret: string) {
  const answer = await fetch(source.url, { method: 'POST', headers: { 'x-hook-secret': secret } })
  await answer.text()
  return [answer.status, answer.headers.get('x-hook-secret')]
}

async function postEvent(source: Source, signature: Record<string, string> = {}): Promise<number> {
  const headers = { 'content-type': 'application/json', ...signature }
  const answer = await fetch(source.url, { method: 'POST', headers, body: BODY })
  await answer.text()
  return answer.status
}

const BODY = JSON.stringify(EXAMPLES.ASANA[0]?.body)
const signedBy = (secret: string) => ({
  'x-hook-signature': createHmac('sha256', secret).update(BODY).digest('hex'),
})

async function openHandshake(server: TestServer, { sourceId }: Source): Promise<number> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/admin/sources`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ action: 'handshake', source: sourceId }),
  })
  await answer.text()
  return answer.status
}

test.each(['uws', 'node'])('over %s', async http => {
  let server = await startServer({ args: ['--http', http] })
  const settings = { preset: 'ASANA', signatureEnabled: false }
  const source = await createSource(server.graphql, settings)
  expect((await hand(source, FIRST))[1]).toBe(null) // nobody asked for it
  expect(await openHandshake(server, source)).toBe(200)
  expect(await hand(source, FIRST)).toEqual([200, FIRST])
  expect(await hand(source, SECOND)).toEqual([401, null])
  expect(await postEvent(source, signedBy(FIRST))).toBe(200)
  expect(await postEvent(source, signedBy(SECOND))).toBe(401)
  expect(await postEvent(source)).toBe(401)
  expect(await server.count(source.poolId)).not.toBe('0')

  // A restart ends the time, and keeps the secret. In a cluster the time is one of all nodes.
  if (STORE === 'local') expect(await openHandshake(server, source)).toBe(200)
  const { dataDir } = server
  await server.stop()
  server = await startServer({ dataDir, args: ['--http', http] })
  const again = { ...source, url: server.base + new URL(source.url).pathname }
  expect(await hand(again, SECOND)).toEqual([401, null])
  expect(await postEvent(again, signedBy(FIRST))).toBe(200)

  // A second webhook at the sender brings a secret of its own, and the first one stays valid.
  expect(await openHandshake(server, again)).toBe(200)
  expect(await hand(again, SECOND)).toEqual([200, SECOND])
  expect(await postEvent(again, signedBy(FIRST))).toBe(200)
  expect(await postEvent(again, signedBy(SECOND))).toBe(200)
})
