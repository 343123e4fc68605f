/**
 * A grid of any number of rows, of which only those in view are in the document. Rows have one
 * height, so the place of each is known without a measurement. Near its end it asks for more.
 */
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface GridColumn {
  readonly name: string
  /** Its place in each row. */
  readonly at: number
  readonly isNumber: boolean
  /** The least width, in pixels. */
  readonly width: number
  /** What a cell shows; the value itself where it is absent. The value stands in the tip. */
  readonly format?: ((value: string) => string) | undefined
}

type Row = readonly (string | null)[]

/** As in the style sheet. */
const ROW_PX = 32
/** Rows above and below the view that are in the document too. */
const AHEAD_ROWS = 12
/** More rows are asked for when so few are left below the view. */
const MORE_ROWS = 200
/** A cell shows so many characters; the row shows all when it is opened. */
const CELL_CHARACTERS_MAX = 200

interface GridSort {
  readonly column: string
  readonly isDescending: boolean
}

/** What is in view: the scrolled pixels above it, and its height. */
function useView(box: RefObject<HTMLDivElement | null>) {
  const [view, setView] = useState({ top: 0, height: 600 })
  useLayoutEffect(() => {
    const element = box.current!
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight })
    const observer = new ResizeObserver(look)
    observer.observe(element)
    element.addEventListener('scroll', look, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', look)
    }
  }, [box])
  return view
}

/** The row that has the keyboard, and the keys that move it. */
function useKeys(box: RefObject<HTMLDivElement | null>, rows: number, onOpen: (index: number) => void) {
  const [wanted, setFocused] = useState(0)
  const focused = Math.max(0, Math.min(wanted, rows - 1))
  const focus = (index: number, element: HTMLDivElement) => {
    const to = Math.max(0, Math.min(rows - 1, index))
    setFocused(to)
    const top = to * ROW_PX
    if (top < element.scrollTop) element.scrollTop = top
    const bottom = top + 2 * ROW_PX - element.clientHeight
    if (bottom > element.scrollTop) element.scrollTop = bottom
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const element = box.current!
    const page = Math.floor(element.clientHeight / ROW_PX) - 2
    const moves: Record<string, number> = {
      ArrowDown: focused + 1,
      ArrowUp: focused - 1,
      PageDown: focused + page,
      PageUp: focused - page,
      Home: 0,
      End: rows - 1,
    }
    const to = moves[event.key]
    if (to !== undefined) focus(to, element)
    else if (event.key === 'Enter' && event.target === element && rows > 0) onOpen(focused)
    else return
    event.preventDefault()
  }
  return { focused, onKeyDown }
}

export function Grid({
  label,
  columns,
  rows,
  hasMore,
  onMore,
  onOpen,
  sort,
  onSort,
}: {
  label: string
  columns: readonly GridColumn[]
  rows: readonly Row[]
  hasMore: boolean
  onMore: () => void
  onOpen: (index: number) => void
  sort?: GridSort
  onSort?: (column: string) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const { top, height } = useView(box)
  const { focused, onKeyDown } = useKeys(box, rows.length, onOpen)
  const first = Math.max(0, Math.floor(top / ROW_PX) - AHEAD_ROWS)
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_PX) + AHEAD_ROWS)
  const isNearEnd = hasMore && last + MORE_ROWS > rows.length
  useEffect(() => {
    if (isNearEnd) onMore()
  }, [isNearEnd, onMore])
  const template = columns.map(({ width }) => `minmax(${width}px, 1fr)`).join(' ')
  // One width for the head, the rows and the space: they scroll sideways together.
  const minWidth = `${columns.reduce((sum, { width }) => sum + width, 0)}px`
  return (
    <div
      ref={box}
      class="grid"
      role="grid"
      aria-label={label}
      aria-rowcount={hasMore ? -1 : rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={rows.length > 0 ? `grid-row-${focused}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
    >
      <GridHead
        columns={columns}
        sort={sort}
        onSort={onSort}
        style={{ gridTemplateColumns: template, minWidth }}
      />
      <div class="grid-space" style={{ height: `${rows.length * ROW_PX}px`, minWidth }} role="presentation">
        {rows.slice(first, last).map((row, index) => (
          <GridRow
            // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
            key={first + index}
            at={first + index}
            row={row}
            columns={columns}
            template={template}
            isFocused={first + index === focused}
            onOpen={onOpen}
          />
        ))}
      </div>
    </div>
  )
}

function GridHead({
  columns,
  sort,
  onSort,
  style,
}: {
  columns: readonly GridColumn[]
  style: { readonly gridTemplateColumns: string; readonly minWidth: string }
  sort: GridSort | undefined
  onSort: ((column: string) => void) | undefined
}) {
  return (
    <div class="grid-head" role="row" aria-rowindex={1} style={style}>
      {columns.map(({ name, isNumber }) => {
        const isSorted = sort?.column === name
        const order = isSorted ? (sort.isDescending ? 'descending' : 'ascending') : 'none'
        return (
          <div key={name} role="columnheader" class={isNumber ? 'number' : ''} aria-sort={order}>
            {onSort === undefined ? (
              name
            ) : (
              <button type="button" class="plain" onClick={() => onSort(name)}>
                {name}
                {isSorted && (sort.isDescending ? ' ↓' : ' ↑')}
              </button>
            )}
          </div>
        )
      })}
    </div>
  )
}

function GridRow({
  at,
  row,
  columns,
  template,
  isFocused,
  onOpen,
}: {
  at: number
  row: Row
  columns: readonly GridColumn[]
  template: string
  isFocused: boolean
  onOpen: (index: number) => void
}) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid takes the keys of its rows
    <div
      id={`grid-row-${at}`}
      role="row"
      aria-rowindex={at + 2}
      aria-selected={isFocused}
      class="grid-row"
      style={{ transform: `translateY(${at * ROW_PX}px)`, gridTemplateColumns: template }}
      onClick={() => onOpen(at)}
    >
      {columns.map(({ name, at: place, isNumber, format }) => {
        const value = row[place]?.slice(0, CELL_CHARACTERS_MAX) ?? null
        return (
          <div
            key={name}
            role="gridcell"
            class={isNumber ? 'number' : ''}
            title={format && value ? value : undefined}
          >
            {value === null ? <span class="null">null</span> : (format?.(value) ?? value)}
          </div>
        )
      })}
    </div>
  )
}
