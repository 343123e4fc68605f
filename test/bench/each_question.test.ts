/**
 * Every question of the bench runs to its end with tiny sizes, prints the figures that it promises,
 * and leaves nothing behind. CI tries three, `npm run test:long` all.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { noCluster } from '../cluster/nodes.ts'
import { FakeS3 } from '../tools/bucket/fake-s3.ts'
import { alive, barePath, familyWith, startBench } from './run.ts'

interface Smoke {
  readonly args: readonly string[]
  readonly prints: readonly RegExp[]
}

/** One that starts a server and a load, one with DuckDB beside it, and one without a server. */
const TRIED = process.env['WEIR_TEST_LONG'] === '1' ? undefined : new Set(['path', 'query', 'keys'])

const RATE = String.raw`[\d.]+[kMG]? `

const QUESTIONS: Readonly<Record<string, Smoke>> = {
  abuse: {
    args: ['--only', 'half-sent', '--seconds', '0.5', '--http', 'uws'],
    prints: [/^attack +http +calm ms/m, /half-sent control requests +uws +\d+ +\d+ +\d+, \d+ +0 of \d+/],
  },
  'add-column': {
    args: '--seconds 2 --connections 2 --rounds 2'.split(' '),
    prints: [
      /ack before +p50 .* p99 .* no errors/,
      /ack while columns are added +p50 .* p99 .* no errors/,
      /ack after +p50 .* p99 .* no errors/,
      /a job +2 columns, p50 \d+ ms, max \d+ ms/,
    ],
  },
  backup: {
    args: '--bucket s3://bucket/bench --rows 2000 --seconds 1 --connections 2'.split(' '),
    prints: [
      /first backup +[\d.]+ s: backup of sequence/,
      /after 1 % of changes +[\d.]+ s: .* of them sent, as/,
      /restored rows +2000, all equal/,
      /ack before +p50 .* p99 .* no errors/,
      /ack beside a backup into the bucket +p50 .* p99 .* no errors/,
      /ack after +p50 .* p99 .* no errors/,
    ],
  },
  churn: {
    args: '--rows 2000 --updates 500 --deletes 500 --seconds 0.5 --pairs 1'.split(' '),
    prints: [
      /rows posted +2000 in .* events\/s/,
      /counters before +p50 \d+ ms .* p99 \d+ ms/,
      /updated and deleted +1000 in/,
      /ingest beside compaction against without +[\d.]+ ×/,
      /compaction ends +[\d.]+ min/,
      /disk after compaction +segment [\d.]+k?M?B, index/,
      /rows visible +1500, as posted/,
      /weir verify +exit 0/,
      /verdict +rows and sum equal the model/,
    ],
  },
  cluster: {
    args: '--seconds 1 --pairs 1 --connections 2 --pools 25'.split(' '),
    prints: [
      /^ *idle +of one core: node [\d.]+ %, servers [\d.]+ %, Keeper [\d.]+ %$/m,
      /Weir +\S+ events\/s, [\d.]+ us of CPU an event \(node .*\), acks p50 \d+ ms, p99 \d+ ms$/m,
      /ClickHouse +\S+ events\/s, [\d.]+ us of CPU an event \(.*\), acks /,
      /CPU of Weir \/ alone +[\d.]+ x/,
      /25 active pools +\S+ events\/s, acks .*, 0 refused$/m,
    ],
  },
  console: {
    args: '--seconds 0.5 --pairs 1 --rows 1000'.split(' '),
    prints: [
      /^no Chromium|^ +walk: … → stored, and seen +\d+ clicks, \d+ fields, [\d.]+ s$/m,
      /^no Chromium|^ +first page +\S+, goal /m,
      /^no Chromium|^ +scrolling, 1000 rows +\d+ frames\/s, /m,
      /^ +single events, ratio +[\d.]+ ×, goal /m,
    ],
  },
  container: {
    args: '--seconds 1'.split(' '),
    prints: [
      /no memory cgroup can be made|^ *a sort that spills +acks \d+ batches, p99 \d+ ms, \d+ failed; counters \d+, p99/m,
      /no memory cgroup can be made|acknowledged batches, and those not whole +[1-9]\d* and 0$/m,
    ],
  },
  export: {
    args: '--rows 1000'.split(' '),
    prints: [
      /Arrow route +\S+ rows\/s, .* MB\/s/,
      /weir export zstd.parquet +\S+ rows\/s/,
      /weir export rows.ndjson +\S+ rows\/s/,
      /rows.ndjson: rows +1000$/m,
      /rows.arrow: rows +1000$/m,
    ],
  },
  graphql: {
    args: '--seconds 0.2'.split(' '),
    prints: [
      /counter, cached document: weir +\d+ requests\/s of processor time$/m,
      /dataPools\(first: 100\), 12 fields each: weir +\d+ requests\/s of processor time$/m,
    ],
  },
  import: {
    args: '--rows 20000'.split(' '),
    prints: [
      /ndjson +\S+ rows\/s, .* s of CPU; memory of the server \S+B at most/,
      /ndjson, killed half-way +\S+ rows\/s, .*, resumed behind \S+ rows/,
      /parquet +\S+ rows\/s/,
      /parquet, killed half-way +\S+ rows\/s/,
      /20000 rows, sum \d+, as in the file/,
    ],
  },
  jobs: {
    args: '--rows 2000 --seconds 0.5 --no-peers'.split(' '),
    prints: [
      /^ *backfill +[\d.]+ s, \S+ rows\/s, memory .* segments before and \d+ after$/m,
      /delete \d+ of 2000 +[\d.]+ s, .* disk .* when merges ended$/m,
      /counted meanwhile +\d+ times, never rising, never too few$/m,
      /ingest beside the backfill +\S+ events\/s/,
      /backfill under ingest +[\d.]+ s/,
    ],
  },
  keys: {
    args: '--keys 20000'.split(' '),
    prints: [
      /commit of a flush, all +p50 \d+ ms, p99 \d+ ms, max \d+ ms/,
      /restart: \d+ ms/,
      /rebuild: .* rows\/s, .* bytes a key/,
    ],
  },
  leaks: {
    args: '--tries 2 --forms 1 --rows 1000 --rounds 1'.split(' '),
    prints: [
      /^tenant EQUALS a +a join with one value +[\d.]+ +[\d.]+ +-?[\d.]+ +-?[\d.]+ +-?[\d.]+/m,
      /pairs whose times differ +\d+ of 6; chance gives 0.1$/m,
      /pairs whose answers or errors differ +0 of 6$/m,
      /peak memory, right against wrong +median [\d.]+, largest [\d.]+ MiB$/m,
      /^sum of a tenant +[\d.]+ +[\d.]+ +[\d.]+$/m,
    ],
  },
  merges: {
    args: '--seconds 0.2'.split(' '),
    prints: [
      /merges +\d+$/m,
      /CPU of a merge, all threads +[\d.]+ ms/,
      /anonymous memory, first, half-way, last +\S+, /,
    ],
  },
  micro: {
    args: '--seconds 0.05'.split(' '),
    prints: [
      new RegExp(
        `kernel js, 450-byte events, 6 columns +${RATE}events/s, ${RATE}?B/s, ± [\\d.]+ %, \\d+ samples`,
      ),
      new RegExp(`kernel js, GitHub payloads, 4 columns +${RATE}events/s`),
      new RegExp(`keys js, upsert a run, 100000 stored +${RATE}keys/s, ± `),
      new RegExp(`read a delete file +${RATE}keys/s, ${RATE}?B/s`),
      new RegExp(`write its SQL +${RATE}statements/s`),
    ],
  },
  parquet: {
    args: '--rows 1000 --rounds 1'.split(' '),
    prints: [
      /encode, js +[\d.]+ ms CPU, \S+B in, file \S+B/,
      /encode, native +[\d.]+ ms CPU|native +not built/,
      /bytes of all payloads, js +[\d.]+ ms CPU/,
    ],
  },
  path: {
    args: '--seconds 0.5 --pairs 1 --pause 0 --connections 4'.split(' '),
    prints: [
      /^machine: \d+ cores, .+, Node v\d+\S+, kernel (native|js), commit \w+/m,
      /^generator: Node, not wrk \(apt-get install wrk\)/m,
      /no ClickHouse +clickhouse-server is not installed/,
      /no PostgreSQL +it is not installed|PostgreSQL 1 +\S+ events\/s, .* no errors/,
      /Weir 1 +\S+ events\/s, ack p50 [\d.]+ ms, p99 [\d.]+ ms, max \d+ ms, no errors/,
      /server CPU [\d.]+ s \(\S+ events per CPU-second\), generator \(node\) CPU/,
      /a counter equals \d+ acknowledged \d+ ms after the load/,
      /on disk: segment \S+B, index \S+B, log \S+B/,
      /CPU by thread: .*weir-/,
      /Weir, median +\S+ events\/s/,
      /P-3, acks +p50 [\d.]+ ms, p99 [\d.]+ ms, .*goal p99 25 ms: (met|MISSED)/,
      /P-6, acknowledged → counted, under load +p50 \d+ ms, p99 \d+ ms, .* of [1-9]\d* probes/,
      /P-6, acknowledged → counted, idle +p50 \d+ ms, p99 \d+ ms, .* of [1-9]\d* probes$/m,
      /W-11, event-loop delay +p99 [\d.]+ ms, max/,
      /uWebSockets.js dropping the body 1 +\S+ req\/s/,
      /Weir 1, 64 connections +\S+ req\/s, p50 .* no errors/,
      /ack p50, 1 connection +-?[\d.]+ ms above one sync \(goal /,
      /ratio, 1024 connections +[\d.]+ × \(goal of P-2/,
      /full batches, node:http against uws +[\d.]+ ×.*goal 0.85|only node:http runs here/,
    ],
  },
  control: {
    args: '--pools 30 --seconds 0.5 --connections 2'.split(' '),
    prints: [
      /start to ready +\d+ ms/,
      /dataPools, the page before +p50 \d+ ms/,
      /createWebhookDataSource +p50 \d+ ms/,
      /no caller +ack p50 \d+ ms/,
      /counter, 2 clients +\S+ requests\/s, p50 .*; ack p50 \d+ ms/,
      /dataPools, 2 clients +\S+ requests\/s/,
    ],
  },
  polling: {
    args: '--seconds 2 --rate 500'.split(' '),
    prints: [
      /after \d+ s +\d+ segments, .* counter p50 \d+ ms/,
      /counter (\d+), sent \1$/m,
      /an hour, .* \d+ segments/,
    ],
  },
  query: {
    args: '--rows 5000 --rounds 1 --seconds 0.5 --connections 2 --only sum --no-peers'.split(' '),
    prints: [
      /^clean +weir ms \(cold\) +duckdb ms \(cold\)/m,
      /^sum of a tenant +[\d.]+ \(\d+\) +[\d.]+ \(\d+\) +[\d.]+ ×$/m,
      /^10 % superseded/m,
      /a tenant's counter, 64 clients +\d+ queries\/s/,
    ],
  },
  'query-kills': {
    args: '--rows 1000 --seconds 3 --connections 2 --rounds 1'.split(' '),
    prints: [
      /acks alone +p50 .* p99 .* no errors$/m,
      /acks beside 16 clients +p50 .* no errors; queries: \d+\/s, 0 failed$/m,
      /acks with 1 kills +p50 .* no errors; queries: \d+\/s, \d+ failed$/m,
      /the next answer +p50 \d+ ms, max \d+ ms/,
      /acknowledged and counted +(\d+) and \1$/m,
    ],
  },
  readers: {
    args: '--only calm --seconds 1'.split(' '),
    prints: [
      /^calm +[1-9]\d* +\d+ +\d+ +\d+ +0 +\d+ +0 +\d+ +0$/m,
      /memory at most: server \d+ MiB, .*weir-query \d+ MiB.*; disk: \d+ MiB free before, \d+ at least$/m,
    ],
  },
  received: {
    args: '--seconds 0.3 --connections 8'.split(' '),
    prints: [
      /singles with 4 ids/,
      /batches with 4 ids/,
      /first start +\S+ more, (\d+) acknowledged, \1 rows: nothing lost; ahead of the clock .* \d+ ms$/m,
      /after kill -9, clock 1 h back +\S+ more, (\d+) acknowledged, \1 rows: nothing lost; /m,
      /index rebuilt, clock 2 h back +\S+ more, (\d+) acknowledged, \1 rows: nothing lost; /m,
    ],
  },
  flushes: {
    args: '--rounds 1 --pattern rising'.split(' '),
    prints: [
      /rising +deduplicate [\d.]+, gather .*; all [\d.]+ ms, \S+B\/s, file \d+ bytes|the native module is not built/,
    ],
  },
  pools: {
    args: '--minutes 0.02 --pools 8 --rate 50'.split(' '),
    prints: [
      /pools created +8 in/,
      /after [\d.]+ min +\d+ files/,
      /CPU by thread +.*main/,
      /restart after kill -9 +[\d.]+ s/,
      /acknowledged +\d+ of \d+ sent; 8 of 8 sampled pools count them/,
      /counts +equal/,
    ],
  },
  rejected: {
    args: '--seconds 0.3 --minutes 0.03 --connections 4 --pairs 1'.split(' '),
    prints: [
      /^ +half bad, counted +\S+ good events\/s, p50 /m,
      /^ +kept, against counted +[\d.]+ × the good events$/m,
      /^ +good beside garbage +p50 /m,
      /rejected-rows: [1-9]\d* kept/,
      /^ +told in the log +[1-9]/m,
    ],
  },
  senders: {
    args: '--seconds 0.3 --connections 4 --pairs 1'.split(' '),
    prints: [
      /^ +no settings +[\d.]+ µs a request, 0\.0 µs more$/m,
      /^ +GITHUB .* +[\d.]+ µs a request, -?[\d.]+ µs more$/m,
      /^ +a column of a header +[\d.]+ µs a request, /m,
    ],
  },
  traces: {
    args: '--seconds 0.3 --connections 4 --pairs 1'.split(' '),
    prints: [
      /^ +off +[\d.]+ µs a request, 1\.00 × off$/m,
      /^ +1 % +[\d.]+ µs a request, [\d.]+ × off$/m,
      /^ +100 % .* exported \S+$/m,
    ],
  },
  starvation: {
    args: '--only calm --seconds 1 --rows 1000'.split(' '),
    prints: [
      /^calm +counters +[1-9]\d* +0 +\d+ +\d+$/m,
      /^calm +exports +[1-9]\d* +0 +\d+ +\d+$/m,
      /^calm +posts +[1-9]\d* +0 +\d+ +\d+$/m,
    ],
  },
  tail: {
    args: '--seconds 1 --connections 2 --readers 5'.split(' '),
    prints: [
      /^ +no reader +\S+ events\/s, ack p50 .* no errors/m,
      /^ +5 readers, 1 read nothing +\S+ events\/s, ack p50 .* no errors/m,
      /^ +a reader +saw \S+ and was told of \S+ more, of \S+$/m,
    ],
  },
  soak: {
    args: '--minutes 0.03 --pools 4 --rows 1000'.split(' '),
    prints: [
      /after [\d.]+ min +anonymous \S+B, peak \S+B, shared \S+B, \d+ files, \d+ descriptors, log \S+B, \d+ threads/,
      /anonymous +\S+, [+-]/,
      /counts +equal/,
    ],
  },
  viewers: {
    args: '--rows 1000 --seconds 1 --readers 5 --rate 100 --no-peers'.split(' '),
    prints: [
      /^ +the third look at each page, one after the other +[\d.]+ s$/m,
      /^ +answers a second +[1-9]\d*$/m,
      /^ +refused \(429\), failed +0, 0$/m,
      /^ +runs of the engine, kept answers given +\S+, \S+$/m,
    ],
  },
}

const bucket = await FakeS3.start()
Object.assign(process.env, bucket.environment)
afterAll(() => bucket.stop())

describe.concurrent('the bench', () => {
  test('lists its questions, and each has its figures here', async () => {
    const { code, output } = await startBench([]).ended
    const listed = [...output.matchAll(/bench -- ([\w-]+)/g)].map(([, name]) => name)
    expect({ code, listed: listed.sort() }).toEqual({ code: 0, listed: Object.keys(QUESTIONS).sort() })
  })

  const tried = Object.entries(QUESTIONS).filter(
    ([name]) => (TRIED?.has(name) ?? true) && (name !== 'cluster' || noCluster === undefined),
  )
  test.each(tried)('answers: %s', async (name, { args, prints }) => {
    // The servers of the cluster are looked for in the path.
    const path = name === 'cluster' ? process.env['PATH']! : barePath()
    const { code, output, left } = await startBench([name, ...args], path).ended
    expect({ code, left }, output).toEqual({ code: 0, left: [] })
    for (const line of prints) expect(output).toMatch(line)
    expect(output).not.toMatch(/NaN|Infinity|undefined|DIFFER|ERRORS|FAILED/)
  })

  test.each([
    [['paths'], /there is no question 'paths'/],
    [['path', '--second', '3'], /Unknown option '--second'/],
    [['micro', '--rows', '3'], /micro takes --only, --seconds, not --rows/],
    [['path', '--seconds', 'ten'], /--seconds takes a number, not 'ten'/],
    [['path', '--only', 'batch'], /--only takes one of batches, paced, singles, http, not 'batch'/],
    [['path', '--generator', 'wrk'], /--generator wrk: it is not installed/],
    [['keys', '--kernel', 'cpp'], /--kernel takes one of native, js/],
  ])('says in a line what is wrong with %j', async (args, line) => {
    const { code, output } = await startBench(args, barePath()).ended
    expect(code, output).toBe(2)
    expect(output).toMatch(line)
    expect(output).not.toMatch(/\n {4}at /)
  })
  test('leaves nothing after Ctrl-C', async () => {
    const args = 'path --only batches --no-peers --seconds 600 --pause 0 --connections 2'.split(' ')
    const bench = startBench(args, barePath())
    const family = await familyWith(bench, /generator\.js generator/)
    expect(family.some(one => /main\.js start/.test(one.command))).toBe(true)
    bench.child.kill('SIGINT')
    const { code, output, left } = await bench.ended
    expect({ code, left }, output).toEqual({ code: 130, left: [] })
    expect(alive(family)).toEqual([])
  })
})
