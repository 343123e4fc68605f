/** The rows that a job changes, and their new values, as SQL over a pool's own table. */
import type { ColumnType } from '../../format/schema.ts'
import { AssertionFailed } from '../../util/errors.ts'
import type { Typed } from '../expression/typed.ts'
import type { Bound } from '../expression/values.ts'
import { ClickHouseWriter } from './write-expression.ts'

export interface WrittenChanges {
  /** A condition; '' for all rows. */
  readonly where: string
  /** Of the columns that are set, as the table stores them. */
  readonly values: readonly string[]
  /** Those of both, as parameters. */
  readonly bounds: readonly Bound[]
}

/**
 * @param table by which columns are named, so that no name of a lambda is one of them
 * @param types of the columns that are set
 */
export function writeRowChanges(
  table: string,
  where: Typed | undefined,
  values: readonly Typed[],
  types: readonly ColumnType[],
): WrittenChanges {
  const writer = new ClickHouseWriter(() => {
    throw new AssertionFailed('an expression over one row has no subquery')
  })
  writer.table = table
  writer.pools.add(table)
  return {
    where: where === undefined ? '' : writer.write(where),
    values: values.map((value, index) => newValue(writer.write(value), types[index], writer)),
    bounds: writer.binder.bounds,
  }
}

/** Days and microseconds of the years 0001 to 9999. */
const [DAY_MIN, DAY_MAX] = [-719_162, 2_932_896]
const DAY_US = 86_400_000_000

/**
 * As ingest stores it: JSON null is null, and -0 is 0. A value that ingest refuses is null: NaN, an
 * infinite number, and a time outside of the years 0001 to 9999.
 */
function newValue(sql: string, type: ColumnType | undefined, { name }: ClickHouseWriter): string {
  switch (type) {
    case 'JSON':
      return `nullIf(${sql}, 'null')`
    case 'FLOAT':
    case 'DOUBLE':
      return name([sql], x => `if(isFinite(${x}), ${x} + 0, NULL)`)
    case 'DATE':
      return name([sql], days => {
        const date = `addDays(toDate32(0), ${days})`
        return `if(${days} >= ${DAY_MIN} AND ${days} <= ${DAY_MAX}, ${date}, NULL)`
      })
    case 'TIMESTAMP':
      return name([sql], us => {
        const time = `fromUnixTimestamp64Micro(${us}, 'UTC')`
        return `if(${us} >= ${DAY_MIN * DAY_US} AND ${us} < ${(DAY_MAX + 1) * DAY_US}, ${time}, NULL)`
      })
    default:
      return sql
  }
}
