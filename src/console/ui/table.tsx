/** A table of a few hundred rows. The grid (grid.tsx) takes any number. */
import type { ComponentChildren } from 'preact'

export interface TableColumn<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  readonly isNumber?: boolean
  /** The cell names its row to a screen reader. */
  readonly isHead?: boolean
}

export function Table<T>({
  label,
  columns,
  rows,
  keyOf,
}: {
  label: string
  columns: readonly TableColumn<T>[]
  rows: readonly T[]
  keyOf: (row: T) => string
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls takes the keyboard
    <section class="table" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? 'number' : ''}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber, isHead }) =>
                isHead ? (
                  <th key={title} scope="row">
                    {cell(row)}
                  </th>
                ) : (
                  <td key={title} class={isNumber ? 'number' : ''}>
                    {cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
