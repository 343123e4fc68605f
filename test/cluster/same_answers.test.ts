/**
 * Both stores answer the same: random expressions, and lists of texts that are read, over the same
 * rows.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ColumnType } from '../../src/format/schema.ts'
import { readRegex } from '../../src/query/expression/regex-pattern.ts'
import { counter } from '../../src/query/plan/counter.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import { sql } from '../../src/query/sql/sql-question.ts'
import { ExpressionPool, NOW_MS, SCHEMA } from '../query/expression/pool.ts'
import { pick, randomAggregate, randomPattern, randomValue } from '../query/expression/random-expressions.ts'
import { type Row, schemaOf, TestPool } from '../query/pool.ts'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { JSON_DOCUMENTS, JSON_PATHS, NUMBERS, TIMES } from './texts.ts'

const why = whyNoClickHouse()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const clusterTest = test.skipIf(why !== undefined)

const CASES = casesOf(400, 4_000)

const expressions = new ExpressionPool()
const texts = new TestPool()
let engines: readonly QueryEngine[]

beforeAll(async () => {
  if (why !== undefined) return
  await expressions.open()
  engines = [expressions.pool.local, (await expressions.pool.cluster()).engine]
})
afterAll(async () => {
  await expressions.close()
  await texts.close()
})

/** What both stores answer to an expression, or how they fail. */
async function both(expression: string): Promise<readonly string[]> {
  const query = { metric: { kind: 'custom', expression } } as const
  return await Promise.all(
    engines.map(async engine => {
      try {
        const asker = { engine, nowMs: NOW_MS }
        const answer = await expressions.pool.answer(counter, SCHEMA, query, expressions.segments(), asker)
        return 'badRequest' in answer ? `BAD: ${answer.badRequest}` : String(answer.value)
      } catch (error) {
        return `FAILED: ${(error as Error).message}`
      }
    }),
  )
}

clusterTest(
  'random expressions',
  async () => {
    const seed = newSeed()
    const random = randomFrom(seed)
    const different: string[] = []
    let answered = 0
    for (let i = 0; i < CASES; i++) {
      const inner = () => randomValue(random, 1 + below(random, 3))
      const aggregate = pick(random, ['count', 'min', 'max', 'count_distinct'])
      const expression = random() < 0.6 ? `${aggregate}(${inner()})` : randomAggregate(random, inner)
      const [local, cluster] = await both(expression)
      if (!local!.startsWith('BAD: ')) answered += 1
      if (local !== cluster && !/ in a cluster/.test(cluster!) && !isSum(expression, cluster!))
        different.push(`${expression}\n  local   ${local}\n  cluster ${cluster}`)
    }
    process.stdout.write(`random expressions: ${CASES}, answered ${answered}, seed ${seed}\n`)
    expect(different.join('\n'), `seed ${seed}`).toBe('')
  },
  600_000,
)

/** A sum of real numbers depends on the order of rows where large ones take each other away. */
function isSum(expression: string, answer: string): boolean {
  return /^(sum|avg|average|mean)/.test(expression) && Number.isFinite(Number(answer))
}

/** What both stores make of values of each row. The first column says which row it is. */
async function compareRows(
  columns: readonly (readonly [string, ColumnType])[],
  rows: readonly Row[],
  values: readonly string[],
): Promise<void> {
  const schema = schemaOf([['place', 'INT32'], ...columns])
  const segment = await texts.segment(
    schema,
    rows.map((row, place) => ({ place, ...row })),
  )
  await texts.engine()
  const both = [texts.local, (await texts.cluster()).engine]
  const different: string[] = []
  for (const value of values) {
    const parsed = await texts.local.parseStatement(`SELECT place, ${value} FROM t ORDER BY place`, 'APP')
    if ('badRequest' in parsed) throw new Error(`${value}: ${parsed.badRequest}`)
    const query = { statement: parsed, poolOf: [0], dialect: 'POSTGRESQL' } as const
    const [local, cluster] = await Promise.all(
      both.map(async engine => {
        const answer = await texts.answer(sql, schema, query, [segment], { engine, nowMs: NOW_MS })
        if ('badRequest' in answer) throw new Error(`${value}: ${answer.badRequest}`)
        return answer.rows.map(row => row[1])
      }),
    )
    const wrong = rows.findIndex((_, place) => local![place] !== cluster![place])
    const about = () => `${value}: local ${local![wrong]}, cluster ${cluster![wrong]}, ${print(rows[wrong]!)}`
    if (wrong >= 0) different.push(about())
  }
  expect(different.slice(0, 40).join('\n')).toBe('')
}

