/**
 * Secrets that senders hand over, as Asana does, in the time that an operator gave with
 * `weir sources handshake`.
 */
import { refuse } from '../api/problem.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { keepHandedSecret } from '../catalog/change/change-source.ts'
import { AccessEnded } from '../util/errors.ts'
import { sayAudit } from '../util/say.ts'

const TAKEN = refuse(
  401,
  'signature_missing',
  'another request has handed over the secret of this data source',
)

/**
 * Makes the secret one of the source's. Resolves when it is synced. Rejects with Unavailable, and
 * with AccessEnded where another node took one meanwhile: the window ends with the first.
 * @param secret null where the handshake brings none
 */
export async function keepSecret(catalog: Catalog, webhookId: string, secret: string | null): Promise<void> {
  const source = catalog.byWebhookId(webhookId)?.source
  if (source === undefined || secret === null) return
  const entry = { mutation: 'keepHandedSecret', applicationId: 'system', object: source.id }
  try {
    const kept = await catalog.takeHandshake(source.id, keepHandedSecret(source.id, secret, 'system'))
    if (kept === undefined) throw new AccessEnded(TAKEN)
    sayAudit({ ...entry, outcome: kept === null ? 'absent' : 'done' })
  } catch (error) {
    sayAudit({ ...entry, outcome: error instanceof AccessEnded ? TAKEN.code : 'UNAVAILABLE' })
    throw error
  }
}
