/**
 * Question: does time, an error or memory tell a reader of a row that its policy hides, and what
 * does the barrier above policies cost?
 *
 *   leaks   one pool with one hidden row. For each form of policy and of question, a guess that the
 *           hidden row matches is asked beside one that no row matches, in random order.
 *   cost    the questions of `bench -- query` by readers without and with a policy
 *
 * A pair of guesses differs if Wilcoxon's signed-rank test of the tries' differences gives a z
 * beyond 2.58, which chance gives in 1 of 100. `--server` names the folder of another checkout that
 * was set up, such as an older commit's.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { queryProcess, type TestPool, type TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS } from './events.ts'
import {
  CONDITION_FORMS,
  type ConditionForm,
  hiddenRow,
  LEAK_COLUMNS,
  POLICY_FORMS,
  type PolicyForm,
  visibleRow,
} from './leak-forms.ts'
import { median, print, row } from './measure.ts'
import { numberOf, Usage } from './options.ts'
import { QUESTIONS } from './query-questions.ts'
import { post, settled } from './rows.ts'
import { startWeir } from './weir.ts'

interface LeaksOptions {
  readonly server?: string
  readonly tries?: string
  readonly forms?: string
  readonly rows?: string
  readonly rounds?: string
}

const VISIBLE_ROWS = 20_000
const POST_ROWS = 500
/** Asks of both guesses before the first that counts. */
const WARM_TRIES = 3
/** Asks of a guess whose memory is read. */
const MEMORY_TRIES = 5
/** Beyond it lies 1 % of what chance gives, on both sides together. */
const Z_MAX = 2.58
const CHANCE = 0.01

/**
 * Runs with `tries` (200) of each guess, the first `forms` (all 20) policies, `rows` (1M) of the
 * pool whose questions show the cost, and `rounds` (7) of each; 0 rows leave the cost out.
 */
export async function benchLeaks(options: LeaksOptions): Promise<void> {
  const folder = options.server ?? fileURLToPath(new URL('../..', import.meta.url))
  const main = join(resolve(folder), 'dist', 'src', 'app', 'main.js')
  if (!existsSync(main))
    throw new Usage(`--server ${folder}: it has no dist/src/app/main.js; run its set-up first`)
  const tries = Math.max(1, numberOf('tries', options.tries, 200))
  const policies = POLICY_FORMS.slice(0, Math.max(1, numberOf('forms', options.forms, POLICY_FORMS.length)))
  const rows = numberOf('rows', options.rows, 1_000_000)
  const server = await startWeir({ main })
  print(
    `leaks: ${policies.length} policies, ${CONDITION_FORMS.length} questions, ${tries} tries of each guess`,
  )
  await leaks(server, policies, tries)
  if (rows > 0) await cost(server, rows, numberOf('rounds', options.rounds, 7))
  const end = await server.stop()
  print(row('stopped', `${end.code ?? end.signal}`))
}

// ── leaks ───────────────────────────────────────────────────────────────────────────────────────

async function leaks(server: TestServer, policies: readonly PolicyForm[], tries: number): Promise<void> {
  const pool = await leakPool(server)
  print(cells('policy', 'question', 'right ms', 'wrong ms', 'more ms', 'z', 'MiB more'))
  let [differing, unequal] = [0, 0]
  const growths: number[] = []
  for (const policy of policies) {
    const reader = await readerOf(server, pool, policy)
    for (const condition of CONDITION_FORMS) {
      const found = await compare(server, pool, reader, condition, tries)
      const isDifferent = Math.abs(found.z) > Z_MAX
      if (isDifferent) differing += 1
      if (!found.isEqual) unequal += 1
      growths.push(Math.abs(found.moreMiB))
      const { rightMs, wrongMs, z, moreMiB } = found
      const figures = [rightMs, wrongMs, rightMs - wrongMs].map(ms => ms.toFixed(2))
      const marks = `${isDifferent ? '  differs' : ''}${found.isEqual ? '' : '  ANSWERS DIFFER'}`
      print(cells(policy.name, condition.name, ...figures, z.toFixed(1), moreMiB.toFixed(1)) + marks)
    }
  }
  const pairs = policies.length * CONDITION_FORMS.length
  print(
    row('pairs whose times differ', `${differing} of ${pairs}; chance gives ${(CHANCE * pairs).toFixed(1)}`),
  )
  print(row('pairs whose answers or errors differ', `${unequal} of ${pairs}`))
  const [middle, largest] = [median(growths), Math.max(...growths)]
  print(
    row('peak memory, right against wrong', `median ${middle.toFixed(1)}, largest ${largest.toFixed(1)} MiB`),
  )
}

