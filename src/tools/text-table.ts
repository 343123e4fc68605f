/** Results for people: aligned columns, bytes with their unit. Programs take --json. */

/** Cells as text; numbers stand at the right. `undefined` is an empty cell. */
type Cell = string | number | undefined

/** Lines of a table, `head` first. No rows: no lines. */
export function tableLines(head: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  if (rows.length === 0) return []
  const widths = head.map((title, index) =>
    rows.reduce((width, row) => Math.max(width, textOf(row[index]).length), title.length),
  )
  const isRight = head.map((_, index) =>
    rows.every(row => typeof row[index] !== 'string' || row[index] === '-'),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, index) => (isRight[index] ? cell.padStart(widths[index]!) : cell.padEnd(widths[index]!)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(row => line(head.map((_, index) => textOf(row[index]))))]
}

/** `label  value` lines, the values in one column. */
export function pairLines(pairs: readonly (readonly [label: string, value: string])[]): string[] {
  const width = pairs.reduce((most, [label]) => Math.max(most, label.length), 0)
  return pairs.map(([label, value]) => `${label.padEnd(width)}  ${value}`)
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

/** A moment in UTC, to the second. */
export function timeText(us: number): string {
  return `${new Date(us / 1000).toISOString().slice(0, 19)}Z`
}

function textOf(cell: Cell): string {
  return cell === undefined ? '' : typeof cell === 'number' ? countText(cell) : cell
}
