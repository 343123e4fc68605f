/** What `/readyz` says, and whether ingest is refused: one state, kept as things happen. */
import type { Health } from './api/protocol.ts'
import type { LogState } from './commit/protocol.ts'

/** What health is made of; asked for with every request. */
export interface HealthState {
  stopping: boolean
  log: LogState
  /** Why the catalog takes no changes until restart; events are taken all the same. */
  readonly catalogRefusal: () => string | undefined
}

/** What `/readyz` says, and whether ingest is refused. */
export function healthOf({ stopping, log: state, catalogRefusal }: HealthState): Health {
  if (stopping || state === 'stopped') return refusing('stopping', 'the server is stopping')
  if (state === 'poisoned')
    return refusing('log_refused', 'the log refuses writes after a failed one; restart Weir')
  if (state === 'disk_full') return refusing('disk_full', 'the disk is full')
  const why = catalogRefusal()
  return why === undefined ? { ready: true } : { ready: false, why }
}

function refusing(code: string, message: string): Health {
  return { ready: false, why: message, refuse: { code, message } }
}
