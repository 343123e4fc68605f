/**
 * `npm run bench -- <question> [--option value …]`: one question per file. Without arguments it
 * prints the list.
 *
 * Exit code 0: the figures are valid. 1: a line in capitals says what is wrong, or the bench
 * failed. 2: the command line is wrong.
 */
import { parseArgs } from 'node:util'
import { CannotRun } from '../src/util/errors.ts'
import { guardLeftovers, isInterrupted, leaveNothing } from './leftovers.ts'
import { describeMachine } from './machine.ts'
import { OPTIONS, type OptionName, Usage } from './options.ts'

/** The questions. The code of a question is loaded when it is asked. */
const QUESTIONS = {
  abuse: {
    load: async () => (await import('./abuse.ts')).benchAbuse,
    asks: 'what does each attack do to another client’s acks and to memory, in this build or another?',
    takes: ['server', 'only', 'http', 'seconds'],
  },
  'add-column': {
    load: async () => (await import('./add-column.ts')).benchAddColumn,
    asks: 'how late are acks at full ingest before, while and after columns are added?',
    takes: ['seconds', 'connections', 'rounds'],
  },
  backup: {
    load: async () => (await import('./backup.ts')).benchBackup,
    asks: 'what does a backup of 5M rows into a bucket cost, first, second and beside ingest, and is it equal?',
    takes: ['bucket', 'rows', 'seconds', 'connections'],
  },
  churn: {
    load: async () => (await import('./churn.ts')).benchChurn,
    asks: 'do 10M rows stay fast and small through 2M updates and 500k deletes, and ingest beside compaction?',
    takes: ['rows', 'updates', 'deletes', 'seconds', 'pairs', 'connections'],
  },
  cluster: {
    load: async () => (await import('./cluster.ts')).benchCluster,
    asks: 'what does an event cost in a cluster, beside ClickHouse alone, and how many pools may be active?',
    takes: ['seconds', 'connections', 'pairs', 'pools'],
  },
  container: {
    load: async () => (await import('./container.ts')).benchContainer,
    asks: 'what ends and what goes on when the memory of a container is used up, and is anything lost?',
    takes: ['memory', 'seconds'],
  },
  control: {
    load: async () => (await import('./control.ts')).benchControl,
    asks: 'what do 10,000 pools cost at start and in lists, and 16 callers of the management API beside ingest?',
    takes: ['pools', 'seconds', 'connections'],
  },
  export: {
    load: async () => (await import('./export.ts')).benchExport,
    asks: 'how fast do rows leave as an Arrow stream and as files, and in how much memory?',
    takes: ['rows', 'connections', 'python'],
  },
  graphql: {
    load: async () => (await import('./graphql.ts')).benchGraphql,
    asks: 'how many GraphQL requests a second of processor time, beside other handlers?',
    takes: ['seconds', 'packages'],
  },
  import: {
    load: async () => (await import('./import.ts')).benchImport,
    asks: 'how fast does a file of 5 GB load, as NDJSON and as Parquet, and after a kill half-way?',
    takes: ['rows'],
  },
  jobs: {
    load: async () => (await import('./jobs.ts')).benchJobs,
    asks: 'what do a backfill of 10M rows from the payload and a deletion of a fifth of them cost?',
    takes: ['rows', 'seconds', 'connections', 'no-peers'],
  },
  keys: {
    load: async () => (await import('./keys.ts')).benchKeys,
    asks: 'what does the key index cost: per key on disk, per flush, at a restart and at a rebuild?',
    takes: ['keys', 'kernel', 'pattern'],
  },
  leaks: {
    load: async () => (await import('./leaks.ts')).benchLeaks,
    asks: 'does time, an error or memory tell of a row that a policy hides, in this build or another?',
    takes: ['server', 'tries', 'forms', 'rows', 'rounds'],
  },
  merges: {
    load: async () => (await import('./merges.ts')).benchMerges,
    asks: 'what does a merge of tiny segments cost, and does its memory return?',
    takes: ['rows', 'seconds', 'updates'],
  },
  micro: {
    load: async () => (await import('./micro.ts')).benchMicro,
    asks: 'what does a call of the kernels, the key loops, the codecs and the dialect cost?',
    takes: ['only', 'seconds'],
  },
  parquet: {
    load: async () => (await import('./parquet.ts')).benchParquet,
    asks: 'what does a flush’s Parquet file cost to write and to read, with each encoder?',
    takes: ['rows', 'rounds'],
  },
  path: {
    load: async () => (await import('./path.ts')).benchPath,
    asks: 'how many events a second are acknowledged, flushed and counted, and how late, against ClickHouse, PostgreSQL and bare HTTP?',
    takes: ['seconds', 'pairs', 'connections', 'only', 'rate', 'kernel', 'no-peers', 'generator', 'pause'],
  },
  pools: {
    load: async () => (await import('./pools.ts')).benchPools,
    asks: 'do 2,000 pools with one event a second each hold steady?',
    takes: ['minutes', 'pools', 'rate', 'connections'],
  },
  polling: {
    load: async () => (await import('./polling.ts')).benchPolling,
    asks: 'do ten counter queries a second leave few segments behind?',
    takes: ['seconds', 'rate'],
  },
  query: {
    load: async () => (await import('./query.ts')).benchQuery,
    asks: 'how fast is each kind of question over 10M rows, beside DuckDB, ClickHouse and PostgreSQL?',
    takes: ['rows', 'rounds', 'seconds', 'connections', 'only', 'no-peers'],
  },
  'query-kills': {
    load: async () => (await import('./query-kills.ts')).benchQueryKills,
    asks: 'how late are acks at full ingest beside queries, and while the query process is killed?',
    takes: ['rows', 'seconds', 'connections', 'rounds'],
  },
  readers: {
    load: async () => (await import('./readers.ts')).benchReaders,
    asks: 'what do attacks of readers do to another application’s queries, memory and disk, in this build or another?',
    takes: ['server', 'only', 'seconds'],
  },
  received: {
    load: async () => (await import('./received.ts')).benchReceived,
    asks: 'is every acknowledged event stored when ids repeat, over restarts and with the clock set back?',
    takes: ['seconds', 'connections'],
  },
  console: {
    load: async () => (await import('./console.ts')).benchConsole,
    asks: 'how soon is the console there, does its grid scroll, and what do ten open consoles cost ingest?',
    takes: ['seconds', 'pairs', 'rows'],
  },
  flushes: {
    load: async () => (await import('./flushes.ts')).benchFlushes,
    asks: 'what does each step of a flush cost, by the order of keys?',
    takes: ['pattern', 'rounds'],
  },
  rejected: {
    load: async () => (await import('./rejected.ts')).benchRejected,
    asks: 'what do refused events cost, those who send them and those beside them?',
    takes: ['seconds', 'minutes', 'pairs', 'connections'],
  },
  traces: {
    load: async () => (await import('./traces.ts')).benchTraces,
    asks: 'what does tracing cost a request: off, at 1 % and at 100 %?',
    takes: ['seconds', 'pairs', 'connections', 'server'],
  },
  senders: {
    load: async () => (await import('./senders.ts')).benchSenders,
    asks: 'what does a signature cost a request, and what a column that reads a header?',
    takes: ['seconds', 'pairs', 'connections'],
  },
  soak: {
    load: async () => (await import('./soak.ts')).benchSoak,
    asks: 'do memory, files, log and threads stay the same over 30 minutes of updates, deletes, polling and compaction?',
    takes: ['minutes', 'pools', 'rows'],
  },
  starvation: {
    load: async () => (await import('./starvation.ts')).benchStarvation,
    asks: 'what does one application’s load do to another’s counters, statements, exports, lists and posts?',
    takes: ['server', 'only', 'seconds', 'rows'],
  },
  tail: {
    load: async () => (await import('./tail.ts')).benchTail,
    asks: 'what do readers of a live tail cost full ingest, and do they hear of every event?',
    takes: ['seconds', 'readers', 'connections'],
  },
  viewers: {
    load: async () => (await import('./viewers.ts')).benchViewers,
    asks: 'how many viewers of dashboards does a server bear over 10M rows that change meanwhile, beside peers?',
    takes: ['server', 'rows', 'seconds', 'readers', 'rate', 'pattern', 'only', 'no-peers'],
  },
} as const