async function leakPool(server: TestServer): Promise<TestPool> {
  const pool = await server.createPool({
    columns: LEAK_COLUMNS,
    timestamp: 'ts',
    uniqueId: 'id',
    tenant: 'tenant',
  })
  const rows = Array.from({ length: VISIBLE_ROWS }, (_, index) => visibleRow(index))
  rows.splice(Math.floor(VISIBLE_ROWS / 3), 0, hiddenRow())
  for (let from = 0; from < rows.length; from += POST_ROWS) {
    const body = JSON.stringify(rows.slice(from, from + POST_ROWS))
    const answer = await fetch(pool.url, { method: 'POST', headers: JSON_TYPE, body })
    if (answer.status !== 200) throw new Error(`POST answered ${answer.status}: ${await answer.text()}`)
    await answer.arrayBuffer()
  }
  await settled(server, pool, rows.length)
  await closePool(server, pool)
  return pool
}

interface Compared {
  readonly rightMs: number
  readonly wrongMs: number
  /** It is above 0 where the right guess takes longer. */
  readonly z: number
  readonly isEqual: boolean
  readonly moreMiB: number
}

async function compare(
  server: TestServer,
  { poolId }: TestPool,
  token: string,
  condition: ConditionForm,
  tries: number,
): Promise<Compared> {
  const guesses = [condition.right, condition.wrong].map(guess =>
    JSON.stringify(condition.ask(poolId, guess)),
  )
  const answers = guesses.map(() => new Set<string>())
  const times: [number[], number[]] = [[], []]
  for (let n = -WARM_TRIES; n < tries; n++) {
    const order = Math.random() < 0.5 ? ([0, 1] as const) : ([1, 0] as const)
    for (const which of order) {
      const begin = performance.now()
      answers[which]?.add(await ask(server, '/v1/query', token, guesses[which] ?? ''))
      if (n >= 0) times[which].push(performance.now() - begin)
    }
  }
  const peaks: number[] = []
  for (const guess of guesses) peaks.push(await peakMiB(server, token, guess))
  const [right = new Set(), wrong = new Set()] = answers
  return {
    rightMs: median(times[0]),
    wrongMs: median(times[1]),
    z: signedRanks(times[0].map((ms, index) => ms - (times[1][index] ?? 0))),
    isEqual: right.size === 1 && wrong.size === 1 && [...right][0] === [...wrong][0],
    moreMiB: (peaks[0] ?? 0) - (peaks[1] ?? 0),
  }
}

/** The most memory of the query process while a guess is asked. */
async function peakMiB(server: TestServer, token: string, body: string): Promise<number> {
  const pid = queryProcess(server)
  if (pid === undefined) throw new Error('there is no query process')
  writeFileSync(`/proc/${pid}/clear_refs`, '5') // the peak begins anew
  for (let n = 0; n < MEMORY_TRIES; n++) await ask(server, '/v1/query', token, body)
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}

/**
 * Wilcoxon's signed-rank test of differences: its z, 0 where all are 0. Ties have the mean rank.
 */
function signedRanks(differences: readonly number[]): number {
  const sorted = differences.filter(each => each !== 0).sort((a, b) => Math.abs(a) - Math.abs(b))
  const n = sorted.length
  if (n === 0) return 0
  let sum = 0
  for (let from = 0; from < n; ) {
    let to = from
    while (to < n && Math.abs(sorted[to] ?? 0) === Math.abs(sorted[from] ?? 0)) to += 1
    const rank = (from + 1 + to) / 2
    for (let at = from; at < to; at++) sum += Math.sign(sorted[at] ?? 0) * rank
    from = to
  }
  return sum / Math.sqrt((n * (n + 1) * (2 * n + 1)) / 6)
}

