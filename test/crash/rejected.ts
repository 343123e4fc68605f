/**
 * The pool of rejected events under kills. A kill may lose its rows of the last moments, but each
 * row is a true rejection: an event that a client sent, that no answer accepted, kept once.
 */
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import { must } from '../../src/util/errors.ts'
import type { CrossRow } from '../util/cross-read.ts'
import { ask, Violation } from './client.ts'
import type { ClientState } from './client-state.ts'
import type { Target } from './requests.ts'

/** Finds the pool, which the first start has made. Throws ConnectionLost or Violation. */
export async function findRejectedPool(state: ClientState, { base, token }: Target): Promise<void> {
  const { data } = await ask(base, token, `{ dataPoolByName(uniqueName: "${REJECTED_EVENTS}") { id } }`)
  const found = data?.['dataPoolByName'] as { readonly id: string } | null | undefined
  if (found === null || found === undefined) throw new Violation('the pool of rejected events is not there')
  const known = state.rejectedPoolId ?? found.id
  if (found.id !== known) throw new Violation(`two pools of rejected events: ${known} and ${found.id}`)
  state.rejectedPoolId = found.id
}

/** Compares the rows of the pool with what clients sent. Throws Violation. */
export function checkRejected(state: ClientState, rows: readonly CrossRow[]): void {
  const ids = new Set<string | null>()
  const stamps = new Set<string>()
  for (const row of rows) {
    const stamp = String(eventOf(row)['stamp'])
    const wrong = problemOf(state, row, stamp) ?? (stamps.has(stamp) ? 'the event is there twice' : undefined)
    if (wrong !== undefined || ids.has(row['id']!))
      throw new Violation(`rejected events: ${wrong ?? 'an id is there twice'}: ${JSON.stringify(row)}`)
    ids.add(row['id']!)
    stamps.add(stamp)
  }
  state.tally.rejected += rows.length
}

function eventOf(row: CrossRow): Record<string, unknown> {
  return JSON.parse(must(row['text'] ?? undefined, 'the text of an event')) as Record<string, unknown>
}

function problemOf(state: ClientState, row: CrossRow, stamp: string): string | undefined {
  const sent = state.refused.get(stamp)
  if (sent === undefined) return 'no client sent this event in a request that refuses it'
  if (row['data_pool_id'] !== sent.poolId) return `it was sent to ${sent.poolId}`
  const code = Number.isNaN(Number(stamp)) ? 'wrong_type' : 'refused_with_others'
  if (row['code'] !== code) return `its code is ${code}`
  // The values of a form are texts.
  return sent.event === row['text'] || sent.isForm ? undefined : `it was sent as ${sent.event}`
}
