/**
 * Hostile statements to the real server: none is answered with what the reader may not see, no
 * refusal tells a secret, and the server goes on.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newSeed, someOf } from '../../util/random.ts'
import {
  adminOf,
  fetchToken,
  queryProcess,
  send,
  startServer,
  type TestServer,
  temporaryFolder,
} from '../../util/server.ts'
import { ANSWERED, BOMBS, HARMLESS, OWN_TABLES, REFUSED, WORKS } from './hostile.ts'
import { columnsOf, limitPool } from './pools.ts'

/**
 * What is not refused in time runs for the 30 s of the application's queries, or longer. A refusal
 * takes milliseconds, and many times as long on a busy machine.
 */
const MS_MAX = 10_000
/** The works end at the time limit of the application's queries, and soon after it. */
const WORK_MS_MAX = 30_000
const isLong = process.env['WEIR_TEST_LONG'] === '1'

const file = join(temporaryFolder(), 'outside.csv')
let server: TestServer

const COLUMNS = {
  ts: 'TIMESTAMP',
  id: 'STRING',
  note: 'STRING',
  n: 'INT64',
  x: 'DOUBLE',
  props: 'JSON',
  tenant: 'STRING',
  secret: 'STRING',
}
const VISIBLE = ['id', 'note', 'n', 'x', 'ts', 'props']

/** No scan takes this condition: it is computed as those of a statement are. */
const DEAR_POLICY = "lower(concat(tenant, upper(tenant), tenant)) = 'policy-valuepolicy-valuepolicy-value'"

const visible = (i: number) => ({
  ts: `2024-01-0${i}T00:00:00Z`,
  id: `v${i}`,
  note: String(i),
  n: i,
  x: i / 2,
  props: { k: i },
  tenant: 'POLICY-VALUE',
  secret: `HIDDEN-column-${i}`,
})
const hidden = (i: number) => ({
  ts: '2024-02-01T00:00:00Z',
  id: `h${i}`,
  note: `HIDDEN-row-${i}`,
  n: 4_611_686_018_427_000 * i,
  x: -i,
  props: { k: 'HIDDEN-json' },
  tenant: 'HIDDEN-tenant',
  secret: 'HIDDEN-both',
})

