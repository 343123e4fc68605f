/** The columns of a source, and a further one. */
import { useState } from 'preact/hooks'
import type { Source } from '../client/sources.ts'
import { Empty } from '../ui/parts.tsx'
import { Table } from '../ui/table.tsx'
import { AddColumn } from './add-column.tsx'

export function Columns({ source, onChange }: { source: Source; onChange: () => void }) {
  const [isAdding, setIsAdding] = useState(false)
  const { columns, timestamp, uniqueId } = source.connectionSettings
  const [pool] = source.dataPools.nodes
  const roleOf = (name: string) =>
    [name === uniqueId && 'unique id', name === timestamp && 'primary timestamp'].filter(Boolean).join(', ')
  return (
    <>
      {columns && columns.length > 0 ? (
        <Table
          label="Columns"
          rows={columns}
          keyOf={column => column.name}
          columns={[
            { title: 'Column', isHead: true, cell: column => column.name },
            { title: 'Property', cell: column => <code>{column.jsonProperty}</code> },
            { title: 'Type', cell: column => column.type },
            { title: 'Required', cell: column => (column.nullable ? 'no' : 'yes') },
            { title: 'Takes texts too', cell: column => (column.coerce ? 'yes' : 'no') },
            { title: 'Key', cell: column => roleOf(column.name) },
          ]}
        />
      ) : (
        <Empty title="No columns yet">
          <p>
            Every record keeps its whole event. A column makes a property of it fast to filter and to sum.
          </p>
        </Empty>
      )}
      {pool !== undefined && (
        <div class="actions">
          <button type="button" onClick={() => setIsAdding(true)}>
            Add a column
          </button>
        </div>
      )}
      {isAdding && pool !== undefined && (
        <AddColumn
          poolId={pool.id}
          wanted={{ jsonProperty: '', type: 'STRING' }}
          onClose={() => setIsAdding(false)}
          onDone={() => {
            setIsAdding(false)
            onChange()
          }}
        />
      )}
    </>
  )
}
