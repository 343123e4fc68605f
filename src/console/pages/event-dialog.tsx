/** One event: its columns, and its payload as a tree. */
import { useState } from 'preact/hooks'
import type { Pool } from '../client/pools.ts'
import { PAYLOAD } from '../model/columns.ts'
import { Dialog } from '../ui/dialog.tsx'
import { JsonTree } from '../ui/json-tree.tsx'
import { Copy, Time } from '../ui/parts.tsx'
import { AddColumn, typeOf, type Wanted } from './add-column.tsx'
import { useIsAdmin } from './who.ts'

export function EventDialog({
  pool,
  names,
  row,
  onClose,
  onColumns,
}: {
  pool: Pool
  names: readonly string[]
  row: readonly (string | null)[]
  onClose: () => void
  /** The pool has a new column. */
  onColumns: () => void
}) {
  const [wanted, setWanted] = useState<Wanted>()
  const isAdmin = useIsAdmin()
  const types = new Map(pool.columns.nodes.map(({ columnName, type }) => [columnName, type]))
  const payload = row[names.indexOf(PAYLOAD)] ?? null
  const values = names.flatMap((name, at) => (name === PAYLOAD ? [] : [[name, row[at] ?? null] as const]))
  const asObject = JSON.stringify(Object.fromEntries(names.map((name, at) => [name, row[at] ?? null])))
  if (wanted !== undefined)
    return (
      <AddColumn
        poolId={pool.id}
        wanted={wanted}
        onClose={() => setWanted(undefined)}
        onDone={() => {
          setWanted(undefined)
          onColumns()
        }}
      />
    )
  return (
    <Dialog title="Event" onClose={onClose}>
      <dl class="pairs">
        {values.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {value === null && <span class="null">null</span>}
              {value !== null && types.get(name) === 'TIMESTAMP' ? <Time iso={value} /> : value}
            </dd>
          </div>
        ))}
      </dl>
      <div class="actions">
        <Copy text={asObject} label="Copy columns" />
      </div>
      {payload !== null && (
        <JsonTree
          text={payload}
          onProperty={
            pool.isBuiltIn || !isAdmin
              ? undefined
              : (path, value) => setWanted({ jsonProperty: path, type: typeOf(value) })
          }
        />
      )}
    </Dialog>
  )
}
