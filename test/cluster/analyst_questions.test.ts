/**
 * What event analysts ask (query/statement/questions.ts), of a node of a cluster (mode
 * cluster-store): each is refused by the name of what has no form there, or its rows are those of
 * plain DuckDB over an export of the same pools.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ground, openGround } from '../query/statement/ground.ts'
import { QUESTIONS, type Question } from '../query/statement/questions.ts'
import { STORE } from '../util/cluster-node.ts'

/** Titles of questions, by the words that refuse them. All others have an answer. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'window functions are not allowed': [
    'nulls in orders of rows and windows',
    'windows that ignore nulls',
    'sessions by gaps of eight hours',
    'sessions of a visitor at the median',
    'a running sum of revenue',
    'the moving average of seven days',
    'a sum over the last day, by range',
    'distances in groups, without the current row',
    'change to the week before',
    'the share of the total',
    'the share of the country in its name',
    'gaps and islands of active days',
    'the top by rank, ties too',
    'quartiles of visitors',
  ],
  'CAST is to BOOLEAN, VARCHAR, INTEGER (or TINYINT, SMALLINT, BIGINT), FLOAT, DOUBLE, DATE or TIMESTAMP': [
    'letters of all scripts',
    'items out of JSON arrays',
    'values of the payload',
    'lists of tags',
    'times as texts and numbers',
    'exact money',
    'identifiers and bits',
  ],
  'ORDER BY ALL is not allowed': [
    'patterns of LIKE',
    'series after FROM',
    'cohorts by week of sign-up',
    'pairs of tags',
    'every output ordered',
    'who shares a country, once each',
  ],
  'lists are not allowed': [
    'lists of ranges',
    'nulls in orders',
    'names in groups of words',
    'lists reduced',
    'rows as JSON',
    'percentiles by group',
  ],
  'tables are joined by INNER, LEFT, RIGHT, FULL or CROSS JOIN, with ON or USING': [
    'the price at the time of an event',
    'the price, or none before the first',
    'a natural join',
    'half joins',
  ],
  'parts of values in [ ] are not allowed': [
    'parts of lists and texts',
    'hosts and parts of paths',
    'values of JSON in all ways',
    'maps of counts',
  ],
  'Parameters have no form on a cluster: write their values.': [
    'parameters by position',
    'parameters by name',
    'a parameter is a value, whatever it holds',
  ],
  'GROUP BY ALL is not allowed': [
    'constant patterns of LIKE',
    'campaigns out of urls',
    'days and hours by name',
  ],
  'functions after FROM, such as range and unnest, are not allowed: name a Data Pool': [
    'items by json_each',
    'a calendar with empty days',
  ],
  'VALUES is not allowed': ['days as a table of values', 'a table of values alone'],
  'there is no table "v" after FROM of the same SELECT': [
    'the last three events of each visitor',
    'visitors without an event',
  ],
  'WINDOW is not allowed; as a name it is quoted': ['events before and after each purchase'],
  'there is no table "e" after FROM of the same SELECT': ['visitors who came back the next day'],
  '-: its operands are numbers, and this is instant': ['the time to the first purchase'],
  'ORDER BY is not allowed in a function': ['the path of a visitor'],
  'there is no table "p" after FROM of the same SELECT': ['the source of a purchase'],
  'DISTINCT ON is not allowed': ['the current state of each visitor'],
  'QUALIFY is not allowed in a statement': ['the top two names of each country'],
  'LIMIT is a whole number of rows': ['the ten percent with the most events'],
  'there is no function "mode"': ['the most frequent name of a day'],
  "~ and SIMILAR TO are not allowed: write regexp_matches(text, '…')": ['texts by regular expression'],
  'there is no function "concat_ws"': ['texts put together'],
  'structs are not allowed': ['structs of figures'],
  'there is no function "unnest"': ['a calendar by unnest and range'],
  'RECURSIVE is not allowed; as a name it is quoted': ['a calendar by recursion'],
  'AT TIME ZONE is not allowed': ['the clock of other places'],
  'an interval is one whole number of years, quarters, months, weeks, days, hours, minutes, seconds': [
    'constants of all types',
    'differences of times',
  ],
  '+: its operands are numbers, and this is date': ['nothing of the future'],
  'there is no function "bar"': ['a histogram of quantities'],
  'there is no function "//"': ['a histogram by width'],
  'there is no function "corr"': ['spread and correlation'],
  'a subquery is one value, or stands in EXISTS (…) or IN (…)': ['outliers beyond twice the median'],
  'ROLLUP is not allowed; as a name it is quoted': ['totals by ROLLUP'],
  'CUBE is not allowed; as a name it is quoted': ['totals by CUBE'],
  'GROUPING SETS are not allowed': ['totals by GROUPING SETS'],
  'there is no column "views"; a text is in single quotes: \'views\'': ['columns out of rows'],
  'EXCLUDE is not allowed in a statement': ['all columns but some'],
  'there is no column "more"; a text is in single quotes: \'more\'': ['aliases of the same SELECT'],
  'queries are joined by UNION, INTERSECT or EXCEPT, with or without ALL, and without BY NAME': [
    'figures of two pools under another',
  ],
  'The statement names no Data Pool after FROM.': ['a table without a pool'],
  'there is no function "repeat"': ['texts that grow'],
  'there is no function "ln"': ['mathematics'],
  'there is no function "multiif"': ['functions of ClickHouse'],
}
const PARAMETERS = "parameters such as $1 have no form here: write the value itself, a text as '…'"
const messageOf = new Map(
  Object.entries(REFUSED).flatMap(([message, titles]) => titles.map(title => [title, message] as const)),
)

// ClickHouse 18.16 lacks functions of the questions.
describe.skipIf(STORE !== 'chdb')('a node of a cluster', () => {
  let ground: Ground
  beforeAll(async () => {
    ground = await openGround()
  })
  afterAll(() => ground.stop())

  for (const reader of ['without a policy', 'with a policy'])
    describe(reader, () => {
      beforeAll(async () => {
        if (reader === 'with a policy') await ground.limit()
      })
      test.each(Object.entries(QUESTIONS))('%s', async (title, asked) => {
        const { sql, plain = sql, ...more }: Question = typeof asked === 'string' ? { sql: asked } : asked
        const message = messageOf.get(title)
        const want =
          message === undefined
            ? await ground.plain(plain, more.parameters)
            : { error: `BAD_REQUEST: ${message}` }
        expect(await ground.ask(sql, more)).toEqual(want)
      })
    })

  test('every title that is refused is that of a question, and no word is of an engine', () => {
    expect([...messageOf.keys()].filter(title => !(title in QUESTIONS))).toEqual([])
    expect(Object.keys(REFUSED).filter(words => /duckdb|clickhouse|unbound|_ref\b/i.test(words))).toEqual([])
  })

  test.each([
    ['SELECT count(*) FROM hits WHERE name = $1', PARAMETERS],
    ['SELECT count(*) FROM hits WHERE name = $name', PARAMETERS],
    ['SELECT count(*) FROM hits WHERE name = ?', PARAMETERS],
    ['EXPLAIN SELECT count(*) FROM hits', 'EXPLAIN has no form on a cluster.'],
    ['EXPLAIN ANALYZE SELECT count(*) FROM hits', 'EXPLAIN has no form on a cluster.'],
    ['SUMMARIZE hits', 'SUMMARIZE is not allowed; as a name it is quoted'],
    ['SELECT * FROM (DESCRIBE hits)', 'DESCRIBE and SHOW are not allowed'],
  ])('refuses %s', async (sql, message) => {
    expect(await ground.ask(sql)).toEqual({ error: `BAD_REQUEST: ${message}` })
  })

  test.each([
    'SELECT count(*) FROM hits',
    'SELECT count(*) FROM hits WHERE name = $1',
    'DESCRIBE hits',
    'DESCRIBE SELECT count(*) FROM hits',
  ])('refuses parameters of %s', async sql => {
    const error = 'BAD_REQUEST: Parameters have no form on a cluster: write their values.'
    expect(await ground.ask(sql, { parameters: [{ value: 'purchase' }] })).toEqual({ error })
    expect(await ground.ask(sql, { parameters: [{ name: 'name', value: 'purchase' }] })).toEqual({ error })
  })

  test('names its pools and their columns', async () => {
    expect(await ground.ask('SHOW TABLES')).toEqual({
      names: ['name'],
      rows: [['events'], ['hits'], ['prices'], ['visitors'], ['weir_rejected_events']],
    })
    expect(await ground.ask('SHOW TABLES', { parameters: [{ value: 'x' }] })).toEqual({
      error: 'BAD_REQUEST: the statement has no parameter "1"',
    })
    const names = ['column_name', 'column_type', 'null']
    expect(await ground.ask('DESCRIBE prices')).toEqual({
      names,
      rows: [
        ['_service_payload', 'JSON', 'NO'],
        ['id', 'STRING', 'NO'],
        ['sku', 'STRING', 'YES'],
        ['since', 'TIMESTAMP', 'YES'],
        ['price', 'DOUBLE', 'YES'],
      ],
    })
    expect(await ground.ask('DESCRIBE SELECT count(*) AS n, max(url) AS url FROM hits')).toEqual({
      names,
      rows: [
        ['n', 'INT64', 'NO'],
        ['url', 'STRING', 'YES'],
      ],
    })
    expect(await ground.ask('DESCRIBE SELECT secret FROM hits')).toEqual({
      error: `BAD_REQUEST: there is no column "secret"; a text is in single quotes: 'secret'`,
    })
  })
})
