/** `npm run bench -- <question> [--option value …]`: one question per file. Without arguments: the list. */
import { parseArgs } from 'node:util'
import { benchChurn } from './churn.ts'
import { benchExport } from './export.ts'
import { benchKernel } from './kernel.ts'
import { benchKeys } from './keys.ts'
import { benchMerges } from './merges.ts'
import { benchPath } from './path.ts'
import { benchPolling } from './polling.ts'
import { benchPools } from './pools.ts'
import { benchSeals } from './seals.ts'

const QUESTIONS = {
  churn: {
    run: benchChurn,
    asks: 'do 10M rows stay fast and small through 2M updates and 500k deletes, and ingest beside compaction?',
  },
  export: {
    run: benchExport,
    asks: 'how fast do rows leave as an Arrow stream and as files, and in how much memory?',
  },
  kernel: { run: benchKernel, asks: 'how many events a second does each JSON kernel cut on one core?' },
  keys: {
    run: benchKeys,
    asks: 'what does the key index take, per key on disk, per seal, to restart and to rebuild?',
  },
  merges: {
    run: benchMerges,
    asks: 'what does a merge of tiny segments cost, and does its memory go back?',
  },
  path: {
    run: benchPath,
    asks: 'how many events a second are acknowledged, sealed and counted, against ClickHouse and bare HTTP?',
  },
  pools: { run: benchPools, asks: 'do 2,000 pools with one event a second each hold steady?' },
  polling: { run: benchPolling, asks: 'do ten counter queries a second leave few segments behind?' },
  seals: { run: benchSeals, asks: 'what does each step of a seal cost, by the order in which keys come?' },
} as const

const [name = '', ...rest] = process.argv.slice(2)
const question = Object.entries(QUESTIONS).find(([known]) => known === name)?.[1]
if (question === undefined) {
  const lines = Object.entries(QUESTIONS).map(
    ([known, one]) => `  npm run bench -- ${known.padEnd(10)} ${one.asks}`,
  )
  process.stdout.write(`${lines.join('\n')}\n`)
} else {
  const { values } = parseArgs({
    args: rest,
    options: {
      seconds: { type: 'string' },
      rate: { type: 'string' },
      pairs: { type: 'string' },
      connections: { type: 'string' },
      kernel: { type: 'string' },
      keys: { type: 'string' },
      pattern: { type: 'string' },
      rounds: { type: 'string' },
      'no-peers': { type: 'boolean' },
      only: { type: 'string' },
      minutes: { type: 'string' },
      pools: { type: 'string' },
      rows: { type: 'string' },
      updates: { type: 'string' },
      deletes: { type: 'string' },
      python: { type: 'string' },
    },
  })
  await question.run(values)
}
