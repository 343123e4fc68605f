/** Tables and numbers of commands, as people read them. */
import { printable } from '../util/say.ts'

/** Pools that a message about an unknown pool names. */
export const POOLS_NAMED_MAX = 10

/** A column of a table: its title, and its cell of a row. Numbers are aligned right. */
type Column<Row> = readonly [title: string, cellOf: (row: Row) => string | number]

/**
 * Lines of a table with aligned columns, their titles first. A table without rows has no lines.
 * Texts are made printable.
 */
export function tableLines<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string[] {
  if (rows.length === 0) return []
  const aligned = columns.map(([title, cellOf]) => {
    const cells = rows.map(cellOf)
    const texts = [
      title,
      ...cells.map(cell => (typeof cell === 'number' ? countText(cell) : printable(cell))),
    ]
    const width = texts.reduce((most, text) => Math.max(most, text.length), 0)
    const isRight = cells.every(cell => typeof cell === 'number' || cell === '-')
    return texts.map(text => (isRight ? text.padStart(width) : text.padEnd(width)))
  })
  return [undefined, ...rows].map((_, line) =>
    aligned
      .map(texts => texts[line])
      .join('  ')
      .trimEnd(),
  )
}

/** `label  value` lines with the values in one column. Values are made printable. */
export function pairLines(pairs: readonly (readonly [label: string, value: string])[]): string[] {
  const width = pairs.reduce((most, [label]) => Math.max(most, label.length), 0)
  return pairs.map(([label, value]) => `${label.padEnd(width)}  ${printable(value)}`)
}

/**
 * Says that there is no pool `name`, and names the pools that there are. `lists`: what names all.
 */
export function unknownPool(
  name: string,
  pools: readonly { readonly uniqueName: string }[],
  lists = 'weir inspect lists them',
): string {
  const names = pools.map(({ uniqueName }) => uniqueName).sort()
  const named = names.slice(0, POOLS_NAMED_MAX).join(', ')
  const more = names.length > POOLS_NAMED_MAX ? `, … (${names.length} in all, ${lists})` : ''
  const others = names.length === 0 ? 'there are no pools' : `there are ${named}${more}`
  return `there is no pool "${name}"; ${others}`
}

/** 1,234,567 */
export function countText(count: number): string {
  return count.toLocaleString('en-US')
}

/** 12.3 MB: three digits, powers of 1000, as disks are sold and `ls --si` prints. */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2
  return `${value.toFixed(digits)} ${units[unit]}`
}

/** A time in UTC, to the second. */
export function timeText(us: number): string {
  return `${new Date(us / 1000).toISOString().slice(0, 19)}Z`
}
