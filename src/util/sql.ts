/** Names and texts as SQL writes them: the one place that quotes. */

/** A name as an SQL identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A text as an SQL literal: only for file names of our own, never for what a caller sent. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
