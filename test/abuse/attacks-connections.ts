/**
 * Attacks with connections: more than there are descriptors, and requests that are pipelined
 * endlessly.
 */
import { head } from '../api/client.ts'
import { type Attack, type Attacker, keepBusy, pauseOf } from './attack.ts'

const counter = 'query ($input: CounterInput!) { counter(input: $input) { value } }'

/** The log takes new files of 4 MiB, the query process starts: both need descriptors. */
const tight = { descriptorsMax: 300, args: ['--log-file-bytes', String(4 * 1024 * 1024)] }

/** Another client, over its kept-alive connection. */
const probe: Attack['probe'] = async ({ server, pool }) => {
  const input = { metric: { count: { dataPool: { id: pool.poolId } } } }
  const { data, errors } = await server.graphql<{ counter: { value: string } }>(counter, { input })
  if (errors !== undefined || data.counter.value === undefined)
    throw new Error(`a counter says ${errors?.[0]?.message}`)
}

/** Fewer than HTTP_PIPELINED_MAX. */
const PIPELINED = 60

/**
 * Resolves after so many answers, or when the connection is closed. A piece may end inside a status
 * line.
 */
function answersOf(attacker: Attacker, count: number): Promise<void> {
  let text = ''
  return new Promise(resolve => {
    const listen = (data: Buffer) => {
      text += data.toString('latin1')
      if (text.split('HTTP/1.1 ').length <= count) return
      attacker.socket.off('data', listen)
      resolve()
    }
    attacker.socket.on('data', listen)
    void attacker.closed.then(resolve)
  })
}

export const CONNECTION_ATTACKS: readonly Attack[] = [
  {
    name: 'refused requests, 60 pipelined at a time',
    run: target =>
      keepBusy(target, 8, async attacker => {
        const burst = `PUT ${target.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1`.repeat(PIPELINED)
        while (!target.isOver() && !attacker.isClosed) {
          const answered = answersOf(attacker, PIPELINED)
          await attacker.write(burst)
          await Promise.race([answered, target.over])
        }
      }),
  },
  {
    ...tight,
    name: '1,000 idle connections, 300 descriptors',
    probe,
    run: target =>
      keepBusy(target, 1_000, async attacker => {
        await Promise.race([target.over, attacker.closed])
        await pauseOf(target, 200)
      }),
  },
  {
    ...tight,
    name: '1,000 slow heads, 300 descriptors',
    probe,
    run: target =>
      keepBusy(target, 1_000, async attacker => {
        await attacker.write(head(target.path).slice(0, 20))
        while (!target.isOver() && !attacker.isClosed) {
          await Promise.race([pauseOf(target, 1_000), attacker.closed])
          await attacker.write('x')
        }
        await pauseOf(target, 200)
      }),
  },
]
