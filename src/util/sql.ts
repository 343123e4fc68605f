/** Quotes names and texts for SQL. Only this file quotes. */

/** A name as an SQL identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A text as an SQL literal. Only for Weir's own file names, never for a client's text. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
