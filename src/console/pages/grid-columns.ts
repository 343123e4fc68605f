/** Columns of a pool as the grid shows them: by their types, times in the reader's zone. */
import type { Pool } from '../client/pools.ts'
import { isNumeric, widthOf } from '../model/columns.ts'
import { localTime } from '../model/format.ts'
import type { GridColumn } from '../ui/grid.tsx'

/** @param asked the columns of each row; `names` of them are shown */
export function gridColumnsOf(pool: Pool, names: readonly string[], asked = names): GridColumn[] {
  const types = new Map(pool.columns.nodes.map(({ columnName, type }) => [columnName, type]))
  return names.map(name => {
    const type = types.get(name) ?? 'JSON'
    return {
      name,
      at: asked.indexOf(name),
      isNumber: isNumeric(type),
      width: widthOf(type),
      format: type === 'TIMESTAMP' ? localTime : undefined,
    }
  })
}
