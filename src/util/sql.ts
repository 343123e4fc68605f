/** Quotes names and texts for SQL. Only this file quotes. */

/** A name as an SQL identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A text of Weir's own as an SQL literal. A client's text is bound, never pasted. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** A name as an identifier of ClickHouse, whatever characters it has. */
export function quoteClickHouseName(name: string): string {
  return `\`${name.replaceAll(/[\\`]/g, '\\$&').replaceAll('\0', '\\0')}\``
}

/** A text of Weir's own as a literal of ClickHouse. */
export function quoteClickHouseText(text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&').replaceAll('\0', '\\0')}'`
}
