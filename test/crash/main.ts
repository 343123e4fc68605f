/**
 * `npm run crash -- [kills] [seed]`: kills the server that often, at random moments and at named
 * points, and checks after each restart. A failure is told with its seed, its folder is kept, and
 * the rest goes on in a new one; exits 1 at the end then. `npm run crash -- power [states] [seed]`:
 * power cuts instead (test/power). `npm run crash -- flips [flips] [seed]`: flipped bits
 * (test/flips).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { say, warn } from '../../src/util/say.ts'
import { runFlips } from '../flips/main.ts'
import { runPowerCuts } from '../power/main.ts'
import type { Tally } from './client-state.ts'
import { everyPoint } from './points.ts'
import { type Kill, Rounds } from './rounds.ts'

const KILLS_DEFAULT = 1000
/** Then a new folder begins, so that first starts are killed too. */
const KILLS_PER_FOLDER = 250
/** The run ends after so many failures. */
const FAILURES_MAX = 10
const AUDITS = { checkEvery: 2, crossReadEvery: 5 }

const others: Readonly<Record<string, (given: readonly string[]) => Promise<void>>> = {
  power: runPowerCuts,
  flips: runFlips,
}
const other = others[process.argv[2] ?? '']
const wanted = other !== undefined ? 0 : Number(process.argv[2] ?? KILLS_DEFAULT)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)

/** Counts of all folders. */
const total = { kills: 0, rounds: 0, folders: 0, failures: 0 }
const counts = new Map<string, number>()
const tally: Partial<Record<keyof Tally, number>> = {}

/** Makes `kills` kills on one folder. */
async function runFolder(kills: number, folderSeed: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), folderSeed, AUDITS)
  const queue: Kill[] = []
  total.folders += 1
  try {
    while (rounds.killCount < kills) {
      if (queue.length === 0)
        for (const kill of everyPoint(rounds.state.random)) queue.push(kill, rounds.randomKill())
      await rounds.kill(queue.shift()!)
      const { tally, alive, deletedPools } = rounds.state
      if (rounds.killCount % 10 === 0)
        say(
          `${total.kills + rounds.killCount} kills, ${tally.requests} requests, ${tally.unknown} without an answer, ${alive.length} pools alive, ${deletedPools.length} deleted`,
        )
    }
    await rounds.finish()
    rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    await rounds.end()
    total.failures += 1
    warn(
      `seed ${folderSeed}, after ${rounds.killCount} kills on its folder, which is kept: ${folder}\n${(error as Error).stack ?? error}`,
    )
  }
  add(rounds)
}

function add(rounds: Rounds): void {
  total.kills += rounds.killCount
  total.rounds += rounds.rounds
  for (const [name, count] of rounds.kills) counts.set(name, (counts.get(name) ?? 0) + count)
  for (const [what, count] of Object.entries(rounds.state.tally) as [keyof Tally, number][])
    tally[what] = (tally[what] ?? 0) + count
}

/** Makes all kills, on one folder after the other. */
async function runKills(): Promise<void> {
  say(`seed ${seed}, ${wanted} kills`)
  for (let folder = 0; total.kills < wanted && total.failures < FAILURES_MAX; folder++)
    await runFolder(Math.min(KILLS_PER_FOLDER, wanted - total.kills), seed + folder)
  for (const [name, count] of [...counts].sort()) say(`${String(count).padStart(6)}  ${name}`)
  for (const [what, count] of Object.entries(tally)) say(`${String(count).padStart(6)}  ${what}`)
  const { kills, rounds, folders, failures } = total
  say(`${kills} kills in ${rounds} rounds on ${folders} folders, ${failures} failures`)
  if (failures > 0) process.exitCode = 1
  else say('nothing lost, nothing undone, nothing invented')
}

try {
  if (other !== undefined) await other(process.argv.slice(3))
  else await runKills()
} catch (error) {
  warn((error as Error).stack ?? String(error))
  process.exitCode = 1
}