function print(row: Row): string {
  return Object.entries(row)
    .map(([name, cell]) => `${name} ${typeof cell === 'string' ? JSON.stringify(cell) : cell}`)
    .join(', ')
}

/** The same of texts. */
async function compareTexts(list: readonly (string | null)[], values: readonly string[]): Promise<void> {
  const rows = list.map(text => ({ text }))
  await compareRows([['text', 'STRING']], rows, values)
}

clusterTest('texts that are cast', async () => {
  const types = ['BOOLEAN', 'TINYINT', 'INTEGER', 'BIGINT', 'FLOAT', 'DOUBLE']
  const casts = types.map(type => `CAST(text AS ${type})`)
  await compareTexts([...NUMBERS, null], casts)
  const times = ['CAST(text AS DATE)', 'CAST(text AS TIMESTAMP)', 'CAST(CAST(text AS TIMESTAMP) AS VARCHAR)']
  await compareTexts([...TIMES, null], [...times, 'CAST(CAST(text AS DATE) AS VARCHAR)'])
})

clusterTest('parts of JSON', async () => {
  const paths = JSON_PATHS.flatMap(path => [
    `text->>'${path}'`,
    `CAST(text->'${path}' AS VARCHAR)`,
    `json_array_length(text, '${path}')`,
  ])
  await compareTexts([...JSON_DOCUMENTS, null], paths)
})

clusterTest('characters of both cases', async () => {
  const codes = Array.from({ length: 0x1_f000 }, (_, code) => code).filter(
    code => code < 0xd800 || code >= 0xe000,
  )
  const list = Array.from({ length: 250 }, (_, part) =>
    String.fromCodePoint(...codes.slice(part * 512, part * 512 + 512)),
  )
  const values = ['lower(text)', 'upper(text)', 'length(text)', 'trim(text)', "text ILIKE '%É%'"]
  await compareTexts([...list, 'ΑΣ ΑΣ', 'ß', 'ŉ', 'İI', ' \u00a0\u3000x\t\u2003 '], values)
})

clusterTest('parts of texts', async () => {
  const list = ['', null, 'a', 'abc', 'äöü€😀x', "O'Brien % _ 👨‍👩‍👧 ß"]
  const sizes = [-9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 9]
  const pairs = sizes.flatMap(from => sizes.map(count => `substring(text, ${from}, ${count})`))
  const joined = (parts: readonly string[]) => parts.map(part => `coalesce(${part}, '-')`).join(" || '|' || ")
  const values = Array.from({ length: 25 }, (_, at) => pairs.slice(at * 5, at * 5 + 5))
  const ends = sizes.map(size => [`left(text, ${size})`, `right(text, ${size})`])
  const found = ['', 'b', 'ü', '😀', ' ', 'bc', '‍', 'xx'].flatMap(found =>
    found === ''
      ? []
      : [
          `CAST(strpos(text, '${found}') AS VARCHAR)`,
          `replace(text, '${found}', '€')`,
          `replace(text, '${found}', '')`,
          ...(found === 'xx' ? [1, 2, 3, 9] : [1, 2, -1, -2, 9]).map(
            place => `split_part(text, '${found}', ${place})`,
          ),
        ],
  )
  await compareTexts(
    [...list, 'bb', ' b b ', 'bcbcb', 'xxx', 'xxxx'],
    [
      ...values,
      ...ends,
      sizes.slice(2, 7).map(from => `substring(text, ${from})`),
      ...found.map(each => [each]),
    ].map(joined),
  )
})