// ── cost ────────────────────────────────────────────────────────────────────────────────────────

const READERS: readonly PolicyForm[] = [
  { name: 'no policy on rows' },
  { name: 'a policy, all visible', filterSql: 'quantity >= 0' },
  { name: 'a policy, a tenth visible', filterSql: "starts_with(tenant, 'tenant-01')" },
]

async function cost(server: TestServer, rows: number, rounds: number): Promise<void> {
  const pool = await server.createPool({
    columns: [...BENCH_COLUMNS],
    timestamp: 'time',
    uniqueId: 'id',
    tenant: 'tenant',
  })
  await post(pool.url, 0, rows, 1, 0)
  await settled(server, pool, rows)
  await closePool(server, pool)
  const readers: string[] = []
  for (const policy of READERS) readers.push(await readerOf(server, pool, policy))
  print(`\nms of a question over ${rows} rows, median of ${rounds}`)
  print(cells('', '', ...READERS.map(({ name }) => name)))
  for (const { name, document, input } of QUESTIONS(rows)) {
    const body = JSON.stringify({ query: document, variables: { input: input(pool.poolId) } })
    const times = readers.map((): number[] => [])
    for (let n = -1; n < rounds; n++)
      for (const [index, token] of readers.entries()) {
        const begin = performance.now()
        const answer = await ask(server, '/graphql', token, body)
        if (answer.includes('"errors"')) throw new Error(answer)
        if (n >= 0) times[index]?.push(performance.now() - begin)
      }
    print(cells(name, '', ...times.map(each => median(each).toFixed(1))))
  }
}

// ── readers ─────────────────────────────────────────────────────────────────────────────────────

const JSON_TYPE = { 'content-type': 'application/json' }

/** From now on policies say who sees what of the pool. */
async function closePool(server: TestServer, { poolId }: TestPool): Promise<void> {
  await change(
    server,
    'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { ... on DataPoolResponse { dataPool { id } } } }',
    { idOrUniqueName: { id: poolId }, accessControlEnabled: true },
  )
}

/** The token of a new application that has a new policy. */
async function readerOf(server: TestServer, pool: TestPool, form: PolicyForm): Promise<string> {
  const { rows = [], filterSql = null, values } = form
  const made = await change<{ createApplication: { application: { id: string; secret: string } } }>(
    server,
    'mutation ($input: createApplicationInput!) { createApplication(input: $input) { ... on ApplicationResponse { application { id secret } } } }',
    { propeller: 'P1_X_LARGE' },
  )
  const { id, secret } = made.createApplication.application
  const policy = await change<{ createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } } }>(
    server,
    'mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { id } } }',
    { dataPool: pool.poolId, columns: ['*'], rows, filterSql },
  )
  const policyId = policy.createDataPoolAccessPolicy.dataPoolAccessPolicy.id
  await change(
    server,
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policyId}", application: "${id}") }`,
  )
  const credentials = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: id,
    client_secret: secret,
    ...(values === undefined ? {} : { policy_values: JSON.stringify(values) }),
  })
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body: credentials })
  if (answer.status !== 200) throw new Error(`token: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { access_token: string }).access_token
}

async function change<T>(server: TestServer, document: string, input?: object): Promise<T> {
  const { data, errors } = await server.graphql<T>(document, input === undefined ? undefined : { input })
  if (errors !== undefined) throw new Error(JSON.stringify(errors))
  return data
}

/** The status and the text of an answer. */
async function ask(server: TestServer, path: string, token: string, body: string): Promise<string> {
  const headers = { ...JSON_TYPE, authorization: `Bearer ${token}` }
  const answer = await fetch(`${server.base}${path}`, { method: 'POST', headers, body })
  return `${answer.status} ${await answer.text()}`
}

const WIDTHS = [44, 34]

function cells(...texts: readonly string[]): string {
  return texts
    .map((text, at) => (at < WIDTHS.length ? text.padEnd(WIDTHS[at] ?? 0) : text.padStart(10)))
    .join(' ')
}
