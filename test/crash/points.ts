/** The crash points, and how often each is passed before the kill. */
import { below, type Random } from '../util/random.ts'
import type { Kill } from './rounds.ts'

/**
 * The name, and the largest number of passings before the kill: a second or two of load reaches it.
 */
type Point = readonly [string, number]

const INDEXED: Point = ['index.committed', 8]

/** On the way of an event from the log into the index, and of a change of the catalog. */
const TO_THE_INDEX: readonly Point[] = [
  ['log.written', 150],
  ['log.synced', 150],
  ['log.rollover', 2],
  ['log.released', 2],
  ['log.recycled', 3],
  ['segment.renamed', 8],
  ['segment.durable', 8],
  ['index.before-commit', 8],
  INDEXED,
  ['index.answered', 8],
  ['flush.committed', 8],
  ['catalog.before-commit', 6],
  ['catalog.committed', 6],
]

/** What moves or removes rows later, and backups. */
const LATER: readonly Point[] = [
  ['pool.forgotten', 2],
  ['pool.dropped', 2],
  ['merge.copied', 4],
  ['merge.published', 4],
  ['compact.merged', 4],
  ['index.before-compaction-commit', 4],
  ['index.compaction-committed', 4],
  ['index.changed-rows-moved', 1],
  ['compact.committed', 4],
  ['retention.copied', 1],
  ['retention.merged', 1],
  ['retention.committed', 1],
  // Each backup runs in a thread of its own, which passes a point once.
  ['backup.copied', 1],
  ['backup.synced', 1],
  ['backup.named', 1],
]

const inside = (point: string): Kill => ({ at: 'point', point, nth: 1 })

/**
 * Starts that are killed come right after these kills. The first two leave unflushed requests in
 * the log, because their flush was not committed; the last one leaves a segment to rebuild from.
 */
const STARTS_AFTER: ReadonlyMap<string, readonly Kill[]> = new Map([
  ['segment.renamed', [inside('recover.copied'), inside('recover.copied')]],
  ['segment.durable', [inside('recover.renamed'), inside('recover.renamed')]],
  ['index.answered', [{ at: 'rebuild point', point: 'rebuild.committed', nth: 1 }]],
])

/**
 * Kills at each of the points, in a random order. Before each kill inside recovery comes a kill at
 * a point, and the kill inside recovery comes twice in a row. One kill comes inside the rebuild of
 * a removed index, one right after it. A point is passed up to `part` of its passings.
 */
function killsAt(points: readonly Point[], random: Random, part: number): Kill[] {
  const kills: Kill[][] = points.map(([point, nthMax]) => [
    { at: 'point', point, nth: 1 + below(random, Math.ceil(nthMax * part)) },
    ...(STARTS_AFTER.get(point) ?? []),
  ])
  if (points.includes(INDEXED))
    kills.push([{ at: 'rebuild point', point: INDEXED[0], nth: 1 + below(random, 3) }])
  for (let i = kills.length - 1; i > 0; i--) {
    const j = below(random, i + 1)
    ;[kills[i], kills[j]] = [kills[j]!, kills[i]!]
  }
  return kills.flat()
}

/** Kills at every point. */
export const everyPoint = (random: Random): Kill[] => killsAt([...TO_THE_INDEX, ...LATER], random, 1)

/** Kills at the points on the way of an event into the index. */
export const pointsToTheIndex = (random: Random, part: number): Kill[] => killsAt(TO_THE_INDEX, random, part)

/** Kills at all other points. */
export const laterPoints = (random: Random, part: number): Kill[] => killsAt(LATER, random, part)