/** Characters of words and others, ends of lines among them, each of one to four bytes. */
const CHARACTERS = [
  'a',
  'b',
  'A',
  'B',
  'k',
  's',
  '0',
  '_',
  ' ',
  '-',
  '.',
  '\n',
  '\r',
  '\t',
  'é',
  'É',
  'ſ',
  'K',
  'ß',
  '€',
  '😀',
]
clusterTest(
  'regular expressions',
  async () => {
    const seed = newSeed()
    const random = randomFrom(seed)
    const list = Array.from({ length: 400 }, () =>
      Array.from({ length: below(random, 12) }, () => pick(random, CHARACTERS)).join(''),
    )
    const patterns = Array.from({ length: casesOf(60, 1_000) }, () => randomPattern(random))
    const values = patterns.flatMap(pattern => {
      const { groups, least } = readRegex(pattern)
      const [text, options] = [`text, '${pattern}'`, pick(random, ['', 'i'])]
      const by = `'<\\0${groups > 0 ? '\\1' : ''}\\\\>'`
      return [
        `concat(CAST(regexp_matches(${text}, '${options}') AS VARCHAR), regexp_extract(${text}, ${below(random, groups + 1)}))`,
        `regexp_replace(${text}, ${by}, '${least > 0 ? 'g' : ''}${options}')`,
      ]
    })
    await compareTexts([...list, null], values)
  },
  600_000,
)

const PARTS = ['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second']
const UNITS = ['YEAR', 'QUARTER', 'MONTH', 'WEEK', 'DAY', 'HOUR', 'MINUTE', 'SECOND']
/** 0001-01-01 and 9999-12-31 in days since 1970. */
const [FIRST_DAY, LAST_DAY] = [-719_162, 2_932_896]

clusterTest('times of all years', async () => {
  const random = randomFrom(newSeed())
  const day = () => FIRST_DAY + below(random, LAST_DAY - FIRST_DAY + 1)
  const near = [FIRST_DAY, LAST_DAY, 0, -1, -25_567, -25_568, 120_529, 120_530, 59, 19_782, 11_016].flatMap(
    each => [-1, 0, 1].map(step => Math.min(LAST_DAY, Math.max(FIRST_DAY, each + step))),
  )
  const rows = [...near, ...Array.from({ length: 300 }, day)].map((date, index): Row => {
    const time = pick(random, [0, 1, 999_999, 86_399_999_999, below(random, 86_400_000_000)])
    const ts = BigInt(date) * 86_400_000_000n + BigInt(time)
    return {
      ts,
      day: index % 9 === 8 ? null : day(),
      other: index % 7 === 6 ? null : BigInt(day()) * 86_400_000_000n + 5n,
    }
  })
  const values = [
    ...PARTS.flatMap(part => [
      `date_trunc('${part}', ts)`,
      `date_trunc('${part}', day)`,
      `date_diff('${part}', ts, other)`,
      `date_diff('${part}', day, ts)`,
    ]),
    ...[...PARTS, 'dow', 'isodow', 'doy', 'epoch'].flatMap(part => [
      `date_part('${part}', ts)`,
      `date_part('${part}', ts - INTERVAL 80000 YEAR)`,
      `date_part('${part}', day)`,
    ]),
    ...UNITS.flatMap(unit =>
      [1, 13, 25, 1000, 80_000, 1_000_000].flatMap(n => [
        `ts + INTERVAL ${n} ${unit}`,
        `ts - INTERVAL ${n} ${unit}`,
      ]),
    ),
    ...UNITS.map(unit => `date_trunc('month', day - INTERVAL 5000 ${unit})`),
    ...UNITS.flatMap(unit =>
      [1, 7, 90, 1000, 100_000, ...(unit === 'YEAR' ? [] : [1_000_000])].flatMap(n => [
        `time_bucket(INTERVAL ${n} ${unit}, ts)`,
        `time_bucket(INTERVAL ${n} ${unit}, day - INTERVAL 80000 YEAR)`,
      ]),
    ),
    ...['ts', 'day', 'ts - INTERVAL 80000 YEAR', 'ts + INTERVAL 80000 YEAR'].flatMap(time => [
      `strftime(${time}, '%Y-%m-%d %H:%M:%S.%f | %I %p %j %a %A %b %B %%')`,
      `dayname(${time}) || monthname(${time})`,
      `epoch(${time})`,
    ]),
    'CAST(ts AS VARCHAR)',
    'CAST(day AS VARCHAR)',
    'CAST(ts - INTERVAL 9000 YEAR AS VARCHAR)',
    'CAST(ts + INTERVAL 9000 YEAR AS DATE)',
    'CAST(CAST(ts - INTERVAL 9000 YEAR AS DATE) AS VARCHAR)',
    'CAST(day AS TIMESTAMP)',
    'CAST(ts AS DATE)',
    'CAST(CAST(ts AS VARCHAR) AS TIMESTAMP) = ts',
    'CAST(CAST(day AS VARCHAR) AS DATE) = day',
    'greatest(ts, other)',
    'least(day, CAST(other AS DATE))',
    'coalesce(other, ts)',
    'nullif(ts, other)',
    'CASE WHEN ts > other THEN day ELSE CAST(ts AS DATE) END',
    "day = '1899-12-31' OR day > '2300-01-01'",
    'ts BETWEEN other AND now()',
    "ts IN ('1970-01-01', other)",
    "day IN ('9999-12-31', '0001-01-01', '1970-01-01')",
    'ts IS DISTINCT FROM other',
    'ts < day',
    'day + INTERVAL 1 DAY > ts',
  ]
  await compareRows(
    [
      ['ts', 'TIMESTAMP'],
      ['day', 'DATE'],
      ['other', 'TIMESTAMP'],
    ],
    rows,
    values,
  )
})

