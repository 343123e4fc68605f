/**
 * Syntax of other systems that DuckDB's grammar does not know, by name: a syntax error alone would
 * not say what to write instead.
 */

const FORMS: readonly (readonly [form: RegExp, sentence: string])[] = [
  [
    /\w\([^()]*\)\s*\(/,
    'parameters before the arguments, as in quantile(0.9)(x), have no form: write quantile(x, 0.9)',
  ],
  [/\blimit\s+\d+\s+by\b/i, 'LIMIT n BY has no form: write QUALIFY row_number() OVER (PARTITION BY …) <= n'],
  [/\blimit\s+\d+\s*,/i, 'LIMIT n, m has no form: write LIMIT m OFFSET n'],
  [/\bprewhere\b/i, 'PREWHERE has no form: write WHERE'],
  [/\barray\s+join\b/i, 'ARRAY JOIN has no form: write unnest(…)'],
  [/\bsettings\s+\w+\s*=/i, 'SETTINGS has no form'],
  [/\bformat\s+\w+\s*;?\s*$/i, 'FORMAT has no form: the request says the format of its answer'],
  [/(?<!like\s+|[=<>~]\s*)\bany\s*\(\s*(?!select\b)/i, 'any is a word of the grammar: write any_value(…)'],
  [/\w\s+div\s+\w/i, 'DIV is no operator: write a // b'],
  [/\bxor\b(?!\s*\()/i, 'XOR is no operator: write xor(a, b), or a <> b'],
  [/\btop\s+\d+/i, 'TOP has no form: write LIMIT'],
  [/\bconvert\s*\(/i, 'CONVERT has no form: write CAST(x AS type)'],
  [/\b(?:pivot|unpivot)\b/i, 'PIVOT and UNPIVOT have no form here: use aggregates with FILTER'],
]

/** A sentence that begins with "; ", or '' where the text has no form that is known. */
export function otherSyntax(text: string): string {
  const known = FORMS.find(([form]) => form.test(text))
  return known === undefined ? '' : `; ${known[1]}`
}
