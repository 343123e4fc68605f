/**
 * The parts of an SQL text in which characters do not mean themselves. Every part begins and ends
 * where DuckDB's lexer sees it: the two forms that it knows besides, E'…' and $tag$…$tag$, are
 * refused where they begin (text-problem.ts).
 */

/** The end of the part that begins at `at`: a text, a quoted name, a comment or a character. */
export function endOfPart(sql: string, at: number): number {
  const char = sql[at]
  if (char === "'" || char === '"') return endOfQuoted(sql, at)
  if (sql.startsWith('--', at)) return endOfLine(sql, at)
  return sql.startsWith('/*', at) ? endOfComment(sql, at) : at + 1
}

/** A doubled quote is part of the text. */
function endOfQuoted(sql: string, from: number): number {
  const quote = sql[from] ?? ''
  for (let at = from + 1; at < sql.length; at++) {
    if (sql[at] !== quote) continue
    if (sql[at + 1] !== quote) return at + 1
    at++
  }
  return sql.length
}

function endOfLine(sql: string, from: number): number {
  for (let at = from; at < sql.length; at++) if (sql[at] === '\n' || sql[at] === '\r') return at
  return sql.length
}

/** Comments nest. */
function endOfComment(sql: string, from: number): number {
  let depth = 0
  for (let at = from; at < sql.length; at++) {
    const isOpen = sql.startsWith('/*', at)
    if (!isOpen && !sql.startsWith('*/', at)) continue
    depth += isOpen ? 1 : -1
    at++
    if (depth === 0) return at + 1
  }
  return sql.length
}
