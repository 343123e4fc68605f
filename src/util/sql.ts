/** Quotes names and texts for SQL. Only this file quotes. */

/** A name as an SQL identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * A text as an SQL literal. Only for Weir's own file names and for messages: a client's text is
 * bound, never pasted.
 */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
