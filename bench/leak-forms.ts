/**
 * The forms of `bench -- leaks`: the rows, policies that all hide the same one of them, and
 * questions that guess at it.
 */
import type { RowPolicy } from '../src/query/plan/policy.ts'

/** The hidden row's values, some of which a question guesses. */
const HIDDEN_N = 5_000_000
const HIDDEN_TEXT_CHARACTERS = 300_000
/** Of them a function joins some, so that one run over the hidden text takes long. */
const TEXTS_JOINED = 8
const START_MS = Date.UTC(2026, 0, 1)

export const LEAK_COLUMNS = [
  ['ts', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['tenant', 'STRING'],
  ['name', 'STRING'],
  ['text', 'STRING'],
  ['mark', 'STRING'],
  ['place', 'STRING'],
  ['n', 'INT64'],
  ['x', 'DOUBLE'],
  ['flag', 'BOOLEAN'],
  ['day', 'DATE'],
  ['doc', 'JSON'],
].map(([name = '', type = '']) => ({
  name,
  type,
  jsonProperty: name,
  nullable: name !== 'ts' && name !== 'id',
}))

/** The visible row of this number. */
export function visibleRow(i: number): object {
  return {
    ts: new Date(START_MS + i * 1000).toISOString(),
    id: `v${i}`,
    tenant: 'a',
    name: `name ${i % 500}`,
    text: `text ${i % 20}`,
    place: `place ${i % 9}`,
    n: i,
    x: i / 7,
    flag: true,
    day: `2026-01-0${1 + (i % 9)}`,
    doc: { k: 'k1', v: i },
  }
}

export function hiddenRow(): object {
  return {
    ts: '2030-01-01T00:00:00Z',
    id: 'h',
    tenant: 'hidden',
    name: 'guess',
    text: 'a'.repeat(HIDDEN_TEXT_CHARACTERS),
    mark: 'x',
    n: HIDDEN_N,
    x: -5,
    flag: false,
    day: '2030-01-01',
    doc: { k: 'secret', v: 0 },
  }
}

/** The rows of a policy. */
export interface PolicyForm extends Partial<Pick<RowPolicy, 'rows' | 'filterSql'>> {
  readonly name: string
  readonly values?: Readonly<Record<string, string>>
}

function filter(column: string, operator: RowPolicy['rows'][number]['operator'], value?: string): PolicyForm {
  const named = `${column} ${operator}${value === undefined ? '' : ` ${value}`}`
  return { name: named, rows: [{ column, operator, ...(value === undefined ? {} : { value }) }] }
}

const inSql = (filterSql: string): PolicyForm => ({ name: filterSql, filterSql })

/** Each shows all rows but the hidden one. */
export const POLICY_FORMS: readonly PolicyForm[] = [
  filter('tenant', 'EQUALS', 'a'),
  inSql("_service_payload->>'$.doc.k' = 'k1'"),
  inSql("tenant IN ('a', 'b')"),
  filter('name', 'LIKE', 'na%e %'),
  inSql("tenant = 'a' AND flag AND n >= 0"),
  filter('tenant', 'NOT_EQUALS', 'hidden'),
  filter('n', 'LESS_THAN', '4000000'),
  filter('n', 'LESS_THAN_OR_EQUAL_TO', '4000000'),
  filter('x', 'GREATER_THAN', '-1'),
  filter('x', 'GREATER_THAN_OR_EQUAL_TO', '0'),
  filter('tenant', 'LIKE', 'a%'),
  filter('name', 'NOT_LIKE', 'gu%'),
  filter('mark', 'IS_NULL'),
  filter('place', 'IS_NOT_NULL'),
  filter('day', 'LESS_THAN', '2029-01-01'),
  inSql("doc->>'k' IN ('k1', 'k2')"),
  inSql("tenant NOT IN ('hidden', 'other')"),
  inSql("NOT (tenant = 'hidden' OR n > 4000000)"),
  inSql("lower(tenant) = 'a'"),
  { name: 'tenant = a value of the token', filterSql: `tenant = \${{ t }}`, values: { t: 'a' } },
]

/** A question, with a guess that the hidden row matches and one that no row matches. */
export interface ConditionForm {
  readonly name: string
  readonly right: string
  readonly wrong: string
  /** The body of `POST /v1/query` about a pool. */
  ask(poolId: string, guess: string): object
}

const JOINED = `upper(concat(${Array.from({ length: TEXTS_JOINED }, () => 'text').join(', ')}))`
const SEARCH_CHARACTERS = 999

function count(poolId: string, rows: object): object {
  return { counter: { metric: { count: { dataPool: { id: poolId } } }, ...rows } }
}

export const CONDITION_FORMS: readonly ConditionForm[] = [
  {
    name: 'CASE with heavy work in a filter',
    right: 'guess',
    wrong: 'gvess',
    ask: (id, guess) =>
      count(id, {
        filterSql: `CASE WHEN name = '${guess}' THEN contains(${JOINED}, 'AB') ELSE n < 0 END`,
      }),
  },
  {
    name: 'heavy work in a metric',
    right: 'guess',
    wrong: 'gvess',
    ask: (id, guess) => {
      const expression = `MAX(CASE WHEN name = '${guess}' THEN length(${JOINED}) END)`
      return { counter: { metric: { custom: { dataPool: { id }, expression } } } }
    },
  },
  {
    name: 'a search in every text',
    right: 'a',
    wrong: 'c',
    ask: (id, guess) => count(id, { filterSql: `contains(text, '${guess.repeat(SEARCH_CHARACTERS)}b')` }),
  },
  {
    name: 'beyond the largest value',
    right: String(HIDDEN_N - 1),
    wrong: String(HIDDEN_N + 1),
    ask: (id, guess) => count(id, { filters: [{ column: 'n', operator: 'GREATER_THAN', value: guess }] }),
  },
  {
    name: 'a tenant',
    right: 'hidden',
    wrong: 'hiddez',
    ask: (id, guess) => count(id, { filters: [{ column: 'tenant', operator: 'EQUALS', value: guess }] }),
  },
  {
    name: 'a join with one value',
    right: String(HIDDEN_N),
    wrong: String(HIDDEN_N + 1),
    ask: (id, guess) => ({
      sql: `SELECT COUNT(*) AS c FROM "${id}" AS p JOIN (SELECT ${guess} AS g UNION ALL SELECT ${guess}) AS x ON p.n = x.g`,
    }),
  },
  ...statements([
    [
      'a window over heavy work',
      ['guess', 'gvess'],
      guess =>
        `SELECT max(w) AS m FROM (SELECT sum(CASE WHEN name = '${guess}' THEN length(${JOINED}) ELSE 0 END) OVER (PARTITION BY place ORDER BY n) AS w FROM POOL)`,
    ],
    [
      'a lambda over a list of letters',
      ['guess', 'gvess'],
      guess =>
        `SELECT count(*) AS c FROM POOL WHERE name = '${guess}' AND len(list_filter(string_split(text, ''), lambda l: l = 'b')) > 0`,
    ],
    [
      'a regular expression in QUALIFY',
      ['a', 'c'],
      guess =>
        `SELECT n FROM POOL QUALIFY row_number() OVER (ORDER BY n) = 1 AND regexp_matches(text, '(${guess}+)+b')`,
    ],
    [
      'a correlated subquery',
      [String(HIDDEN_N), String(HIDDEN_N + 1)],
      guess =>
        `SELECT count(*) AS c FROM (VALUES (${guess}), (1)) v(g) WHERE EXISTS (SELECT 1 FROM POOL AS p WHERE p.n = v.g AND length(${JOINED}) > 9000)`,
    ],
    [
      'a cast that fails on the hidden text',
      ['guess', 'gvess'],
      guess => `SELECT max(CASE WHEN name = '${guess}' THEN CAST(text AS INT) ELSE n END) AS m FROM POOL`,
    ],
  ]),
]

type StatementForm = readonly [
  name: string,
  guesses: readonly [right: string, wrong: string],
  sql: (guess: string) => string,
]

/** Statements in DuckDB's own SQL, in which POOL is the pool. */
function statements(forms: readonly StatementForm[]): readonly ConditionForm[] {
  return forms.map(([name, [right, wrong], sql]) => ({
    name,
    right,
    wrong,
    ask: (id, guess) => ({ sql: sql(guess).replace('POOL', `"${id}"`) }),
  }))
}
