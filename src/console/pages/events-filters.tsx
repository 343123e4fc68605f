/** Filters, time range and columns of the grid. */
import { useEffect, useState } from 'preact/hooks'
import type { PoolColumn } from '../client/pools.ts'
import { type Filter, OPERATORS, type Operator, takesValue } from '../model/columns.ts'
import { isoOf, localInput } from '../model/format.ts'
import { Checkbox, Form, Select, TextField } from '../ui/fields.tsx'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Back from now; undefined for no limit. */
const RANGES: Readonly<Record<string, { readonly text: string; readonly ms?: number }>> = {
  all: { text: 'All time' },
  '15m': { text: 'Last 15 minutes', ms: 15 * MINUTE_MS },
  '1h': { text: 'Last hour', ms: 60 * MINUTE_MS },
  '24h': { text: 'Last 24 hours', ms: DAY_MS },
  '7d': { text: 'Last 7 days', ms: 7 * DAY_MS },
  '30d': { text: 'Last 30 days', ms: 30 * DAY_MS },
  custom: { text: 'From … until …' },
}

/** A range as its page's address has it. `from` and `until` are ISO 8601 in UTC, of `custom`. */
export interface Range {
  readonly name: string
  readonly from: string
  readonly until: string
}

/** The times of a range: `start` is included, `stop` is not. */
export interface Times {
  readonly start?: string
  readonly stop?: string
}

export function timesOf({ name, from, until }: Range): Times {
  const ms = RANGES[name]?.ms
  if (ms !== undefined) return { start: new Date(Date.now() - ms).toISOString() }
  if (name !== 'custom') return {}
  return { ...(from === '' ? {} : { start: from }), ...(until === '' ? {} : { stop: until }) }
}

export function FilterBar({
  columns,
  filters,
  range,
  onFilters,
  onRange,
}: {
  columns: readonly PoolColumn[]
  filters: readonly Filter[]
  range: Range
  onFilters: (filters: readonly Filter[]) => void
  onRange: (range: Range) => void
}) {
  const filterable = columns.filter(({ type }) => type !== 'JSON')
  const [column, setColumn] = useState(filterable[0]?.columnName ?? '')
  const [operator, setOperator] = useState<Operator>('EQUALS')
  const [value, setValue] = useState('')
  const add = () => {
    onFilters([...filters, { column, operator, ...(takesValue(operator) ? { value } : {}) }])
    setValue('')
  }
  return (
    <Form class="filters" onSubmit={add}>
      <RangeFields range={range} onRange={onRange} />
      <Select
        label="Column"
        value={column}
        options={filterable.map(({ columnName }) => ({ value: columnName, text: columnName }))}
        onChoose={setColumn}
      />
      <Select
        label="Is"
        value={operator}
        options={Object.entries(OPERATORS).map(([key, text]) => ({ value: key, text }))}
        onChoose={chosen => setOperator(chosen as Operator)}
      />
      <TextField label="Value" value={value} onText={setValue} disabled={!takesValue(operator)} />
      <button type="submit">Filter</button>
      {filters.length > 0 && (
        <ul class="chips" aria-label="Filters">
          {filters.map((filter, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two filters may be equal
            <li key={at}>
              <button
                type="button"
                class="chip"
                aria-label={`Remove the filter ${filter.column} ${OPERATORS[filter.operator]} ${filter.value ?? ''}`}
                onClick={() => onFilters(filters.filter((_, other) => other !== at))}
              >
                {filter.column} {OPERATORS[filter.operator]} {filter.value ?? ''} ✕
              </button>
            </li>
          ))}
        </ul>
      )}
    </Form>
  )
}

function RangeFields({ range, onRange }: { range: Range; onRange: (range: Range) => void }) {
  return (
    <>
      <Select
        label="Time range"
        value={range.name}
        options={Object.entries(RANGES).map(([key, { text }]) => ({ value: key, text }))}
        onChoose={name => onRange({ name, from: '', until: '' })}
      />
      {range.name === 'custom' && (
        <>
          <TimeField label="From" iso={range.from} onTime={from => onRange({ ...range, from })} />
          <TimeField label="Until" iso={range.until} onTime={until => onRange({ ...range, until })} />
        </>
      )}
    </>
  )
}

/** A time in the reader's zone. It counts when the field is left: half a year is a year too. */
function TimeField({ label, iso, onTime }: { label: string; iso: string; onTime: (iso: string) => void }) {
  const [text, setText] = useState(localInput(iso))
  useEffect(() => setText(localInput(iso)), [iso])
  const onDone = () => {
    const time = isoOf(text)
    if (time !== undefined && time !== iso) onTime(time)
  }
  return (
    <TextField label={label} type="datetime-local" step="1" value={text} onText={setText} onDone={onDone} />
  )
}

export function ColumnChoice({
  all,
  chosen,
  onChoose,
}: {
  all: readonly string[]
  chosen: readonly string[]
  onChoose: (names: readonly string[]) => void
}) {
  return (
    <details class="menu">
      <summary class="button">
        Columns ({chosen.length} of {all.length})
      </summary>
      <fieldset>
        <legend class="unseen">Columns</legend>
        {all.map(name => (
          <Checkbox
            key={name}
            label={name}
            isChecked={chosen.includes(name)}
            disabled={chosen.length === 1 && chosen[0] === name}
            onCheck={isChosen =>
              onChoose(
                isChosen
                  ? all.filter(one => one === name || chosen.includes(one))
                  : chosen.filter(one => one !== name),
              )
            }
          />
        ))}
      </fieldset>
    </details>
  )
}
