/**
 * Syntax of other systems that DuckDB's grammar does not know, by name: a syntax error alone would
 * not say what to write instead.
 */

/** Words and signs with one space between, numbers as 0. The first that a text has counts. */
const FORMS: readonly (readonly [words: string, sentence: string])[] = [
  [') (', 'parameters before the arguments, as in quantile(0.9)(x), have no form: write quantile(x, 0.9)'],
  [' limit 0 by ', 'LIMIT n BY has no form: write QUALIFY row_number() OVER (PARTITION BY …) <= n'],
  [' limit 0 , ', 'LIMIT n, m has no form: write LIMIT m OFFSET n'],
  [' prewhere ', 'PREWHERE has no form: write WHERE'],
  [' array join ', 'ARRAY JOIN has no form: write unnest(…)'],
  [' settings ', 'SETTINGS has no form'],
  [' format ', 'FORMAT has no form: the request says the format of its answer'],
  [' div ', 'DIV is no operator: write a // b'],
  [' xor ', 'XOR is no operator: write xor(a, b), or a <> b'],
  [' top 0 ', 'TOP has no form: write LIMIT'],
  [' convert ( ', 'CONVERT has no form: write CAST(x AS type)'],
  [' pivot ', 'PIVOT and UNPIVOT have no form here: use aggregates with FILTER'],
]
/** Before ANY, which is no function there. */
const OPERATORS: ReadonlySet<string | undefined> = new Set(['like', 'ilike', '=', '<', '>', '~'])

/** A sentence that begins with "; ", or '' where the text has no form that is known. */
export function otherSyntax(text: string): string {
  const words = text.toLowerCase().match(/\w+|[^\s\w]/g) ?? []
  const line = ` ${words.map(word => (/^\d/.test(word) ? '0' : word)).join(' ')} `
  const known = FORMS.find(([form]) => line.includes(form) && !line.includes(`${form}( `))
  const any = words.findIndex((word, at) => word === 'any' && !OPERATORS.has(words[at - 1]))
  if (known !== undefined) return `; ${known[1]}`
  return any >= 0 && words[any + 1] === '(' ? '; any is a word of the grammar: write any_value(…)' : ''
}
