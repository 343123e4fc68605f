/** The grid of a pool: filters, time range, sort and columns stand in the address. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { messageOf } from '../client/api-error.ts'
import { type GridAsked, type GridPage, loadGrid, type Pool } from '../client/pools.ts'
import { download } from '../client/request.ts'
import { type Filter, filtersOf, listOf, namesOf, PAYLOAD, RECEIVED_AT } from '../model/columns.ts'
import { plural } from '../model/format.ts'
import { Grid } from '../ui/grid.tsx'
import { useAction } from '../ui/load.ts'
import { Empty, Note } from '../ui/parts.tsx'
import { EventDialog } from './event-dialog.tsx'
import { ColumnChoice, FilterBar, type Times, timesOf } from './events-filters.tsx'
import { gridColumnsOf } from './grid-columns.ts'
import { toEvents, withQuery } from './routes.ts'

/** Rows of one request. */
const PAGE_ROWS = 1_000
/** Rows that stay in the page; then a filter helps more than scrolling. */
const ROWS_MAX = 200_000
/** Columns that are shown at first. */
const FIRST_COLUMNS = 7

type Row = readonly (string | null)[]

/** What is asked, as the address has it. */
function useView(pool: Pool) {
  const { query, route } = useLocation()
  const all = useMemo(() => pool.columns.nodes.map(column => column.columnName), [pool])
  const named = query['columns']
  const columns = useMemo(() => {
    const chosen = namesOf(named ?? '').filter(name => all.includes(name))
    const own = all.filter(name => !name.startsWith('_'))
    const standard = [RECEIVED_AT, ...own, PAYLOAD].filter(name => all.includes(name))
    return chosen.length > 0 ? chosen : standard.slice(0, FIRST_COLUMNS)
  }, [named, all])
  const [sortColumn = '', direction] = (query['sort'] ?? `${RECEIVED_AT}.desc`).split(/\.(?=asc$|desc$)/)
  const view = {
    columns,
    filters: filtersOf(query['filters']),
    range: { name: query['range'] ?? 'all', from: query['from'] ?? '', until: query['until'] ?? '' },
    sort: {
      // A policy may hide the time at which events are received.
      column: [sortColumn, RECEIVED_AT].find(name => all.includes(name)) ?? all[0] ?? RECEIVED_AT,
      isDescending: direction !== 'asc',
    },
  }
  const change = (by: Readonly<Record<string, string | undefined>>) =>
    route(withQuery(toEvents(pool.uniqueName), { ...query, ...by }), true)
  return { view, change, all }
}

type View = ReturnType<typeof useView>['view']

function moreText(hasMore: boolean, rows: number): string {
  if (!hasMore) return ''
  return rows < ROWS_MAX ? ', more below' : ': filter them to see the others'
}

function inputOf(
  pool: Pool,
  asked: readonly string[],
  { filters, sort }: View,
  times: Times,
): Omit<GridAsked, 'first'> {
  return {
    dataPool: { id: pool.id },
    columns: asked,
    orderByColumn: asked.indexOf(sort.column) + 1,
    sort: sort.isDescending ? 'DESC' : 'ASC',
    ...(filters.length === 0 ? {} : { filters }),
    ...(Object.keys(times).length === 0 ? {} : { timeRange: times }),
  }
}

export function EventsGrid({ pool, onColumns }: { pool: Pool; onColumns: () => void }) {
  const { view, change, all } = useView(pool)
  const [turn, setTurn] = useState(0)
  const { columns, filters, range, sort } = view
  // The row that is opened shows the whole event, and sorting needs its column, whatever is shown.
  const asked = useMemo(
    () => [...new Set([...columns, sort.column, ...all.filter(name => name === PAYLOAD)])],
    [columns, sort.column, all],
  )
  const key = JSON.stringify([asked, filters, range, sort])
  // Every page of rows, and the download, are of the same times.
  // biome-ignore lint/correctness/useExhaustiveDependencies: each question has its own "now"
  const times = useMemo(() => timesOf(range), [key, turn])
  const isNarrowed = filters.length > 0 || range.name !== 'all'
  const { rows, hasMore, isLoading, error, more } = useRows(key, turn, inputOf(pool, asked, view, times))
  const [opened, setOpened] = useState<number>()
  const gridColumns = useMemo(() => gridColumnsOf(pool, columns, asked), [pool, columns, asked])
  const onSort = (column: string) =>
    change({ sort: `${column}.${sort.column === column && sort.isDescending ? 'asc' : 'desc'}` })
  return (
    <>
      <FilterBar
        columns={pool.columns.nodes}
        filters={filters}
        range={range}
        onFilters={(next: readonly Filter[]) =>
          change({ filters: next.length === 0 ? undefined : JSON.stringify(next) })
        }
        onRange={({ name, from, until }) => change({ range: name === 'all' ? undefined : name, from, until })}
      />
      <div class="actions">
        <ColumnChoice all={all} chosen={columns} onChoose={names => change({ columns: listOf(names) })} />
        <button type="button" onClick={() => setTurn(before => before + 1)}>
          Refresh
        </button>
        <Download pool={pool} view={view} times={times} />
        <span class="hint" role="status">
          {isLoading ? 'Loading…' : `${plural(rows.length, 'event')}${moreText(hasMore, rows.length)}`}
        </span>
      </div>
      {error !== undefined && <Note kind="bad">{error}</Note>}
      {rows.length === 0 && !isLoading && error === undefined ? (
        <Nothing isNarrowed={isNarrowed} />
      ) : (
        <Grid
          key={key}
          label={`Events of ${pool.uniqueName}`}
          columns={gridColumns}
          rows={rows}
          hasMore={hasMore && rows.length < ROWS_MAX}
          onMore={more}
          onOpen={setOpened}
          sort={sort}
          onSort={onSort}
        />
      )}
      {opened !== undefined && rows[opened] !== undefined && (
        <EventDialog
          pool={pool}
          names={asked}
          row={rows[opened]}
          onClose={() => setOpened(undefined)}
          onColumns={onColumns}
        />
      )}
    </>
  )
}

