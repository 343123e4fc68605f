/**
 * Question: what does each attack of test/abuse do to another client's acks and to the server's
 * memory, and how long did the main thread keep its event loop, before and during it? `--server`
 * names the folder of another checkout that was set up, such as an older commit's.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Attack } from '../test/abuse/attack.ts'
import { ATTACKS } from '../test/abuse/attacks.ts'
import { choosing, type FrontEnd, frontEndsOf, type Outcome, runAttack } from '../test/abuse/run.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { print } from './measure.ts'
import { numberOf, oneOf, Usage } from './options.ts'

interface AbuseOptions {
  readonly server?: string
  readonly seconds?: string
  readonly only?: string
  readonly http?: string
}

/** The goals of test/abuse/suite.ts. Here each attack has a fresh server, so the growth is less. */
const GOALS = 'no ack later than 1000 ms, no growth beyond 200 MiB, nothing refused'

export async function benchAbuse(options: AbuseOptions): Promise<void> {
  const folder = options.server ?? fileURLToPath(new URL('../..', import.meta.url))
  const main = join(resolve(folder), 'dist', 'src', 'app', 'main.js')
  if (!existsSync(main))
    throw new Usage(`--server ${folder}: it has no dist/src/app/main.js; run its set-up first`)
  const seconds = numberOf('seconds', options.seconds, 0)
  const all = frontEndsOf(main)
  const wanted = oneOf('http', options.http, ['uws', 'node'])
  if (wanted !== undefined && !all.includes(wanted))
    throw new Usage(`--http ${wanted}: that build does not have it`)
  const attacks = ATTACKS.filter(({ name }) => options.only === undefined || name.includes(options.only))
  if (attacks.length === 0)
    throw new Usage(
      `--only ${options.only}: no attack has this in its name:\n${ATTACKS.map(one => one.name).join('\n')}`,
    )
  print(`server: ${main}; goals: ${GOALS}`)
  print(
    row(
      'attack',
      'http',
      'calm ms',
      'worst ms',
      'loop ms',
      'failed',
      'MiB more',
      'opened',
      'closed',
      'probes',
    ),
  )
  for (const attack of attacks)
    for (const frontEnd of wanted === undefined ? all : [wanted])
      await one(attack, frontEnd, { main, all, seconds })
}

async function one(
  attack: Attack,
  frontEnd: FrontEnd,
  build: { readonly main: string; readonly all: readonly FrontEnd[]; readonly seconds: number },
): Promise<void> {
  const folder = benchFolder('weir-abuse-')
  const server = { main: build.main, dataDir: join(folder, 'data'), args: choosing(frontEnd, build.all) }
  try {
    print(
      line(
        attack,
        frontEnd,
        await runAttack(attack, server, build.seconds === 0 ? undefined : build.seconds),
      ),
    )
  } finally {
    removeFolder(folder)
  }
}

function line(attack: Attack, frontEnd: FrontEnd, outcome: Outcome): string {
  const failed = Object.entries(outcome.failed).map(([status, count]) => `${count}×${status}`)
  const figures = row(
    attack.name,
    frontEnd,
    outcome.calmMs.toFixed(0),
    outcome.worstMs.toFixed(0),
    `${outcome.calmLoopMs.toFixed(0)}, ${outcome.worstLoopMs.toFixed(0)}`,
    failed.length === 0 ? `0 of ${outcome.requests}` : failed.join(' '),
    outcome.growthMiB.toFixed(0),
    String(outcome.opened),
    String(outcome.closed),
    attack.probe === undefined ? '-' : `${outcome.probesFailed.length} of ${outcome.probes} failed`,
  )
  const more = [...new Set(outcome.probesFailed)].slice(0, 3).map(text => `\n    PROBE: ${text}`)
  if (outcome.ended !== undefined) more.push(`\n    THE SERVER ENDED: ${outcome.ended}`)
  return figures + more.join('')
}

const WIDTHS = [42, 5, 8, 9, 9, 14, 9, 7, 7, 16]

function row(...cells: readonly string[]): string {
  return cells.map((cell, at) => (at === 0 ? cell.padEnd(WIDTHS[0]!) : cell.padStart(WIDTHS[at]!))).join(' ')
}