clusterTest('numbers', async () => {
  const random = randomFrom(newSeed())
  const powers = [
    0,
    1e-310,
    1e-7,
    0.00001,
    0.0001,
    0.1,
    0.5,
    1,
    1.5,
    2.5,
    1e15,
    1e16,
    1e17,
    1e21,
    1e22,
    2 ** 31,
    2 ** 53,
    2 ** 63,
    1e300,
  ]
  const doubles = [
    ...powers,
    ...Array.from({ length: 200 }, () => (random() - 0.5) * 10 ** (below(random, 40) - 20)),
  ]
  const integers = [0n, 1n, 127n, 128n, 2n ** 31n, 2n ** 53n + 1n, 2n ** 62n, 2n ** 63n - 1n]
  const signs = [1, -1]
  const rows = doubles.flatMap((f64, index) =>
    signs.map((sign): Row => {
      const i64 = pick(random, [integers[index % integers.length]!, BigInt(below(random, 2 ** 53)), 7n])
      return {
        f64: sign * f64,
        f32: Math.abs(f64) < 3e38 ? Math.fround(sign * f64) : null,
        i64: BigInt(sign) * i64,
        i32: sign * below(random, 2 ** 31),
        i8: index % 11 === 10 ? null : sign * below(random, 128),
        flag: pick(random, [true, false, null]),
      }
    }),
  )
  const numbers = ['f64', 'f32', 'i64', 'i32', 'i8']
  const types = ['BOOLEAN', 'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'FLOAT', 'DOUBLE', 'VARCHAR']
  const values = [
    ...numbers.flatMap(number => [
      ...types
        .filter(type => number !== 'f32' || type !== 'VARCHAR')
        .map(type => `CAST(${number} AS ${type})`),
      ...['abs', 'round', 'floor', 'ceil', '-', 'sqrt', 'sign'].map(name => `${name}(${number})`),
      ...[1, 2, 5, 18, -1, -2, -18].map(digits => `round(${number}, ${digits})`),
      ...[0, 1, 2, 3, 18, -1, -2, -18].map(digits => `power(${number}, ${digits})`),
      ...numbers.flatMap(other => [...'+-*/'].map(operator => `${number} ${operator} ${other}`)),
      ...['=', '<', '>=', 'IS DISTINCT FROM'].map(operator => `${number} ${operator} i8`),
      `${number} IN (1, 0.5, i8)`,
      `${number} IN (1, 2.5, 7, NULL)`,
      `${number} NOT IN (1, 2.5, 7, NULL)`,
      `${number} BETWEEN -1.5 AND 1e15`,
      `CASE WHEN flag THEN ${number} ELSE i8 END`,
      `coalesce(${number}, i8, 0)`,
      `greatest(${number}, i8, 0.25)`,
      `least(${number} * 1e300 * 1e300, i8)`,
      `nullif(${number}, i8)`,
    ]),
    'CAST(i64 * i64 AS DOUBLE)',
    'sign(i64 * i64)',
    'sqrt(i64 * i64)',
    'power(i64 * i64, 2)',
    'sign((f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308))',
    'sqrt((f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308)) IS NULL',
    'power((f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308), 0)',
    'CAST(i64 * 4611686018427387904 AS DOUBLE)',
    'CAST(i64 * i64 AS VARCHAR)',
    'CAST(i64 * 3 AS BIGINT)',
    'i64 * i64 % i32',
    'i64 % i8',
    'i8 % i64',
    'i64 * i64 + 0.5',
    'f64 * 1e308 * 1e308 > 1',
    '(f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308) >= f64',
    '(f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308) IS DISTINCT FROM f64 / 0',
    'nullif((f64 * 1e308 * 1e308) - (f64 * 1e308 * 1e308), f64)',
    'CAST(f64 * 1e308 * 1e308 AS FLOAT) > 1',
    'CAST(f64 * 1e308 * 1e308 AS VARCHAR)',
    'CAST(-f64 * 0 AS VARCHAR)',
    'CAST(flag AS VARCHAR)',
    'CAST(flag AS INTEGER)',
    'CAST(flag AS DOUBLE)',
    'flag = (i8 > 0)',
    'flag IS NOT TRUE',
    'NOT flag OR i8 > 3',
  ]
  await compareRows(
    [
      ['f64', 'DOUBLE'],
      ['f32', 'FLOAT'],
      ['i64', 'INT64'],
      ['i32', 'INT32'],
      ['i8', 'INT8'],
      ['flag', 'BOOLEAN'],
    ],
    rows,
    values,
  )
})

/** The quotient rounded to so many bits, half to even; both are positive. */
function rounded(
  dividend: bigint,
  divisor: bigint,
  bits: number,
): readonly [mantissa: bigint, scale: bigint] {
  const scale = 160n
  const quotient = (dividend << scale) / divisor
  const over = BigInt(quotient.toString(2).length - bits)
  const [kept, rest, half] = [quotient >> over, quotient & ((1n << over) - 1n), 1n << (over - 1n)]
  const isTie = rest === half && (dividend << scale) % divisor === 0n
  const isUp = rest > half || (rest === half && (!isTie || kept % 2n === 1n))
  return [isUp ? kept + 1n : kept, scale - over]
}

/** Sums and counts whose quotient a rounding to 64 bits before changes: small counts have none. */
function twiceRounded(
  random: () => number,
  count: number,
): readonly (readonly [sum: bigint, count: number])[] {
  const found: (readonly [bigint, number])[] = []
  while (found.length < count) {
    const sum = (BigInt(Math.floor(random() * 2 ** 53)) << 9n) + BigInt(Math.floor(random() * 512))
    const divisor = 2_000 + Math.floor(random() * 1_000)
    const [mantissa, scale] = rounded(sum, BigInt(divisor), 64)
    const once = rounded(sum, BigInt(divisor), 53)
    const twice = rounded(mantissa, 1n << scale, 53)
    if (once[0] !== twice[0] && sum > 0n) found.push([sum, divisor])
  }
  return found
}

clusterTest('averages of whole numbers', async () => {
  const random = randomFrom(newSeed())
  const groups = [
    ...twiceRounded(random, 3),
    ...Array.from(
      { length: 300 },
      () => [BigInt(Math.floor(random() * 2 ** 60)), 1 + below(random, 20)] as const,
    ),
  ]
  const list = groups.flatMap(([sum, count], group) =>
    Array.from({ length: count }, (_, index): Row => {
      const sign = group % 2 === 0 ? 1n : -1n
      return {
        group,
        n: index === 0 ? sign * sum : 0n,
        large: 2n ** 62n + sum,
        small: below(random, 2 ** 31),
      }
    }),
  )
  const schema = schemaOf([
    ['group', 'INT32'],
    ['n', 'INT64'],
    ['large', 'INT64'],
    ['small', 'INT32'],
  ])
  const segment = await texts.segment(schema, list)
  await texts.engine()
  const text =
    'SELECT "group", avg(n), avg(n + 0), avg(small), avg(coalesce(small, 0)), avg(large - 1) FROM t GROUP BY 1 ORDER BY 1'
  const statement = await texts.local.parseStatement(text, 'APP')
  if ('badRequest' in statement) throw new Error(statement.badRequest)
  const answers = await Promise.all(
    [texts.local, (await texts.cluster()).engine].map(engine =>
      texts.answer(sql, schema, { statement, poolOf: [0], dialect: 'POSTGRESQL' }, [segment], { engine }),
    ),
  )
  const [local, cluster] = answers.map(answer => ('badRequest' in answer ? [answer.badRequest] : answer.rows))
  expect(local!).toHaveLength(groups.length)
  const different = cluster!.flatMap((row, index) =>
    String(row) === String(local![index]) ? [] : [`${local![index]} | ${row}`],
  )
  expect(different).toEqual([])
})