function Nothing({ isNarrowed }: { isNarrowed: boolean }) {
  return (
    <Empty title={isNarrowed ? 'No event matches' : 'No event yet'}>
      <p>
        {isNarrowed
          ? 'Remove a filter or choose a longer time range.'
          : 'Its source has the URL and a command to paste.'}
      </p>
    </Empty>
  )
}

interface Rows {
  readonly key: string
  readonly rows: readonly Row[]
  readonly after: string | null
  readonly hasMore: boolean
  readonly error?: string
}

/** A page of rows; of fewer ones where events are so large that the answer would be too long. */
async function loadFitting(input: Omit<GridAsked, 'first'>, signal: AbortSignal): Promise<GridPage> {
  for (let first = PAGE_ROWS; ; first = Math.ceil(first / 4)) {
    try {
      return await loadGrid({ ...input, first }, signal)
    } catch (error) {
      if (first === 1 || !messageOf(error).includes('characters')) throw error
    }
  }
}

const NO_ROWS: Omit<Rows, 'key' | 'after'> = { rows: [], hasMore: false }

/** Rows by pages: the first at once, the next ones as they are asked for. */
function useRows(key: string, turn: number, input: Omit<GridAsked, 'first'>) {
  const [state, setState] = useState<Rows>({ key: '', rows: [], after: null, hasMore: false })
  const [isLoading, setIsLoading] = useState(true)
  const asking = useRef(input)
  asking.current = input
  const loading = useRef<AbortController | undefined>(undefined)
  const load = useCallback(async (after: string | null, before: readonly Row[], ofKey: string) => {
    loading.current?.abort()
    const gone = new AbortController()
    loading.current = gone
    setIsLoading(true)
    try {
      const page = await loadFitting({ ...asking.current, after }, gone.signal)
      if (gone.signal.aborted) return
      const { endCursor, hasNextPage } = page.pageInfo
      setState({ key: ofKey, rows: [...before, ...page.rows], after: endCursor, hasMore: hasNextPage })
    } catch (error) {
      if (gone.signal.aborted) return
      setState({ key: ofKey, rows: before, after, hasMore: false, error: messageOf(error) })
    }
    loading.current = undefined
    setIsLoading(false)
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new turn loads again
  useEffect(() => {
    void load(null, [], key)
    return () => loading.current?.abort()
  }, [key, turn, load])
  const more = useCallback(() => {
    if (loading.current === undefined && state.hasMore) void load(state.after, state.rows, state.key)
  }, [load, state])
  // Rows of the question before would stand under the wrong columns.
  const isCurrent = state.key === key
  const { rows, hasMore, error } = isCurrent ? state : NO_ROWS
  return { rows, hasMore, isLoading: isLoading || !isCurrent, error, more }
}

/** A CSV of all rows that the filters and the range let through. */
function Download({ pool, view, times }: { pool: Pool; view: View; times: Times }) {
  const { run, isRunning, error } = useAction(() => {
    const { columns, filters } = view
    const parameters = new URLSearchParams({
      format: 'csv',
      columns: listOf(columns),
      ...(filters.length === 0 ? {} : { filters: JSON.stringify(filters) }),
      ...times,
    })
    return download(`/v1/pools/${pool.id}/export?${parameters}`, `${pool.uniqueName}.csv`)
  })
  return (
    <>
      <button
        type="button"
        disabled={isRunning}
        onClick={run}
        title="All that the filters let through, as CSV"
      >
        {isRunning ? 'Downloading…' : 'Download'}
      </button>
      {error !== undefined && <Note kind="bad">{error}</Note>}
    </>
  )
}
