/**
 * W-6, W-7: random posts, deletes, merges, deletion jobs, pins and restarts, with and without the
 * index. After each step the visible rows are those of a plain model, and a server that opens a
 * copy of the files without the index shows the same rows.
 */
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import type { PoolSchema } from '../../../src/format/schema.ts'
import type { QuerySegment } from '../../../src/index/index-types.ts'
import { below, newSeed, type Random, randomFrom } from '../../util/random.ts'
import { readByHyparquet } from '../../util/read-parquet.ts'
import { COLUMN, type Event, PinnedFilesHarness, schemaWith } from './pinned-files-harness.ts'

const { ts, id, version } = COLUMN
const KINDS: readonly (readonly [what: string, schema: PoolSchema])[] = [
  ['key (ts, id)', schemaWith({ columns: [ts, id], version: -1 })],
  ['key (id)', schemaWith({ columns: [id], version: -1 })],
  ['key (ts, id), the highest version wins', schemaWith({ columns: [ts, id], version })],
  ['key (id), the highest version wins', schemaWith({ columns: [id], version })],
  ['no key', schemaWith(null)],
]

/** Each run begins with an empty folder. The shares of the steps are its own. */
const RUNS = 2
const STEPS = 16
const IDS = 'ab'
const DAYS = 2
const VERSIONS = 4

let harness: PinnedFilesHarness | undefined
afterEach(() => harness?.close())

/** The steps of one run, and the rows that must be there after them. */
class Run {
  readonly #schema: PoolSchema
  readonly #harness: PinnedFilesHarness
  readonly #random: Random
  /** Each kind of step as often as its share in this run. */
  readonly #steps: readonly (() => Promise<void>)[]
  readonly #rows = new Map<string, Required<Event>>()
  /** The steps that were begun. */
  readonly trace: string[] = []
  #pins: { release(): void }[] = []
  #stamp = 0

