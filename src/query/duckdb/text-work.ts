/**
 * What a statement does with texts, counted while the dialect writes it: time for each byte that it
 * searches, and copies that it makes. The engine multiplies both by the bytes of a chunk before the
 * statement runs (chunk-work.ts).
 */
import { TEXTS_JOINED_MAX } from '../../util/limits.ts'
import { isComparison } from '../expression/like-pattern.ts'
import { readRegex } from '../expression/regex-pattern.ts'
import type { Typed } from '../expression/typed.ts'
import type { TextWork } from '../plan/plan.ts'

/** How often a value holds the text of each column, by the name that the column has in the SQL. */
type Size = ReadonlyMap<string, number>

/** Nanoseconds for a byte, and copies of it. */
interface Cost {
  readonly ns: number
  readonly made: number
}

/**
 * The worst that was measured on one core of an AMD EPYC (docs/decisions/0061). A search for a text
 * takes longer for each byte of that text: `needleNs`.
 */
const COSTS: Readonly<Record<string, Cost>> = {
  lower: { ns: 6, made: 1 },
  upper: { ns: 6, made: 1 },
  trim: { ns: 6, made: 1 },
  ltrim: { ns: 6, made: 1 },
  rtrim: { ns: 6, made: 1 },
  substring: { ns: 0.5, made: 1 },
  left: { ns: 0.5, made: 1 },
  right: { ns: 0.5, made: 1 },
  concat: { ns: 0.5, made: 1 },
  '||': { ns: 0.5, made: 1 },
  // Of a document mostly a small part is read. One that is a single text makes eight times as much.
  json_text: { ns: 4, made: 1 / 8 },
  json_value: { ns: 6, made: 1 / 8 },
  // Each is written with a lambda, whose values are copies.
  nullif: { ns: 1, made: 2 },
  between: { ns: 1, made: 2 },
  cast_time: { ns: 8, made: 2 },
  arg_max: { ns: 1, made: 2 },
  arg_min: { ns: 1, made: 2 },
}
const OTHER: Cost = { ns: 0.3, made: 0 }
/** A search, whether for a text or by a regular expression. */
const SEARCH_NS = 5
const NEEDLE_NS = 0.01
/** A regular expression, with each of its characters where it has more choices than this. */
const [REGEX_NS, REGEX_STEP_NS, REGEX_CHOICES_MAX] = [15, 10, 8]
/** What takes the place of a match. */
const REPLACED_NS = 100
/** A chunk of the answer is copied once, and no further one with it. */
const ANSWER_MADE = 1 / 4
const NONE: Cost = { ns: 0, made: 0 }
/** They read no byte of their operand. */
const UNREAD = new Set(['is_null', 'is_not_null', 'count'])
/** They read no more bytes of a text than the value beside it has. */
const COMPARISONS = new Set('= <> < <= > >= DISTINCT_FROM NOT_DISTINCT_FROM starts_with ends_with'.split(' '))
/** Bytes of a value for which that is nothing: those of 2,048 rows take 0.6 ms. */
const VALUE_BYTES_MAX = 1_024
/** Their result is short, whatever their operands are. */
const SHORT = new Set(['hash', 'value', 'null'])

export class TextWorkCounter {
  readonly #work: TextWork[] = []
  /** The columns that are behind the names of outputs. Equal names are taken for one. */
  readonly #outputs = new Map<string, Map<string, number>>()
  #isJoined = false
  /** The expression is a condition on rows as they are scanned. */
  isScan = false
  /** The pool whose policy it is: it stands below the barrier, so that no join comes before it. */
  policyOf: number | undefined

  /** Counts one operation, without its operands. */
  note(typed: Typed): void {
    if (typed.select !== undefined) this.#isJoined = true
    if (typed.op === 'column' || typed.op === 'output' || SHORT.has(typed.op)) return
    const { ns, made } = costOf(typed)
    if (ns === 0 && made === 0) return
    for (const [name, times] of sum(typed.operands.map(sizeOf)))
      this.#add(name, { ns: ns * times, made: made * times })
  }

  /** Each row of a table may be in each row of the chunks from here on. */
  join(): void {
    this.#isJoined = true
  }

  /** An output of a SELECT that another one may read by its name. */
  output(name: string, value: Typed): void {
    const known = this.#outputs.get(name) ?? new Map<string, number>()
    this.#outputs.set(name, known)
    for (const [column, times] of sizeOf(value)) known.set(column, Math.max(times, known.get(column) ?? 0))
  }

  /** An output of the statement: of joined rows the engine copies each text into the answer. */
  answer(value: Typed, rows: number): void {
    for (const [name, times] of sizeOf(value))
      this.#work.push({ name, ns: 0, made: times * ANSWER_MADE, isScan: false, rows, isOfJoin: true })
  }

