/** DuckDB over tables with the rows of the pools: it runs the text of a statement itself. */
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { expect } from 'vitest'
import { COLUMN_TYPE } from '../../../src/format/schema.ts'
import { printValue } from '../../../src/query/duckdb/duckdb-values.ts'
import { queryColumns } from '../../../src/query/expression/operand.ts'
import type { PrintedRows } from '../../../src/query/plan/query-task.ts'
import { STATEMENT_ROWS_MAX } from '../../../src/util/limits.ts'
import { quoteName, quoteText } from '../../../src/util/sql.ts'
import type { Cell } from '../pool.ts'
import { POOLS, ROWS, type SqlPools } from './pools.ts'

export class Reference {
  #instance: DuckDBInstance | undefined
  #connection: DuckDBConnection | undefined

  async open(): Promise<void> {
    this.#instance = await DuckDBInstance.create(':memory:')
    const connection = await this.#instance.connect()
    this.#connection = connection
    await connection.run("SET TimeZone = 'UTC'")
    for (const [name, schema] of Object.entries(POOLS)) {
      const columns = queryColumns(schema)
      const types = columns.map(column => `${quoteName(column.name)} ${COLUMN_TYPE[column.type].duckdb}`)
      await connection.run(`CREATE TABLE ${quoteName(name)} (${types.join(', ')})`)
      const lines = ROWS[name]!.map(
        row => `(${columns.map(column => literal(column.type, row[column.name] ?? null)).join(', ')})`,
      )
      await connection.run(`INSERT INTO ${quoteName(name)} VALUES ${lines.join(', ')}`)
    }
  }

  /** The rows as the API prints values. */
  async rows(statement: string): Promise<{ readonly names: readonly string[]; readonly rows: PrintedRows }> {
    const result = await this.#connection!.runAndReadAll(statement)
    const rows = result
      .getRows()
      .map(row => row.map((value, column) => printValue(value, result.columnType(column))))
    return { names: result.columnNames(), rows }
  }

  /** Both answer the same rows; in the same order where the statement says one. */
  async compare(
    pools: SqlPools,
    statement: string,
    isOrdered = / ORDER BY (?!.*\))/.test(statement),
  ): Promise<void> {
    const expected = await this.rows(statement)
    const answer = await pools.ask(statement)
    if (expected.rows.length > STATEMENT_ROWS_MAX) {
      const badRequest = `the answer has more than ${STATEMENT_ROWS_MAX} rows`
      expect(answer, statement).toEqual({ badRequest })
      return
    }
    // A cluster has no way to compute a few joins.
    if ('badRequest' in answer && / in a cluster$/.test(answer.badRequest)) return
    if ('badRequest' in answer) throw new Error(`${statement}\n${answer.badRequest}`)
    const inOrder = (rows: PrintedRows) => (isOrdered ? rows : rows.map(row => JSON.stringify(row)).sort())
    expect(inOrder(answer.rows), statement).toEqual(inOrder(expected.rows))
    expect(answer.columns.length, statement).toBe(expected.names.length)
  }

  close(): void {
    this.#connection?.closeSync()
    this.#instance?.closeSync()
  }
}

function literal(type: string, value: Cell): string {
  if (value === null) return 'NULL'
  if (type === 'TIMESTAMP') return `make_timestamp(${value}::BIGINT)`
  if (type === 'DATE') return `(DATE '1970-01-01' + ${value}::INTEGER)`
  return typeof value === 'string' ? quoteText(value) : String(value)
}
