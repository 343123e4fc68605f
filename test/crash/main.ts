/**
 * `npm run crash -- [kills] [seed]`: kills the server that often, at random moments and at named points, and checks
 * after each restart. Exits 1 at the first violation and keeps the folder.
 * `npm run crash -- power [states] [seed]`: power cuts instead (test/power).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { say, warn } from '../../src/util/say.ts'
import { runPowerCuts } from '../power/main.ts'
import { everyPoint } from './points.ts'
import { type Kill, Rounds } from './rounds.ts'

const KILLS_DEFAULT = 1000
/** A new folder now and then: first starts are killed too. */
const KILLS_PER_FOLDER = 250

const isPower = process.argv[2] === 'power'
const wanted = isPower ? 0 : Number(process.argv[2] ?? KILLS_DEFAULT)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
let done = 0
const counts = new Map<string, number>()

/** Kills on one folder, until `kills` are done. */
async function runFolder(kills: number, folderSeed: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), folderSeed)
  const queue: Kill[] = []
  try {
    while (rounds.killCount < kills) {
      if (queue.length === 0)
        for (const kill of everyPoint(rounds.world.random)) queue.push(kill, rounds.randomKill())
      await rounds.kill(queue.shift()!)
      const { tally, alive, gone } = rounds.world
      if (rounds.killCount % 10 === 0)
        say(
          `${done + rounds.killCount} kills, ${tally.requests} requests, ${tally.unknown} without an answer, ${alive.length} pools alive, ${gone.length} deleted`,
        )
    }
    await rounds.finish()
  } catch (error) {
    await rounds.end()
    warn(`seed ${seed}, after ${done + rounds.killCount} kills; the folder is kept: ${folder}`)
    throw error
  }
  for (const [name, count] of rounds.kills) counts.set(name, (counts.get(name) ?? 0) + count)
  done += rounds.killCount
  rmSync(folder, { recursive: true, force: true })
}

/** Until so many kills are done. */
async function runKills(): Promise<void> {
  say(`seed ${seed}, ${wanted} kills`)
  for (let folder = 0; done < wanted; folder++)
    await runFolder(Math.min(KILLS_PER_FOLDER, wanted - done), seed + folder)
  for (const [name, count] of [...counts].sort()) say(`${String(count).padStart(6)}  ${name}`)
  say(`${done} kills, nothing lost, nothing undone, nothing invented`)
}

try {
  if (isPower) await runPowerCuts(process.argv.slice(3))
  else await runKills()
} catch (error) {
  warn((error as Error).stack ?? String(error))
  process.exitCode = 1
}
