/** The columns and the key of a new source, as a table that is edited. */
import type { SourceColumn } from '../client/sources.ts'
import { COLUMN_TYPES } from '../model/columns.ts'
import { Checkbox, type Option, Select, TextField } from '../ui/fields.tsx'
import { Table, type TableColumn } from '../ui/table.tsx'

export interface DraftColumn extends SourceColumn {
  /** Of this page only: rows keep their fields while names change. */
  readonly key: number
  readonly reason?: string
}

export interface Draft {
  readonly columns: readonly DraftColumn[]
  /** "" for none. */
  readonly uniqueId: string
  /** "" for the time at which events are received. */
  readonly timestamp: string
}

let lastKey = 0

export function draftColumn(column: Partial<Omit<DraftColumn, 'key'>>): DraftColumn {
  lastKey += 1
  return {
    key: lastKey,
    name: '',
    jsonProperty: '',
    type: 'STRING',
    nullable: true,
    coerce: false,
    ...column,
  }
}

const TYPE_OPTIONS = COLUMN_TYPES.map(type => ({ value: type, text: type }))

export function ColumnEditor({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  /** The key follows a column that gets another name. */
  const renamed = (from: string, to: string) => ({
    uniqueId: from !== '' && draft.uniqueId === from ? to : draft.uniqueId,
    timestamp: from !== '' && draft.timestamp === from ? to : draft.timestamp,
  })
  const change = ({ key, name }: DraftColumn, by: Partial<SourceColumn>) =>
    onChange({
      columns: draft.columns.map(one => (one.key === key ? { ...one, ...by } : one)),
      ...renamed(name, by.name ?? name),
    })
  const remove = ({ key, name }: DraftColumn) =>
    onChange({ columns: draft.columns.filter(one => one.key !== key), ...renamed(name, '') })
  const add = () => onChange({ ...draft, columns: [...draft.columns, draftColumn({})] })
  return (
    <>
      <Table
        label="Columns"
        rows={draft.columns}
        keyOf={column => String(column.key)}
        columns={[...textCells(change), ...choiceCells(change), ...endCells(remove)]}
      />
      <div class="actions">
        <button type="button" onClick={add}>
          Add a column
        </button>
      </div>
      <KeyFields draft={draft} onChange={onChange} />
    </>
  )
}

type Change = (column: DraftColumn, by: Partial<SourceColumn>) => void
type Cells = readonly TableColumn<DraftColumn>[]

function textCells(change: Change): Cells {
  return [
    {
      title: 'Column',
      cell: column => (
        <TextField
          label={`Name of column ${column.name}`}
          isLabelHidden
          value={column.name}
          onText={name => change(column, { name })}
          spellcheck={false}
          required
        />
      ),
    },
    {
      title: 'Property of the event',
      cell: column => (
        <TextField
          label={`Property of column ${column.name}`}
          isLabelHidden
          value={column.jsonProperty}
          onText={jsonProperty => change(column, { jsonProperty })}
          spellcheck={false}
          required
        />
      ),
    },
  ]
}

function choiceCells(change: Change): Cells {
  return [
    {
      title: 'Type',
      cell: column => (
        <Select
          label={`Type of column ${column.name}`}
          isLabelHidden
          value={column.type}
          options={TYPE_OPTIONS}
          onChoose={type => change(column, { type })}
        />
      ),
    },
    {
      title: 'Required',
      cell: column => (
        <Checkbox
          label={`${column.name} is required`}
          isLabelHidden
          isChecked={!column.nullable}
          onCheck={isRequired => change(column, { nullable: !isRequired })}
        />
      ),
    },
    {
      title: 'Takes texts too',
      cell: column => (
        <Checkbox
          label={`${column.name} takes texts that hold a value of its type`}
          isLabelHidden
          isChecked={column.coerce}
          disabled={column.type === 'STRING' || column.type === 'JSON'}
          onCheck={coerce => change(column, { coerce })}
        />
      ),
    },
  ]
}

function endCells(remove: (column: DraftColumn) => void): Cells {
  return [
    { title: 'Why', cell: column => <span class="hint">{column.reason ?? ''}</span> },
    {
      title: 'Remove',
      cell: column => (
        <button
          type="button"
          class="small"
          aria-label={`Remove column ${column.name}`}
          onClick={() => remove(column)}
        >
          Remove
        </button>
      ),
    },
  ]
}

function KeyFields({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const named = draft.columns.filter(({ name }) => name !== '')
  const times = named.filter(({ type }) => type === 'TIMESTAMP' || type === 'DATE')
  const options = (none: string, columns: readonly DraftColumn[]): Option[] => [
    { value: '', text: none },
    ...columns.map(({ name }) => ({ value: name, text: name })),
  ]
  return (
    <div class="row">
      <Select
        label="Unique id"
        hint="An event with the same id, and the same primary timestamp, replaces the one before."
        value={draft.uniqueId}
        options={options('None: every event is a record', named)}
        onChoose={uniqueId => onChange({ ...draft, uniqueId })}
      />
      <Select
        label="Primary timestamp"
        hint="The time that charts and time ranges use."
        value={draft.timestamp}
        options={options('The time at which it is received', times)}
        onChoose={timestamp => onChange({ ...draft, timestamp })}
      />
    </div>
  )
}
