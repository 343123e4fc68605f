import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Rounds } from './rounds.ts'

const seed = Date.now() % 2 ** 31
const KILLS = process.env['WEIR_TEST_LONG'] === '1' ? 16 : 6

test(`every acknowledged event outlives ${KILLS} kills at random moments (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), seed, { checkEvery: 3, crossReadEvery: 10 })
  try {
    while (rounds.killCount < KILLS) await rounds.kill(rounds.randomKill())
    await rounds.finish()
  } catch (error) {
    await rounds.end()
    throw new Error(`seed ${seed}, folder kept: ${folder}\n${(error as Error).stack}`)
  }
  expect(rounds.killCount).toBe(KILLS)
  expect(rounds.state.tally.requests).toBeGreaterThan(KILLS)
  rmSync(folder, { recursive: true, force: true })
}, 1_800_000)
