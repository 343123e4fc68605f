/**
 * `npm run bench -- <question> [--option value …]`: one question per file. Without arguments: the list.
 *
 * Exit 0: the figures stand; 1: something is wrong beside them (lines in capitals), or the bench failed; 2: it was asked wrongly.
 */
import { parseArgs } from 'node:util'
import { CannotRun } from '../src/errors.ts'
import { benchChurn } from './churn.ts'
import { benchExport } from './export.ts'
import { benchKernel } from './kernel.ts'
import { benchKeys } from './keys.ts'
import { guardLeftovers, isInterrupted, leaveNothing } from './leftovers.ts'
import { benchMerges } from './merges.ts'
import { OPTIONS, type OptionName, Usage } from './options.ts'
import { benchPath } from './path.ts'
import { benchPolling } from './polling.ts'
import { benchPools } from './pools.ts'

const QUESTIONS = {
  churn: {
    run: benchChurn,
    asks: 'do 10M rows stay fast and small through 2M updates and 500k deletes, and ingest beside compaction?',
    takes: ['rows', 'updates', 'deletes', 'seconds', 'pairs', 'connections'],
  },
  export: {
    run: benchExport,
    asks: 'how fast do rows leave as an Arrow stream and as files, and in how much memory?',
    takes: ['rows', 'connections', 'python'],
  },
  kernel: {
    run: benchKernel,
    asks: 'how many events a second does each JSON kernel cut on one core?',
    takes: ['rounds'],
  },
  keys: {
    run: benchKeys,
    asks: 'what does the key index take, per key on disk, per seal, to restart and to rebuild?',
    takes: ['keys', 'kernel', 'pattern'],
  },
  merges: {
    run: benchMerges,
    asks: 'what does a merge of tiny segments cost, and does its memory go back?',
    takes: ['rows', 'seconds', 'updates'],
  },
  path: {
    run: benchPath,
    asks: 'how many events a second are acknowledged, sealed and counted, how late, against ClickHouse, PostgreSQL and bare HTTP?',
    takes: ['seconds', 'pairs', 'connections', 'only', 'rate', 'kernel', 'no-peers', 'generator', 'pause'],
  },
  pools: {
    run: benchPools,
    asks: 'do 2,000 pools with one event a second each hold steady?',
    takes: ['minutes', 'pools', 'rate', 'connections'],
  },
  polling: {
    run: benchPolling,
    asks: 'do ten counter queries a second leave few segments behind?',
    takes: ['seconds', 'rate'],
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
  await question.run(values)
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
}

await main(process.argv.slice(2))
