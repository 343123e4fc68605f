/**
 * Secrets that senders hand over, as Asana does, in the time that an operator gave with
 * `weir sources handshake`.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { keepHandedSecret } from '../catalog/change/change-source.ts'
import { sayAudit } from '../util/say.ts'

/**
 * Makes the secret one of the source's. Resolves when it is synced. Rejects with Unavailable. The
 * window ends at once, so that nobody hands over a second secret meanwhile.
 * @param secret null where the handshake brings none
 */
export async function keepSecret(catalog: Catalog, webhookId: string, secret: string | null): Promise<void> {
  const source = catalog.byWebhookId(webhookId)?.source
  if (source === undefined || secret === null) return
  catalog.endHandshake(source.id)
  const entry = { mutation: 'keepHandedSecret', applicationId: 'system', object: source.id }
  try {
    const kept = await catalog.change(keepHandedSecret(source.id, secret, 'system'))
    sayAudit({ ...entry, outcome: kept === null ? 'absent' : 'done' })
  } catch (error) {
    sayAudit({ ...entry, outcome: 'UNAVAILABLE' })
    throw error
  }
}
