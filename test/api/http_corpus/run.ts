/** Sends the bytes of one case to a front end in this process, and tells the outcome. */
import { ask, Raw } from '../client.ts'
import type { Fake } from '../fake.ts'

/**
 * The outcome of a case: the statuses in order, whether the server closed the connection, and how
 * many events it stored.
 */
export interface Outcome {
  readonly statuses: readonly number[]
  readonly closed: boolean
  readonly stored: number
}

export interface Case {
  readonly name: string
  /** Pieces, sent one after the other as Latin-1. `@200` waits for the first answer. */
  readonly send: readonly string[]
  /** The row of the table in docs/http.md that says why the outcomes differ. */
  readonly row?: string
  /** Over both front ends, or over each. */
  readonly expect: Outcome | { readonly uws: Outcome; readonly node: Outcome }
}

/** Between two pieces. */
const PIECE_MS = 15
/**
 * Turns of the event loop between two pieces, however long each takes: the server accepts in one
 * and reads in the next.
 */
const PIECE_TURNS = 4

/** Sends the pieces of a case. Returns its outcome once `isDone`, or after `patienceMs`. */
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
      await Promise.race([
        raw.until(one => one.received.includes('\r\n\r\n')).catch(() => {}),
        moment(patienceMs),
      ])
    else if (!raw.closed) raw.write(Buffer.from(piece, 'latin1'))
    if (index + 1 < send.length && piece !== '@200') await pieceIsRead()
  }
  const outcome = (): Outcome => ({
    statuses: [...raw.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(match => Number(match[1])),
    closed: raw.closed,
    stored: fake.logged.length - before,
  })
  const end = performance.now() + patienceMs
  while (performance.now() < end && !isDone(outcome())) await moment(5)
  // An answer or an event too many is there by the time that a later request is answered.
  await ask(port, '/livez', { method: 'GET' })
  await pieceIsRead()
  const result = { ...outcome(), bodies: fake.logged.slice(before).map(one => one.body) }
  raw.socket.destroy()
  return result
}

/**
 * Waits until the server has read the piece before, which no event announces. The server runs in
 * this process.
 */
async function pieceIsRead(): Promise<void> {
  await moment(PIECE_MS)
  for (let turn = 0; turn < PIECE_TURNS; turn += 1) await new Promise(resolve => setImmediate(resolve))
}

function moment(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms)
  })
}
