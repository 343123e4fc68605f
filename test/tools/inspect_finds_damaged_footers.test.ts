/** `weir inspect` finds damaged footers of small and of large segments. */
import { statSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { events, flipBit, KEYED, segmentsOf } from '../path/damage.ts'
import { send, startServer } from '../util/server.ts'
import { weir } from './folder.ts'

let dataDir: string
/** A segment of a few rows, and one of many. */
let small: string
let large: string

beforeAll(async () => {
  const server = await startServer()
  dataDir = server.dataDir
  const one = await server.createPool(KEYED)
  const other = await server.createPool({ ...KEYED, uniqueName: 'other' })
  const pad = () => Array.from({ length: 40 }, () => Math.random().toString(36)).join('')
  expect((await send(one.url, events(0, 10))).status).toBe(200)
  const padded = events(0, 1000).map(event => ({ ...event, pad: pad() }))
  for (const half of [padded.slice(0, 500), padded.slice(500)])
    expect((await send(other.url, half)).status).toBe(200)
  expect([await server.count(one.poolId), await server.count(other.poolId)]).toEqual(['10', '1000'])
  expect((await server.stop()).code).toBe(0)
  small = segmentsOf(dataDir, one.poolId)[0] ?? ''
  large = segmentsOf(dataDir, other.poolId)[0] ?? ''
})

test.each([
  ['a small segment', () => small],
  ['a large segment', () => large],
])(
  'inspect finds damage to the footer of %s, and leaves damage to its pages to weir verify',
  async (_, file) => {
    const inspect = () => weir(['inspect', '--data-dir', dataDir, '--log-level', 'error'])
    expect(await inspect()).toMatchObject({ code: 0, err: '' })
    const magic = statSync(file()).size - 1
    flipBit(file(), magic)
    expect(await inspect()).toMatchObject({ code: 1, err: expect.stringContaining(file()) })
    flipBit(file(), magic)
    flipBit(file(), 100)
    expect(await inspect()).toMatchObject({ code: 0, err: '' })
    flipBit(file(), 100)
  },
)
