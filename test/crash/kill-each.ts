/** Kills at named points on one folder, each of which every acknowledged event must outlive. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { casesOf, type Random } from '../util/random.ts'
import type { Tally } from './client-state.ts'
import { type Kill, Rounds } from './rounds.ts'

/** A kill comes after fewer passings of its point than in the long run and in `npm run crash`. */
const PART = casesOf(1, 2) / 2

/** The kills of a test, and what must have happened during them. */
interface Kills {
  readonly seed: number
  readonly firstStarts: readonly string[]
  readonly kills: (random: Random, part: number) => Kill[]
  readonly happened: readonly (keyof Tally)[]
}

/** Kills and checks. Throws with the seed and the folder, which is kept then. */
export async function killEach({ seed, firstStarts, kills, happened }: Kills): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), seed, { checkEvery: 3, crossReadEvery: casesOf(20, 10) })
  const all = [
    ...firstStarts.map(point => ({ at: 'point', point, nth: 1 }) as const),
    ...kills(rounds.state.random, PART),
  ]
  try {
    for (const kill of all) await rounds.kill(kill)
    await rounds.finish()
  } catch (error) {
    await rounds.end()
    throw new Error(`seed ${seed}, folder kept: ${folder}\n${(error as Error).stack}`)
  }
  expect(rounds.killCount).toBe(all.length)
  expect(happened.filter(count => rounds.state.tally[count] === 0)).toEqual([])
  rmSync(folder, { recursive: true, force: true })
}
