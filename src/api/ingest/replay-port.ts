/**
 * The way of rejected events into their pool again (jobs/replay-rejected.ts): the ordinary way of
 * requests, without their head. Signatures and credentials were checked when they came.
 */
import type { Catalog } from '../../catalog/catalog.ts'
import type { Pool } from '../../catalog/documents/model.ts'
import type { ReplayedRequest } from '../../jobs/replay-pages.ts'
import type { RefusedRequest, ReplayPort } from '../../jobs/replay-rejected.ts'
import type { BodyFormat } from '../../parse/sender/body-format.ts'
import { Unavailable } from '../../util/errors.ts'
import type { ApiDeps, IngestTarget } from '../api-types.ts'
import type { Admission } from './admission.ts'
import type { Ingest } from './ingest.ts'
import { type Answer, answerRefusal } from './ingest-answer.ts'
import { formatOf } from './sender.ts'

interface PortDeps {
  readonly catalog: Pick<Catalog, 'read'>
  readonly api: Pick<ApiDeps, 'target' | 'rejectedTarget' | 'health'>
  readonly ingest: Pick<Ingest, 'post'>
}

export function replayPort(deps: PortDeps): ReplayPort {
  return {
    reserve: (pool, events) => ofPool(pool, deps).received.reserve(events),
    async post(pool, request, reservedUs) {
      const target = ofPool(pool, deps)
      const { events, whole, contentType } = request
      // A body is read as it came, by what the source accepts now.
      const format = whole === 'body' ? formatOf(contentType ?? '', 'post', target.sender) : 'JSON'
      if (typeof format !== 'string') return refusedRequest(answerRefusal({ ...format, status: 400 }))
      const texts = events.map(({ text }) => text).join()
      const body = Buffer.from(whole === 'body' ? texts : `[${texts}]`)
      return refusedRequest(await give({ ...admissionOf(request, format, target), reservedUs }, body, deps))
    },
    async remove(ids) {
      if (ids.length === 0) return
      const body = Buffer.from(JSON.stringify(ids.map(id => ({ id }))))
      const { refusal } = await give(ofRejected(deps), body, deps)
      if (refusal !== undefined) throw new Unavailable(refusal.code, refusal.message)
    },
  }
}

function admissionOf({ whole, context }: ReplayedRequest, format: BodyFormat, target: IngestTarget) {
  const { sender } = target
  const reads = sender?.readsRequest === true
  const isPlain = format === 'JSON' && !(whole === 'body' && sender?.wrapsEvents === true)
  return {
    ...({ target, kind: 'post', allOrNothing: true, minimal: false, cors: false } as const),
    ...(reads ? { context: new TextEncoder().encode(context ?? '{}') } : {}),
    ...(isPlain ? {} : { received: { format, encoding: 'identity' } as const }),
  }
}

function give(
  admission: Omit<Admission, 'declaredBytes'>,
  body: Uint8Array,
  { api, ingest }: PortDeps,
): Promise<Answer> {
  const { refuse } = api.health()
  if (refuse !== undefined) throw new Unavailable(refuse.code, refuse.message)
  return new Promise(resolve => {
    ingest.post(admission, body, { sequenced: () => {}, answered: resolve })
  })
}

function ofPool(pool: Pool, { catalog, api }: PortDeps): IngestTarget {
  const webhookId = catalog.read.webhookIdOf(pool)
  const target = webhookId === undefined ? undefined : api.target(webhookId)
  if (target === undefined) throw new Unavailable('pool_deleted', 'the Data Pool was deleted')
  return target
}

function ofRejected({ api }: PortDeps) {
  const target = api.rejectedTarget()
  if (target === undefined) throw new Unavailable('no_pool', 'the Data Pool of rejected events is not there')
  return { target, kind: 'delete', allOrNothing: false, minimal: false, cors: false } as const
}

/** @throws Unavailable where nothing was decided about the events */
function refusedRequest({ refusal }: Answer): RefusedRequest | undefined {
  if (refusal === undefined) return undefined
  if (refusal.status !== 400 && refusal.status !== 413) throw new Unavailable(refusal.code, refusal.message)
  return { refusal, events: new Map((refusal.events ?? []).map(event => [event.index, event])) }
}
