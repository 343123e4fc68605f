/** Filters, time range and columns of the grid. */
import { useState } from 'preact/hooks'
import type { PoolColumn, TimeRange } from '../client/pools.ts'
import { type Filter, OPERATORS, type Operator, takesValue } from '../model/columns.ts'
import { Checkbox, Form, Select, TextField } from '../ui/fields.tsx'

interface Range {
  readonly text: string
  readonly range?: TimeRange
  /** The same as a duration. */
  readonly ms?: number
}

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

export const RANGES: Readonly<Record<string, Range>> = {
  all: { text: 'All time' },
  '15m': { text: 'Last 15 minutes', range: { relative: 'LAST_N_MINUTES', n: 15 }, ms: 15 * MINUTE_MS },
  '1h': { text: 'Last hour', range: { relative: 'LAST_N_MINUTES', n: 60 }, ms: 60 * MINUTE_MS },
  '24h': { text: 'Last 24 hours', range: { relative: 'LAST_N_HOURS', n: 24 }, ms: DAY_MS },
  '7d': { text: 'Last 7 days', range: { relative: 'LAST_N_DAYS', n: 7 }, ms: 7 * DAY_MS },
  '30d': { text: 'Last 30 days', range: { relative: 'LAST_N_DAYS', n: 30 }, ms: 30 * DAY_MS },
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
  range: string
  onFilters: (filters: readonly Filter[]) => void
  onRange: (range: string) => void
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
      <Select
        label="Time range"
        value={range}
        options={Object.entries(RANGES).map(([key, { text }]) => ({ value: key, text }))}
        onChoose={onRange}
      />
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