  /** All work, by the names of columns. */
  total(): readonly TextWork[] {
    const merged = new Map<string, TextWork>()
    for (const each of this.#work) {
      if (each.isOfJoin && !this.#isJoined) continue
      const isOfQuestion = each.policyOf === undefined
      const isOfJoin = this.#isJoined && isOfQuestion
      // Whatever a question names so, a policy reads the column of its pool.
      const behind = isOfQuestion ? this.#behind(each.name, new Set()) : new Map([[each.name, 1]])
      for (const [name, times] of behind) {
        const key = `${each.isScan} ${each.rows} ${each.policyOf} ${name}`
        const { ns = 0, made = 0 } = merged.get(key) ?? {}
        const more = { ns: ns + each.ns * times, made: made + each.made * times }
        merged.set(key, { ...each, ...more, name, isOfJoin })
      }
    }
    return [...merged.values()]
  }

  #add(name: string, cost: Cost): void {
    const { isScan, policyOf } = this
    const ofPolicy = policyOf === undefined ? {} : { policyOf }
    this.#work.push({ name, ...cost, isScan, rows: Infinity, isOfJoin: false, ...ofPolicy })
  }

  /** The columns behind a name, itself among them: it may be that of a column of the pool too. */
  #behind(name: string, seen: ReadonlySet<string>): Size {
    const outer = new Set([...seen, name])
    const all = new Map([[name, 1]])
    for (const [column, times] of this.#outputs.get(name) ?? []) {
      // Tables use the same names, so a name may stand for several of them, one within the other.
      const isCycle = outer.has(column)
      const behind = isCycle
        ? [[name, times > 1 ? TEXTS_JOINED_MAX : 1] as const]
        : this.#behind(column, outer)
      for (const [each, more] of behind)
        all.set(each, Math.max(all.get(each) ?? 0, Math.min(TEXTS_JOINED_MAX, more * times)))
    }
    return all
  }
}

/** The columns whose texts a value may hold. */
function sizeOf(typed: Typed): Size {
  const { op, kind, operands, column, word, select, number = 1 } = typed
  if ((kind !== 'text' && kind !== 'json') || SHORT.has(op)) return new Map()
  if (op === 'column') return new Map([[column?.name ?? '', 1]])
  if (op === 'output') return new Map([[word ?? '', 1]])
  if (select !== undefined) return largest(select.outputs.map(({ value }) => sizeOf(value)))
  const sizes = operands.map(sizeOf)
  if (op.includes('replace')) return new Map([...largest(sizes)].map(([name, size]) => [name, size * number]))
  return op === 'concat' || op === '||' ? sum(sizes) : largest(sizes)
}

function sum(sizes: readonly Size[]): Size {
  return merge(sizes, (a, b) => a + b)
}

function largest(sizes: readonly Size[]): Size {
  return merge(sizes, Math.max)
}

function merge(sizes: readonly Size[], both: (a: number, b: number) => number): Size {
  const all = new Map<string, number>()
  for (const size of sizes) for (const [name, times] of size) all.set(name, both(all.get(name) ?? 0, times))
  return all
}

function costOf(typed: Typed): Cost {
  const { op, operands, kind, word = '', number = 1 } = typed
  if (op === 'like' && isComparison(word)) return isShort(word) ? NONE : OTHER
  if (op === 'like' || op === 'ilike') return search(word)
  const needle = String(operands[1]?.bound?.value ?? '')
  if (op === 'contains' || op === 'strpos') return search(needle)
  if (op === 'replace') return { ...search(needle), made: number }
  if (op.startsWith('regexp_')) return regexCost(op, word, number)
  if (op === 'cast' && kind === 'instant') return COSTS['cast_time']!
  if (UNREAD.has(op) || (COMPARISONS.has(op) && operands.some(isShortValue))) return NONE
  if (op === 'between' && operands[0]?.op === 'column') return OTHER
  return COSTS[op] ?? OTHER
}

/** Where few parts may match in several ways, an engine's automaton has room for all of them. */
function regexCost(op: string, pattern: string, growth: number): Cost {
  const { size, choices, least } = readRegex(pattern)
  const replaced = op === 'regexp_replace_all' ? REPLACED_NS / least : 0
  const ns = REGEX_NS + (choices > REGEX_CHOICES_MAX ? size * REGEX_STEP_NS : 0) + replaced
  return { ns, made: op === 'regexp_matches' ? 0 : op === 'regexp_extract' ? 1 : growth }
}

function isShortValue({ op, bound }: Typed): boolean {
  return op === 'value' && isShort(String(bound?.value ?? ''))
}

function isShort(value: string): boolean {
  return Buffer.byteLength(value) <= VALUE_BYTES_MAX
}

function search(needle: string): Cost {
  return { ns: SEARCH_NS + NEEDLE_NS * Buffer.byteLength(needle), made: 0 }
}