beforeAll(async () => {
  writeFileSync(file, 'FILE-SECRET\n')
  server = await startServer({ env: { WEIR_TEST_SECRET: 'ENV-SECRET' } })
  for (const uniqueName of ['orders', 'vault', 'mine']) {
    const spec = { uniqueName, columns: columnsOf(COLUMNS), timestamp: 'ts', uniqueId: 'id' }
    const pool = await server.createPool(spec)
    const rows = Array.from({ length: 9 }, (_, i) => visible(i + 1))
    const more = uniqueName === 'orders' ? Array.from({ length: 9 }, (_, i) => hidden(i + 1)) : []
    expect((await send(pool.url, [...more, ...rows])).status).toBe(200)
  }
  await limitPool(server, 'orders', { columns: VISIBLE, filterSql: DEAR_POLICY })
  await limitPool(server, 'vault', undefined)
  if (!isLong) return
  // Works then end after 10 s, not 30.
  const { errors } = await server.graphql(
    `mutation { modifyApplication(input: { idOrUniqueName: { id: "${adminOf(server.dataDir).clientId}" }, propeller: P1_X_SMALL }) { __typename } }`,
  )
  expect(errors).toBeUndefined()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const filled = (text: string) => text.replaceAll('$FILE', file).replaceAll('$DATA', server.dataDir)

interface Answered {
  readonly data: { readonly sqlV1: { readonly rows: unknown } } | null
  readonly errors?: readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[]
}

async function ask(text: string): Promise<Answered> {
  return (await server.graphql(
    'query ($query: String!) { sqlV1(input: { query: $query }) { columns { columnName } rows } }',
    {
      query: filled(text),
    },
  )) as Answered
}

/** Secrets, names of what is hidden, and what only Weir's own statements have. */
const SECRET =
  /HIDDEN|ENV-SECRET|FILE-SECRET|POLICY-VALUE|\btenant\b|\bsecret\b|LINE \d+:|all_rows|_service_\w+|_s[\da-f]{8,}\w*|read_parquet\(\[|\/data\b|\.parquet\b/gi

/** The secrets of an answer that its statement does not have. */
function told(answer: unknown, text: string): string[] {
  const said = JSON.stringify(answer)
  return (said.match(SECRET) ?? []).filter(
    secret => !filled(text).toLowerCase().includes(secret.toLowerCase()),
  )
}

/** True where all rows of an own statement come back as they are. */
async function isWell(): Promise<boolean> {
  const { data } = await ask('SELECT count(*), sum(n) FROM orders')
  return JSON.stringify(data?.sqlV1.rows) === '[["9","45"]]'
}

let tried = 0
for (const [reason, texts] of Object.entries(REFUSED))
  test(`refused, because ${reason}`, async () => {
    const bad: string[] = []
    for (const text of texts) {
      tried += 1
      const began = performance.now()
      const answer = await ask(text)
      if (performance.now() - began > MS_MAX) bad.push(`slow: ${text}`)
      if (answer.errors === undefined)
        bad.push(`through: ${text} → ${JSON.stringify(answer.data).slice(0, 200)}`)
      else if (!/^(BAD_REQUEST|NOT_FOUND)$/.test(answer.errors[0]?.extensions?.code ?? ''))
        bad.push(`no refusal: ${text} → ${JSON.stringify(answer.errors)}`)
      if (told(answer, text).length > 0)
        bad.push(`tells ${told(answer, text)}: ${text} → ${JSON.stringify(answer)}`)
    }
    expect(bad).toEqual([])
    expect(await isWell()).toBe(true)
  })

/** What `npm test` has by lot: statements that each other route is asked, and bombs. */
const BY_OTHER_ROUTES = 40
const BOMBS_ASKED = 50
const seed = newSeed()

test(`the other routes refuse them too, seed ${seed}`, async () => {
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const bad: string[] = []
  const check = (route: string, text: string, isRefused: boolean, said: unknown) => {
    if (!isRefused || told(said, text).length > 0)
      bad.push(`${route}: ${text} → ${JSON.stringify(said).slice(0, 300)}`)
  }
  for (const text of someOf(Object.values(REFUSED).flat(), BY_OTHER_ROUTES, seed)) {
    const described = await server.graphql(
      'query ($query: String!) { describeSqlV1(input: { query: $query }) { columns { columnName } } }',
      { query: filled(text) },
    )
    check('describeSqlV1', text, described.errors !== undefined, described)
    for (const format of ['json', 'csv', 'arrow', 'parquet']) {
      const answer = await fetch(`${server.base}/v1/query?format=${format}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ sql: filled(text) }),
      })
      check(format, text, answer.status >= 400 && answer.status < 500, await answer.text())
    }
  }
  expect(bad).toEqual([])
})

test('a pool that may not be seen answers as a name that does not exist', async () => {
  const other: string[] = []
  for (const text of REFUSED['it reads a pool that the reader may not see']!) {
    const [known, unknown] = [
      await ask(text),
      await ask(text.replaceAll(/vault/gi, name => (name === 'VAULT' ? 'NOPOO' : 'nopoo'))),
    ]
    const [a, b] = [known, unknown].map(({ errors }) =>
      JSON.stringify(errors).replaceAll(/vault|nopoo/gi, 'X'),
    )
    if (a !== b) other.push(`${text}: ${a} and ${b}`)
  }
  expect(other).toEqual([])
})

test('a hidden column answers as a name that does not exist', async () => {
  const other: string[] = []
  for (const text of REFUSED['it names a hidden column']!) {
    const [known, unknown] = [
      await ask(text),
      // DuckDB's messages quote `secret` and `policy` where they do not quote other names.
      await ask(text.replaceAll(/secret/gi, 'policy').replaceAll('tenant', 'nosuch')),
    ]
    const [a, b] = [known, unknown].map(({ errors }) =>
      JSON.stringify(errors?.map(({ message }) => message)).replaceAll(/secret|tenant|policy|nosuch/gi, 'X'),
    )
    if (a !== b) other.push(`${text}: ${a} and ${b}`)
  }
  expect(other).toEqual([])
})

for (const [kind, texts] of Object.entries(HARMLESS))
  test(`nothing hidden comes, though ${kind}`, async () => {
    const bad: string[] = []
    for (const text of texts) {
      tried += 1
      const answer = await ask(text)
      if (told(answer, text).length > 0)
        bad.push(`${text} → ${told(answer, text)} in ${JSON.stringify(answer).slice(0, 500)}`)
    }
    expect(bad).toEqual([])
  })

test('tables of a statement have the names that it gives them', async () => {
  for (const [text, rows] of Object.entries(OWN_TABLES)) {
    tried += 1
    const { data, errors } = await ask(text)
    expect(errors ?? data?.sqlV1.rows, text).toEqual(rows)
  }
})

test('errors of hidden rows never come', async () => {
  const bad: string[] = []
  for (const text of ANSWERED) {
    tried += 1
    const answer = await ask(text)
    if (answer.errors !== undefined || told(answer, text).length > 0)
      bad.push(`${text} → ${JSON.stringify(answer)}`)
  }
  expect(bad).toEqual([])
})

test(`bombs end soon, seed ${seed}`, { timeout: 600_000 }, async () => {
  const bad: string[] = []
  const asked = [
    ...someOf(Object.entries(BOMBS), BOMBS_ASKED, seed),
    ...(isLong ? Object.entries(WORKS) : []),
  ]
  for (const [what, text] of asked) {
    tried += 1
    const began = performance.now()
    const before = queryProcess(server)
    const answer = await ask(text)
    const ms = performance.now() - began
    if (!(what in WORKS) && queryProcess(server) !== before)
      bad.push(`${what} ends the process of all queries`)
    if (ms > (what in WORKS ? WORK_MS_MAX : MS_MAX)) bad.push(`${what}: ${Math.round(ms)} ms`)
    if (told(answer, text).length > 0) bad.push(`${what} tells ${told(answer, text)}`)
    if (!(await isWell())) bad.push(`${what}: the next statement is not answered`)
  }
  expect(bad).toEqual([])
})

test('hundreds of statements were tried', () => {
  process.stdout.write(`hostile statements: ${tried} tried\n`)
  expect(Object.values(REFUSED).flat().length).toBeGreaterThan(400)
})
