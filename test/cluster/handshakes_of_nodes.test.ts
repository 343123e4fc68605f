/** A sender hands over its secret to whichever node its request comes to, and once only. */
import { describe, expect, test } from 'vitest'
import { keepSecret } from '../../src/app/server.ts'
import { createWebhookSource, modifySource } from '../../src/catalog/change/change-source.ts'
import { created } from '../catalog/folder.ts'
import { nodeOf } from './keeper-node.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

describe.skipIf(noZookeeper !== undefined)(`handshakes in a cluster ${noZookeeper ?? ''}`, () => {
  test('one hand-over is taken, by one of the nodes that it comes to at the same time', async () => {
    const { port } = await startZookeeper()
    const nodes = [await nodeOf(port), await nodeOf(port), await nodeOf(port)]
    const [one, two] = nodes.map(({ catalog }) => catalog)
    const asked = { uniqueName: 'a', preset: 'ASANA', signatureEnabled: false }
    const { source, pool } = created(await one!.change(createWebhookSource(asked, 'APP1')))
    const secrets = () => two!.read.sources.get(source.id)?.sender?.signature?.secrets
    const webhook = one!.read.webhookIdOf(pool)
    const before = secrets()
    const hand = (secret: string) =>
      Promise.allSettled(nodes.map(({ catalog }, n) => keepSecret(catalog, webhook!, `${secret} of ${n}`)))
    const codes = (outcomes: readonly PromiseSettledResult<void>[]) =>
      outcomes.map(each => (each.status === 'fulfilled' ? 'taken' : each.reason.refusal?.code)).sort()
    const refused = 'signature_missing'
    // Nobody asked, or it was too long ago.
    expect(codes(await hand('early'))).toEqual([refused, refused, refused])
    await two!.openHandshake(source.id, Date.now() - 1)
    expect(codes(await hand('late'))).toEqual([refused, refused, refused])
    expect(secrets()).toEqual(before)
    for (let round = 0; round < 5; round += 1) {
      const untilMs = Date.now() + 60_000
      await one!.openHandshake(source.id, untilMs)
      expect(nodes.map(({ catalog }) => catalog.handshakeUntilMs(source.id))).toEqual([
        untilMs,
        untilMs,
        untilMs,
      ])
      // Another change of the source leaves the time as it is.
      await two!.change(modifySource('WEBHOOK', { id: source.id }, { description: `round ${round}` }, 'APP1'))
      expect(codes(await hand(`secret ${round}`))).toEqual([refused, refused, 'taken'])
      expect(secrets()?.filter(secret => secret.startsWith(`secret ${round}`))).toHaveLength(1)
      expect(nodes.map(({ catalog }) => catalog.handshakeUntilMs(source.id))).toEqual([0, 0, 0])
    }
  })
})
