/** The crash points, and how often each is passed until the kill. */
import { below, type Random } from '../util/random.ts'
import type { Kill } from './rounds.ts'

/** Name, and the highest passing that is tried: one that a second or two of load reaches. */
const POINTS: readonly (readonly [string, number])[] = [
  ['log.written', 150],
  ['log.synced', 150],
  ['log.rollover', 2],
  ['log.released', 2],
  ['log.recycled', 3],
  ['segment.renamed', 8],
  ['segment.durable', 8],
  ['index.before-commit', 8],
  ['index.committed', 8],
  ['index.answered', 8],
  ['flush.committed', 8],
  ['catalog.before-commit', 6],
  ['catalog.committed', 6],
  ['pool.forgotten', 2],
  ['pool.dropped', 2],
  ['merge.copied', 4],
  ['merge.published', 4],
  ['compact.merged', 4],
  ['index.before-compaction-commit', 4],
  ['index.compaction-committed', 4],
  ['compact.committed', 4],
  ['retention.copied', 1],
  ['retention.merged', 1],
  ['retention.committed', 1],
  // Each backup counts for itself, in a thread of its own: none passes a point twice.
  ['backup.copied', 1],
  ['backup.synced', 1],
  ['backup.named', 1],
]
/** Passed once by each start. */
const START_POINTS = ['recover.copied', 'recover.renamed']

/**
 * Every point once, in an order of the seed's. A kill under load comes before each kill inside recovery, which comes
 * twice in a row; the index is removed and its rebuild killed, or what comes right after it.
 */
export function everyPoint(random: Random): Kill[] {
  const kills: Kill[][] = POINTS.map(([point, nthMax]) => [
    { at: 'point', point, nth: 1 + below(random, nthMax) },
  ])
  for (const point of START_POINTS) {
    const inside: Kill = { at: 'point', point, nth: 1 }
    kills.push([{ at: 'moment', afterMs: 300 + random() * 700 }, inside, inside])
  }
  kills.push([{ at: 'rebuild point', point: 'index.committed', nth: 1 + below(random, 3) }])
  // In the rebuild itself; the kill before it leaves something to rebuild from.
  const loaded: Kill = { at: 'moment', afterMs: 500 + random() * 1000 }
  kills.push([loaded, { at: 'rebuild point', point: 'rebuild.committed', nth: 1 }])
  for (let i = kills.length - 1; i > 0; i--) {
    const j = below(random, i + 1)
    ;[kills[i], kills[j]] = [kills[j]!, kills[i]!]
  }
  return kills.flat()
}

/** Names of all points that `everyPoint` kills at. */
export const POINT_NAMES: readonly string[] = [
  ...POINTS.map(([point]) => point),
  ...START_POINTS,
  'rebuild index.committed',
  'rebuild rebuild.committed',
]
