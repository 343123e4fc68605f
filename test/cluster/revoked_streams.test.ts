/** A node that lost Keeper ends what it sends: it cannot know whose access was ended meanwhile. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { send } from '../util/server.ts'
import { noModernCluster, startModernCluster } from './nodes.ts'
import { stoppableProxy } from './stoppable-proxy.ts'

vi.setConfig({ testTimeout: 300_000 })

/** More than sockets and the server hold of an answer. */
const [REQUESTS, EVENTS, BYTES] = [80, 40, 15_000]
const CREATE = `mutation ($input: createApplicationInput!) { createApplication(input: $input) {
  ... on ApplicationResponse { application { id clientId secret } } } }`

const noModern = noModernCluster()

describe.skipIf(noModern !== undefined)(`streams of a node ${noModern ?? ''}`, () => {
  test('end when the node lost Keeper and another one has deleted their application', async () => {
    const { settings, node } = await startModernCluster()
    const keeper = await stoppableProxy(Number(settings['WEIR_KEEPER']!.split(':')[1]))
    const [one, cut] = [await node(), await node([], { WEIR_KEEPER: `127.0.0.1:${keeper.port}` })]
    const { poolId, url } = await one.createPool({ uniqueName: 'large' })
    for (let request = 0; request < REQUESTS; request += 1) {
      const events = Array.from({ length: EVENTS }, () => ({ text: randomBytes(BYTES).toString('base64') }))
      expect((await send(url, events)).status).toBe(200)
    }
    const { data } = await one.graphql<{ createApplication: { application: Record<string, string> } }>(
      CREATE,
      { input: { uniqueName: 'reads', scopes: ['DATA_POOL_QUERY'] } },
    )
    const { id, clientId, secret } = data.createApplication.application
    const headers = { authorization: `Basic ${btoa(`${clientId}:${secret}`)}` }
    const streams: IncomingMessage[] = []
    // A stream of Arrow holds the test's ClickHouse, so it is the last one.
    for (const path of ['export?format=parquet', 'arrow']) {
      const asked = get(`${cut.base}/v1/pools/${poolId}/${path}`, { headers })
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      expect(answer.statusCode, path).toBe(200)
      await once(answer, 'readable')
      streams.push(answer)
    }
    keeper.stop()
    const { errors } = await one.graphql(`mutation { deleteApplication(id: "${id}") }`)
    expect(errors).toBeUndefined()
    for (const stream of streams) await expect(readAll(stream)).rejects.toMatchObject({ code: 'ECONNRESET' })
  })
})

async function readAll(answer: IncomingMessage): Promise<number> {
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) bytes += chunk.length
  return bytes
}
