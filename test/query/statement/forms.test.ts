/**
 * Each form of forms.ts over three rows in the real server, and docs/sql-forms.md, which
 * `UPDATE=1` writes again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, startServer, type TestServer } from '../../util/server.ts'
import { FORMS } from './forms.ts'
import { columnsOf } from './pools.ts'

const PAGE = fileURLToPath(new URL('../../../../docs/sql-forms.md', import.meta.url))
const ROWS = [
  { ts: '2024-03-05T12:34:56.789Z', s: 'a@b', n: 7, d: 2.5, b: true, p: { a: [1, 2] } },
  { ts: '2024-03-31T00:59:59Z', s: 'true', n: 3, d: 10, b: false, p: [5, 'x'] },
  { ts: '2024-12-30T23:00:00.000001Z', s: '00000000-0000-0000-0000-0000000000ab' },
]

let server: TestServer
beforeAll(async () => {
  server = await startServer()
  const columns = columnsOf({
    ts: 'TIMESTAMP',
    s: 'STRING',
    n: 'INT64',
    d: 'DOUBLE',
    b: 'BOOLEAN',
    p: 'JSON',
  })
  const pool = await server.createPool({ uniqueName: 'forms', columns, timestamp: 'ts' })
  expect((await send(pool.url, ROWS)).status).toBe(200)
})
afterAll(() => server.stop())

async function ask(query: string): Promise<string | (string | null)[]> {
  const { data, errors } = await server.graphql<{ sqlV1: { rows: (string | null)[][] } }>(
    'query ($query: String!) { sqlV1(input: { query: $query }) { rows } }',
    { query },
  )
  return errors === undefined ? data.sqlV1.rows.map(row => row[0] ?? null) : String(errors[0]?.message)
}

/** A refusal names what has no form here. */
const BY_NAME = /have no form|there is no function|is no operator|is not allowed|at or near "any"/

test.each(Object.entries(FORMS))('%s', async (form, { answers, rest = '', varies, refused }) => {
  const said = await ask(`SELECT ${form} FROM forms ${rest}`)
  if (refused !== undefined) expect(said).toMatch(BY_NAME)
  else if (varies) expect(said).toEqual(expect.any(Array))
  else expect(said).toEqual(answers)
})

test('a condition that only names what a column is called leaves out no row', async () => {
  const columns = columnsOf({ ts: 'TIMESTAMP', s: 'STRING', p: 'JSON' })
  const pool = await server.createPool({ uniqueName: 'named', columns, timestamp: 'ts', tenant: 's' })
  const inThreeDays = new Date(Date.now() + 3 * 86_400_000).toISOString()
  const rows = [
    { ts: '2024-03-05T00:00:00Z', s: '2024-3-5', p: { ts: '2091-01-01T00:00:00Z' } },
    { ts: inThreeDays, s: '2024-3-6' },
  ]
  expect((await send(pool.url, rows)).status).toBe(200)
  const counts = (where: string) => ask(`SELECT count(*) FROM named WHERE ${where}`)
  expect(await counts("p.ts >= TIMESTAMP '2090-01-01'")).toEqual(['1'])
  expect(await counts("named.ts >= '2024-04-01'")).toEqual(['1'])
  expect(await counts("s = DATE '2024-03-05'")).toEqual(['1'])
  expect(await counts('ts >= now() - INTERVAL (-1.5) DAY')).toEqual(['1'])
  const outer = "(VALUES (TIMESTAMP '2091-01-01'), (TIMESTAMP '2020-01-01')) AS o(ts)"
  const inner = "SELECT count(*) FROM named WHERE o.ts >= '2090-01-01'"
  expect(await ask(`SELECT (${inner}) FROM ${outer} ORDER BY o.ts`)).toEqual(['0', '2'])
})

test('arrows stand behind a cast and a CASE', async () => {
  const first = (value: string) => ask(`SELECT ${value} FROM forms ORDER BY ts LIMIT 1`)
  expect(await first("p::JSON->'a'->>0")).toEqual(['1'])
  expect(await first("p::JSON->>'$.a[1]' = '2'")).toEqual(['true'])
  expect(await first(`'{"a":3}'::JSON->>'a'`)).toEqual(['3'])
  expect(await first("CASE WHEN b THEN p END->>'$.a[0]'")).toEqual(['1'])
  expect(await first("{'k': p->>'$.a[0]' = '1'}")).toEqual(['{"k":true}'])
})

