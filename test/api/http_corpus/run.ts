/** Sends the bytes of one case to a front end, and tells what came of it. */
import { ask, Raw } from '../client.ts'
import type { Fake } from '../fake.ts'

/** What came of a case: the statuses in order, whether the server closed the connection, and how many events it stored. */
export interface Outcome {
  readonly statuses: readonly number[]
  readonly closed: boolean
  readonly stored: number
}

export interface Case {
  readonly name: string
  /** Sent one after the other, each as Latin-1; `@200` waits for the first answer in place of a moment. */
  readonly send: readonly string[]
  /** The row of the table in docs/http.md that says why the outcomes differ. */
  readonly row?: string
  /** Over both front ends, or over each. */
  readonly expect: Outcome | { readonly uws: Outcome; readonly node: Outcome }
}

/** Between two pieces: nothing tells that the server has read one. */
const PIECE_MS = 15

/** What of the bytes sent came back, looked at until `isDone` or for at most `patienceMs`. */
export async function runCase(
  fake: Fake,
  port: number,
  { send }: Pick<Case, 'send'>,
  isDone: (outcome: Outcome) => boolean,
  patienceMs: number,
): Promise<Outcome & { readonly bodies: readonly string[] }> {
  const before = fake.logged.length
  const raw = await Raw.open(port)
  for (const [index, piece] of send.entries()) {
    if (piece === '@200')
      await Promise.race([raw.until(one => one.received.includes('\r\n\r\n')).catch(() => {}), moment(500)])
    else if (!raw.closed) raw.write(Buffer.from(piece, 'latin1'))
    if (index + 1 < send.length && piece !== '@200') await moment(PIECE_MS)
  }
  const outcome = (): Outcome => ({
    statuses: [...raw.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(match => Number(match[1])),
    closed: raw.closed,
    stored: fake.logged.length - before,
  })
  const end = performance.now() + patienceMs
  while (performance.now() < end && !isDone(outcome())) await moment(5)
  // What comes too much, or comes where nothing is to come, is there when a request sent later is answered.
  await ask(port, '/livez', { method: 'GET' })
  await moment(PIECE_MS)
  const result = { ...outcome(), bodies: fake.logged.slice(before).map(one => one.body) }
  raw.socket.destroy()
  return result
}

function moment(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms)
  })
}
