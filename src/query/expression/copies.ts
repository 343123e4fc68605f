/**
 * What DuckDB's parser copies, counted before it reads a text: a short text may stand for a tree
 * that takes all memory of the process.
 *
 *   CASE x WHEN …           x once for each WHEN. It has no CASE inside, or that would multiply.
 *   GROUP BY CUBE (…)       every set of its columns, times those of the next CUBE or ROLLUP
 *   OVER w … WINDOW w AS …  the window once for each OVER
 */

const SETS_MAX = 4_096
/** Words and signs that are copied, in all. */
const COPIED_MAX = 20_000

/** A sentence if the parser would copy too much. `tokens`: as text-problem.ts reads them. */
export function copiesProblem(tokens: readonly string[]): string | undefined {
  if (setsOf(tokens) > SETS_MAX) return `CUBE, ROLLUP and GROUPING SETS make more than ${SETS_MAX} sets`
  const windows = tokens.indexOf('window')
  const overs = tokens.filter(token => token === 'over').length
  if (windows >= 0 && overs * (tokens.length - windows) > COPIED_MAX)
    return 'the windows of WINDOW are named by too many OVER'
  return caseProblem(tokens)
}

function setsOf(tokens: readonly string[]): number {
  let sets = 1
  for (const [at, token] of tokens.entries()) {
    const isSets = token === 'grouping' && tokens[at + 1] === 'sets'
    if (token !== 'cube' && token !== 'rollup' && !isSets) continue
    const columns = elementsAt(tokens, isSets ? at + 2 : at + 1)
    sets *= token === 'cube' ? 2 ** columns : token === 'rollup' ? columns + 1 : Math.max(1, columns)
  }
  return sets
}

/** Elements of the list in the parentheses that open at `from`. */
function elementsAt(tokens: readonly string[], from: number): number {
  if (tokens[from] !== '(') return 0
  let open = 0
  let elements = 1
  for (const token of tokens.slice(from)) {
    if (token === '(' || token === '[') open += 1
    if (token === ')' || token === ']') open -= 1
    if (token === ',' && open === 1) elements += 1
    if (open === 0) break
  }
  return elements
}

function caseProblem(tokens: readonly string[]): string | undefined {
  const whens = tokens.filter(token => token === 'when').length
  let copied = 0
  for (const [at, token] of tokens.entries()) {
    if (token !== 'case') continue
    const when = tokens.indexOf('when', at)
    if (when < 0) return undefined // it is no SQL
    const operand = tokens.slice(at + 1, when)
    if (operand.includes('case')) return 'between CASE and its first WHEN stands no other CASE'
    copied += operand.length * whens
  }
  return copied > COPIED_MAX ? 'the values between CASE and WHEN are too long for so many WHEN' : undefined
}
