/**
 * The tests of the real server again, over node:http: the contract is the same for every HTTP
 * library.
 */
import { describe } from 'vitest'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'

process.env['WEIR_HTTP'] = 'node' // the servers of these tests inherit it

const FILES: readonly (readonly [name: string, load: () => Promise<unknown>])[] = [
  ['ingest contract', () => import('./ingest_contract.test.ts')],
  ['Arrow stream', () => import('./arrow_stream.test.ts')],
  ['imports', () => import('./imports.test.ts')],
  ['operation', () => import('./operation.test.ts')],
]

/** In CI half of the files run again, each time others; in the long run all. */
const seed = newSeed()
const random = randomFrom(seed)
const left = [...FILES]
while (left.length > casesOf(Math.ceil(FILES.length / 2), FILES.length))
  left.splice(below(random, left.length), 1)

for (const [name, load] of left)
  describe(`${name} (seed ${seed})`, async () => {
    await load()
  })
