/** The newest events of a reason: what the sender was told, and the place that is to blame. */
import { useState } from 'preact/hooks'
import { loadRejected, type Reason, type RejectedEvent, reasonSql } from '../client/rejected.ts'
import { loadSourceOf } from '../client/sources.ts'
import { JsonTree } from '../ui/json-tree.tsx'
import { useLoad } from '../ui/load.ts'
import { Code, Note, Show, Time } from '../ui/parts.tsx'
import { AddColumn, typeOf, type Wanted } from './add-column.tsx'
import type { Where } from './rejected.tsx'
import { useIsAdmin } from './who.ts'

/** Events of one reason are alike. */
const SHOWN = 20

/** The properties by column; empty where the application may not read the pool's source. */
async function loadProperties(poolId: string, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  try {
    const source = await loadSourceOf(poolId, signal)
    return new Map(
      (source.connectionSettings.columns ?? []).map(column => [column.name, column.jsonProperty]),
    )
  } catch {
    return new Map() // the pool was deleted, or the application reads events only
  }
}

export function RejectedEvents({ where, reason }: { where: Where; reason: Reason }) {
  const sql = reasonSql(reason)
  const loaded = useLoad(`rejected ${sql}`, signal => loadRejected(where.rejected, sql, SHOWN, signal))
  const { data: properties } = useLoad(`properties ${reason.poolId}`, signal =>
    loadProperties(reason.poolId, signal),
  )
  const [wanted, setWanted] = useState<Wanted>()
  const marked = reason.column === null ? undefined : (properties?.get(reason.column) ?? reason.column)
  const isLiving = where.names.has(reason.poolId)
  const isAdmin = useIsAdmin()
  return (
    <>
      <Show from={loaded}>
        {events => (
          <ol class="events">
            {events.map((event, at) => (
              <li key={event.id}>
                <Event
                  event={event}
                  marked={marked}
                  isOpen={at === 0}
                  onProperty={
                    isLiving && isAdmin
                      ? (path, value) => setWanted({ jsonProperty: path, type: typeOf(value) })
                      : undefined
                  }
                />
              </li>
            ))}
          </ol>
        )}
      </Show>
      {wanted !== undefined && (
        <AddColumn
          poolId={reason.poolId}
          wanted={wanted}
          onClose={() => setWanted(undefined)}
          onDone={() => setWanted(undefined)}
        />
      )}
    </>
  )
}

function Event({
  event,
  marked,
  isOpen,
  onProperty,
}: {
  event: RejectedEvent
  marked: string | undefined
  isOpen: boolean
  onProperty: ((path: string, value: unknown) => void) | undefined
}) {
  const { text, message, receivedAt, elementIndex, isTruncated, contentType, context } = event
  return (
    <details open={isOpen}>
      <summary>
        <Time iso={receivedAt ?? ''} /> {message}
      </summary>
      <p class="hint">
        {elementIndex === null
          ? 'The request was refused as a whole.'
          : `Event ${elementIndex} of its request.`}{' '}
        {contentType ?? ''}
      </p>
      {isTruncated === 'true' && <Note>Only its beginning is kept, so it cannot be taken in again.</Note>}
      {text === null ? (
        <p class="hint">Its text was not read.</p>
      ) : (
        <JsonTree text={text} marked={marked} onProperty={onProperty} />
      )}
      {context !== null && <Code label="Headers, parameters and path that columns read" text={context} />}
    </details>
  )
}
