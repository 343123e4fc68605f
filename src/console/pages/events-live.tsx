/** Events as they come, the newest above, with a pause. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { messageOf } from '../client/api-error.ts'
import type { Pool } from '../client/pools.ts'
import { followTail } from '../client/tail.ts'
import { listOf, PAYLOAD, RECEIVED_AT } from '../model/columns.ts'
import { count, plural } from '../model/format.ts'
import { Grid } from '../ui/grid.tsx'
import { Badge, Note } from '../ui/parts.tsx'
import { EventDialog } from './event-dialog.tsx'
import { gridColumnsOf } from './grid-columns.ts'

/** The newest events that stay. */
const ROWS_MAX = 5_000
const SHOWN_COLUMNS = 7

type Row = readonly (string | null)[]

/** The rows of a tail, the newest first. Those that come during a pause are held. */
function useTail(poolId: string, names: readonly string[]) {
  const [rows, setRows] = useState<readonly Row[]>([])
  const [missed, setMissed] = useState(0)
  const [isConnected, setIsConnected] = useState(false)
  const [problem, setProblem] = useState<string>()
  const [isPaused, setIsPaused] = useState(false)
  const [heldCount, setHeldCount] = useState(0)
  const held = useRef<Row[]>([])
  const paused = useRef(false)
  const add = (fresh: readonly Row[]) => setRows(before => [...fresh, ...before].slice(0, ROWS_MAX))
  // biome-ignore lint/correctness/useExhaustiveDependencies: the tail is of this pool
  useEffect(() => {
    const gone = new AbortController()
    const listener = {
      rows: (objects: readonly Readonly<Record<string, string | null>>[]) => {
        const fresh = objects.map(object => names.map(name => object[name] ?? null)).reverse()
        if (!paused.current) add(fresh)
        else {
          held.current = [...fresh, ...held.current].slice(0, ROWS_MAX)
          setHeldCount(before => before + fresh.length)
        }
      },
      missed: (more: number) => setMissed(before => before + more),
      connected: setIsConnected,
    }
    followTail(poolId, { columns: listOf(names) }, listener, gone.signal).catch(error =>
      setProblem(messageOf(error)),
    )
    return () => gone.abort()
  }, [poolId])
  const togglePause = () => {
    paused.current = !isPaused
    setIsPaused(!isPaused)
    if (!isPaused) return
    add(held.current)
    held.current = []
    setHeldCount(0)
  }
  return { rows, missed, isConnected, problem, isPaused, heldCount, togglePause, clear: () => setRows([]) }
}

export function EventsLive({ pool }: { pool: Pool }) {
  const names = useMemo(() => {
    const all = pool.columns.nodes.map(column => column.columnName)
    const own = all.filter(name => !name.startsWith('_')).slice(0, SHOWN_COLUMNS - 2)
    // A policy may hide any of them.
    return [RECEIVED_AT, ...own, PAYLOAD].filter(name => all.includes(name))
  }, [pool])
  const columns = useMemo(() => gridColumnsOf(pool, names), [pool, names])
  const tail = useTail(pool.id, names)
  const { rows, missed, isConnected, problem, isPaused, heldCount } = tail
  const [opened, setOpened] = useState<Row>()
  return (
    <>
      <div class="actions">
        <button type="button" aria-pressed={isPaused} onClick={tail.togglePause}>
          {isPaused ? 'Go on' : 'Pause'}
        </button>
        <button type="button" onClick={tail.clear}>
          Clear
        </button>
        <span role="status">
          {isConnected ? <Badge kind="good">Connected</Badge> : <Badge kind="warn">Connecting…</Badge>}{' '}
          {isPaused ? `${plural(heldCount, 'event')} came meanwhile` : plural(rows.length, 'event')}
        </span>
      </div>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {missed > 0 && (
        <Note>{count(missed)} events came faster than they can be shown. All of them are in the pool.</Note>
      )}
      {rows.length === 0 ? (
        <p class="listening">
          <span class="pulse" aria-hidden="true" /> Waiting for an event.
        </p>
      ) : (
        <Grid
          label={`Live events of ${pool.uniqueName}`}
          columns={columns}
          rows={rows}
          hasMore={false}
          onMore={nothing}
          onOpen={at => setOpened(rows[at])}
        />
      )}
      {opened !== undefined && (
        <EventDialog
          pool={pool}
          names={names}
          row={opened}
          onClose={() => setOpened(undefined)}
          onColumns={nothing}
        />
      )}
    </>
  )
}

function nothing(): void {}