test('a written time in a zone is the instant, a time of a pool the wall clock', async () => {
  const first = (value: string) => ask(`SELECT ${value} FROM forms ORDER BY ts LIMIT 1`)
  const midnight = "TIMESTAMP '2024-07-01 00:00' AT TIME ZONE 'Europe/Lisbon'"
  expect(await first(midnight)).toEqual(['2024-06-30T23:00:00.000Z'])
  expect(await ask(`SELECT count(*) FROM forms WHERE ts >= ${midnight}`)).toEqual(['1'])
  const later = "greatest(ts, TIMESTAMP '2024-07-01 00:00') AT TIME ZONE 'Europe/Lisbon'"
  expect(await first(later)).toEqual(['2024-07-01T01:00:00.000Z'])
})

test('comments stand before SHOW and EXPLAIN, and places are those of the whole text', async () => {
  const said = (query: string) =>
    server.graphql<unknown>('query ($query: String!) { sqlV1(input: { query: $query }) { rows } }', { query })
  expect((await said('-- all\n/* of * them */ SHOW TABLES')).errors).toBeUndefined()
  expect((await said('/* why */ EXPLAIN SELECT 1')).errors).toBeUndefined()
  const { errors } = await said('EXPLAIN\nSELECT nothing_such FROM forms')
  expect(errors?.[0]?.message).toContain('(line 2, column 8)')
})

test('a column that is cast keeps its name, and an output that could be caught has none', async () => {
  expect(
    await ask("SELECT ts FROM (SELECT ts::DATE FROM forms WHERE ts > DATE '2024-03-06') ORDER BY ts"),
  ).toEqual(['2024-03-31', '2024-12-30'])
  expect(await ask('SELECT n::VARCHAR FROM forms GROUP BY n, ts HAVING n > 3 ORDER BY ts')).toEqual(['7'])
  expect(await ask("SELECT s ~* 'A@' FROM forms ORDER BY ts")).toEqual(['true', 'false', 'false'])
})

test('ANY after an operator is not taken for a function', async () => {
  expect(await ask("SELECT s LIKE ANY (['a%']) FROM forms")).not.toContain('any_value')
})

test('the goal is reached', () => {
  const forms = Object.values(FORMS)
  expect(forms.length).toBe(155)
  expect(forms.filter(({ refused }) => refused === undefined).length).toBeGreaterThanOrEqual(135)
})

/** The formatter of pages aligns the cells of a table. */
const unaligned = (page: string) => page.replaceAll(/ +/g, ' ').replaceAll(/-{3,}/g, '---')

test('docs/sql-forms.md is made of this list', () => {
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const shown = (value: string | null) =>
    value === null ? 'null' : value === '' ? 'an empty text' : `\`${cell(value)}\``
  const lines = Object.entries(FORMS).map(([form, { answers, rest, varies, refused }]) => {
    const answer = varies
      ? 'served'
      : refused === undefined
        ? shown(answers?.[0] ?? null)
        : `refused: ${cell(refused)}`
    return `| \`${cell(form)}\`${rest === undefined ? '' : ` … \`${rest}\``} | ${answer} |`
  })
  const page = `${INTRODUCTION}\n| Form | Answer |\n| ---- | ------ |\n${lines.join('\n')}\n`
  if (process.env['UPDATE'] === '1') writeFileSync(PAGE, page)
  expect(unaligned(readFileSync(PAGE, 'utf8'))).toBe(unaligned(page))
})

const INTRODUCTION = `# Forms that statements serve

What analysts of PostgreSQL, DuckDB and ClickHouse reach for, as an output of \`SELECT … FROM forms\`, and its answer of the first row.
[SQL statements](sql.md) has the grammar.

| Row | \`ts TIMESTAMP\`                | \`s STRING\` | \`n INT64\` | \`d DOUBLE\` | \`b BOOLEAN\` | \`p JSON\`      |
| --- | ----------------------------- | ---------- | --------- | ---------- | ----------- | ------------- |
| 1   | \`2024-03-05T12:34:56.789Z\`    | \`a@b\`      | \`7\`       | \`2.5\`      | \`true\`      | \`{"a":[1,2]}\` |
| 2   | \`2024-03-31T00:59:59.000Z\`    | \`true\`     | \`3\`       | \`10\`       | \`false\`     | \`[5,"x"]\`     |
| 3   | \`2024-12-30T23:00:00.000001Z\` | a UUID     | null      | null       | null        | null          |
`
