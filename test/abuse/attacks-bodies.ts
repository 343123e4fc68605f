/** Attacks with bodies: chunks of one byte, bodies that trickle, requests that are sent in part. */
import { head } from '../api/client.ts'
import { type Attack, type Attacker, keepBusy, pauseOf, type Target } from './attack.ts'

const CHUNKED = ['Content-Type: application/json', 'Transfer-Encoding: chunked']
/** Chunks of one byte each. */
const TINY_CHUNKS = '1\r\na\r\n'.repeat(10_000)

/** Chunks of one byte, as fast as the server takes them, to a path. */
function tinyChunks(name: string, connections: number, request: (target: Target) => string): Attack {
  const behave = (target: Target) => async (attacker: Attacker) => {
    await attacker.write(request(target))
    while (!target.isOver() && !attacker.isClosed) {
      await attacker.write(TINY_CHUNKS)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  return { name, run: target => keepBusy(target, connections, behave(target)) }
}

const tokenForm = ['Content-Type: application/x-www-form-urlencoded', 'Transfer-Encoding: chunked']

export const BODY_ATTACKS: readonly Attack[] = [
  tinyChunks('one-byte chunks to the token route', 12, () => head('/oauth2/token', tokenForm)),
  tinyChunks('one-byte chunks to GraphQL', 12, () => head('/graphql', CHUNKED)),
  tinyChunks('one-byte chunks to a webhook', 12, ({ path }) => head(path, CHUNKED)),
  tinyChunks('one-byte chunks to no path', 12, () => head('/nothing', CHUNKED)),
  tinyChunks('one-byte chunks with a wrong method', 12, ({ path }) => head(path, CHUNKED, 'PUT')),
  {
    name: 'bodies that trickle to one webhook',
    seconds: 8,
    run: target =>
      keepBusy(target, 200, async attacker => {
        await attacker.write(head(target.path, ['Content-Type: application/json', 'Content-Length: 1048000']))
        while (!target.isOver() && !attacker.isClosed) {
          await attacker.write(' ')
          await Promise.race([pauseOf(target, 500), attacker.closed])
        }
      }),
  },
  {
    name: 'half-sent control requests',
    run: target =>
      keepBusy(target, 300, async (attacker, index) => {
        const path = index % 2 === 0 ? '/oauth2/token' : '/graphql'
        await attacker.write(`${head(path, ['Content-Length: 1000'])}{`)
        await Promise.race([target.over, attacker.closed])
      }),
    probe: async ({ server }) => {
      const form = new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: 'a',
        client_secret: 'b',
      })
      const token = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body: form })
      if (token.status !== 401 && token.status !== 400)
        throw new Error(`the token route says ${token.status}`)
      const { errors } = await server.graphql('{ __typename }')
      if (errors !== undefined) throw new Error(`GraphQL says ${errors[0]?.message}`)
    },
  },
]
