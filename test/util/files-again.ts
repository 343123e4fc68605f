/** Test files that run again in another setting. */
import { describe } from 'vitest'
import { newSeed, someOf } from './random.ts'

/** Runs half of the files in CI, each time others; in the long run all. */
export function runAgain(files: readonly (readonly [name: string, load: () => Promise<unknown>])[]): void {
  const seed = newSeed()
  for (const [name, load] of someOf(files, Math.ceil(files.length / 2), seed))
    describe(`${name} (seed ${seed})`, async () => {
      await load()
    })
}