  constructor(schema: PoolSchema, harness: PinnedFilesHarness, random: Random) {
    this.#schema = schema
    this.#harness = harness
    this.#random = random
    // Pins keep files, which hides defects that removed files show, and shows those that it hides.
    const hasPins = this.#oneOf(2)
    const shares: readonly (readonly [share: number, step: () => Promise<void>])[] = [
      [6, () => this.#posts()],
      [below(random, 4), () => this.#delete()],
      [3 + below(random, 3), () => this.#merge()],
      [1 + below(random, 4), () => this.#deletionJob()],
      [hasPins ? 4 : 0, () => this.#pin()],
      [hasPins ? 1 : 0, () => this.#release()],
      [below(random, 2), () => this.#restart()],
      [1, () => this.#loseThenDelete()],
      [1, () => this.#deleteEverything()],
    ]
    this.#steps = shares.flatMap(([share, step]) => Array<typeof step>(share).fill(step))
  }

  /** Takes a random step. */
  step(): Promise<void> {
    return this.#steps[below(this.#random, this.#steps.length)]!()
  }

  async check(): Promise<void> {
    const expected = new Map([...this.#rows].map(([key, { stamp }]) => [key, stamp]))
    const found = await this.#harness.visible(this.#oneOf(2))
    expect(found, 'the visible rows').toEqual(expected)
  }

  /** True once in `limit` times. */
  #oneOf(limit: number): boolean {
    return below(this.#random, limit) === 0
  }

  #someIds(): string {
    const ids = [...IDS].filter(() => this.#oneOf(4)).join('')
    return ids === '' ? IDS[below(this.#random, IDS.length)]! : ids
  }

  #someEvents(): Required<Event>[] {
    const versions = this.#oneOf(2) ? 1 : VERSIONS // the lowest one loses mostly
    return [...this.#someIds()].map(each => ({
      id: each,
      day: below(this.#random, DAYS),
      version: below(this.#random, versions),
      stamp: ++this.#stamp,
    }))
  }

  #keyOf(event: Event): string {
    return this.#harness.keyOf(this.#harness.rowOf(event))
  }

  /**
   * A row loses against one of an earlier segment, which no merge takes. A merge removes the loser,
   * whose file a query holds. Then a job removes the winner.
   */
  async #loseThenDelete(): Promise<void> {
    const [loser = '', other = ''] = this.#oneOf(2) ? 'ab' : 'ba'
    const event = (id: string, version: number) => ({ id, day: 0, version, stamp: ++this.#stamp })
    this.#harness.forgetRecent()
    const winner = await this.#post([event(loser, VERSIONS)], false)
    await this.#post([event(loser, 0)], false)
    await this.#post([event(other, VERSIONS)], true)
    await this.#pin()
    this.trace.push(`merge without ${winner}`)
    await this.#harness.merge(winner)
    await this.#deletionJob(loser)
  }

  /** Nothing holds a file while a job removes all rows of some segments. */
  async #deleteEverything(): Promise<void> {
    for (const pin of this.#pins.splice(0)) pin.release()
    this.trace.push('release all')
    for (let left = 4; left > 0; left--) await this.#post()
    await this.#deletionJob(IDS)
    await this.#merge()
  }

  /** @param isHeld the next flush rewrites this segment, if it can */
  async #flush(
    kind: 'post' | 'delete',
    events: readonly Required<Event>[],
    isHeld = this.#oneOf(4),
  ): Promise<number> {
    const texts = events.map(event => `${event.id}${event.day} v${event.version} #${event.stamp}`)
    this.trace.push(`${kind} ${texts.join(', ')}${isHeld ? ' (held)' : ''}`)
    const segment = await this.#harness.flush(events, kind)
    if (!isHeld) this.#harness.forgetRecent()
    return segment
  }

  /** Flushes some segments without a merge between them, so that one may lose all its rows. */
  async #posts(): Promise<void> {
    for (let left = 1 + below(this.#random, 4); left > 0; left--) await this.#post()
  }

  #post(events = this.#someEvents(), isHeld?: boolean): Promise<number> {
    for (const event of events) {
      const before = this.#rows.get(this.#keyOf(event))
      const hasVersion = (this.#schema.key?.version ?? -1) >= 0
      if (!hasVersion || before === undefined || event.version >= before.version)
        this.#rows.set(this.#keyOf(event), event)
    }
    return this.#flush('post', events, isHeld)
  }

  async #delete(): Promise<void> {
    const events = this.#someEvents()
    if (this.#schema.key === null) return void (await this.#post(events))
    for (const event of events) this.#rows.delete(this.#keyOf(event))
    await this.#flush('delete', events)
  }

  async #merge(): Promise<void> {
    if (this.#oneOf(2)) this.#harness.forgetRecent()
    this.trace.push('merge')
    await this.#harness.merge()
  }

  /** A query begins. */
  async #pin(): Promise<void> {
    this.trace.push('pin')
    this.#pins.push(await this.#harness.snapshot())
  }

  async #release(): Promise<void> {
    const place = below(this.#random, this.#pins.length)
    this.trace.push(`release ${place}`)
    this.#pins.splice(place, 1)[0]?.release()
  }

  /** The process ends, and its pins with it. The index and the log may be lost after that. */
  async #restart(): Promise<void> {
    this.#pins = []
    const lost = ([[], ['index'], ['index', 'log']] as const)[below(this.#random, 3)]!
    this.trace.push(`restart without ${lost.join(' and ') || 'a loss'}`)
    await this.#harness.restart(lost)
  }

  /** Removes all rows of some ids, the newest segment first, as jobs/rewrite-rows.ts does. */
  async #deletionJob(ids = this.#oneOf(3) ? IDS : this.#someIds()): Promise<void> {
    this.trace.push(`job deletes ${ids}`)
    this.#harness.forgetRecent()
    const segments = await this.#liveSegments()
    for (const { meta } of segments.sort((a, b) => b.meta.sequenceFrom - a.meta.sequenceFrom)) {
      const segment = (await this.#liveSegments()).find(one => one.meta.segment === meta.segment)!
      const rows = await this.#liveRows(segment, ids)
      const hasVersion = (this.#schema.key?.version ?? -1) >= 0
      const dropsLostRows = hasVersion && segment.deletionVectors.length > 0
      if (rows.size === 0 && !dropsLostRows) continue
      await this.#harness.deleteRows(segment, [...rows.keys()])
      this.trace.push(`segment ${meta.segment}`)
      for (const row of rows.values()) this.#rows.delete(this.#harness.keyOf(row))
      if (this.#oneOf(3)) await this.check()
    }
  }

  async #liveSegments(): Promise<QuerySegment[]> {
    const { segments, release } = await this.#harness.snapshot()
    release()
    return [...segments]
  }

  /** The visible rows of these ids in a segment, by their number. */
  async #liveRows({ file, deletionVectors }: QuerySegment, ids: string) {
    const dead = new Set(deletionVectors.flatMap(({ rows }) => [...rows]))
    const rows = await readByHyparquet(readFileSync(file))
    return new Map([...rows.entries()].filter(([i, row]) => !dead.has(i) && ids.includes(String(row['id']))))
  }
}

describe.each(KINDS)('%s', (_, schema) => {
  const seed = newSeed()
  test(`the index, its rebuild and the model show the same rows, seed ${seed}`, async () => {
    const random = randomFrom(seed)
    for (let count = 0; count < RUNS; count++) {
      harness = new PinnedFilesHarness(schema)
      await harness.open()
      const run = new Run(schema, harness, random)
      try {
        for (let step = 0; step < STEPS; step++) {
          await run.step()
          await run.check()
        }
      } catch (error) {
        throw new Error(`seed ${seed}, run ${count}: ${run.trace.join('; ')}; and then`, { cause: error })
      }
      await harness.close()
      harness = undefined
    }
  })
})
