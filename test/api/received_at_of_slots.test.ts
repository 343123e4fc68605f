/** Received-at of a node of a cluster: the clock's slot and step reach the rows of each request. */
import { expect, test } from 'vitest'
import { KEY_COLUMN } from '../../src/format/batch-layout.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import { ENTRY_WORDS } from '../../src/store/flush/memtable.ts'
import { RisingClock } from '../../src/util/clock.ts'
import { readColumn } from '../parse/reading.ts'
import { encodeKeyParts } from '../util/key-parts.ts'
import { ask } from './client.ts'
import { Fake, start, targetOf } from './fake.ts'

test.each([
  [1, 0],
  [100, 42],
])(
  'steps of %i µs, slot %i: the words of a request say which received-at each row has',
  async (stepUs, slot) => {
    const fake = new Fake()
    const clock = new RisingClock({ stepUs, slot: () => slot })
    const received = clock
    fake.targets.set('open', targetOf(1, { received, eventClock: clock.share() }))
    fake.targets.set('second', targetOf(2, { received: new RisingClock({ stepUs, slot: () => slot }) }))
    const run = createTaskRunner('native')
    const api = await start(fake, {}, { parse: async task => run(task) })
    const bodies = ['[{"id":"a"},{"id":7},{"id":"a"}]', '{"id":"a"}', '[{"id":"a"},{"id":"a"}]']
    for (const webhook of ['open', 'second'])
      for (const body of bodies)
        expect([200, 207]).toContain((await ask(api.port, `/v1/${webhook}`, { body })).status)
    const seen: number[] = []
    for (const { pool, batch, requests } of fake.batches.flatMap(({ parts }) => parts)) {
      const keys = readColumn(batch, KEY_COLUMN).map(key =>
        Buffer.from(String(key), 'latin1').toString('hex'),
      )
      for (let at = 0; at < requests.length; at += ENTRY_WORDS) {
        const [, firstUs, rows, step] = requests.subarray(at, at + ENTRY_WORDS)
        expect(step).toBe(pool === 1 ? stepUs : 0)
        expect(firstUs! % stepUs).toBe(slot)
        for (let row = 0; row < rows!; row += 1) {
          const value = firstUs! + row * step!
          const parts = [
            { type: 'TIMESTAMP', value },
            { type: 'STRING', value: 'a' },
          ] as const
          expect(keys.shift()).toBe(Buffer.from(encodeKeyParts(parts)).toString('hex'))
          if (pool === 1) seen.push(value)
        }
      }
      expect(keys).toEqual([])
    }
    expect(seen).toHaveLength(5)
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b))
    expect(await api.stop(1000)).toBe(true)
  },
)