function list(): string {
  const lines = Object.entries(QUESTIONS).map(
    ([name, one]) =>
      `  npm run bench -- ${name.padEnd(10)} ${one.asks}\n  ${''.padEnd(27)} ${one.takes.map(option => `--${option}`).join(' ')}`,
  )
  return `${lines.join('\n')}\n`
}

/** Throws Usage. */
async function ask([name = '', ...rest]: readonly string[]): Promise<void> {
  const question = Object.entries(QUESTIONS).find(([known]) => known === name)?.[1]
  if (question === undefined) throw new Usage(`there is no question '${name}':\n${list()}`)
  let values: ReturnType<typeof parse>
  try {
    values = parse(rest)
  } catch (error) {
    throw new Usage((error as Error).message)
  }
  const strange = Object.keys(values).find(given => !(question.takes as readonly string[]).includes(given))
  if (strange !== undefined)
    throw new Usage(`${name} takes ${question.takes.map(one => `--${one}`).join(', ')}, not --${strange}`)
  const run = await question.load()
  for (const line of describeMachine(values.kernel)) process.stdout.write(`${line}\n`)
  await run(values)
}

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options: OPTIONS }).values satisfies Partial<
    Record<OptionName, string | boolean>
  >
}

async function main(args: readonly string[]): Promise<void> {
  if (args.length === 0) {
    process.stdout.write(list())
    return
  }
  guardLeftovers()
  try {
    await ask(args)
  } catch (error) {
    if (isInterrupted()) return
    const isAsked = error instanceof Usage || error instanceof CannotRun
    process.stderr.write(`bench: ${isAsked ? error.message : ((error as Error).stack ?? error)}\n`)
    process.exitCode = isAsked ? 2 : 1
  } finally {
    await leaveNothing()
  }
  process.exit() // a failed question may have left a timer or a connection open
}

await main(process.argv.slice(2))
