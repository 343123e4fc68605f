/**
 * A cut-over replaces the schema of a pool at an exact sequence: every event of the pool with this
 * sequence or a higher one is parsed with the new schema, and every other with the old one.
 *
 *   pause     no further body of the pool goes to the parse workers
 *   sequenced the requests that were parsed before have their sequences
 *   boundary  the log names the sequence that they are below, and has synced them
 *   change    the catalog stores schema and sequence, in ONE synced change
 *   resume    the bodies that waited, and all later ones, are parsed with the new schema
 *
 * After a crash the catalog has the whole change or nothing of it. Without it the log has no record
 * of the new schema, because the pause ended with the process.
 *
 *   W-9  The pause ends after CUT_OVER_MS_MAX where log or parse workers stand still, with the old
 *        schema. It waits for the catalog's answer in any case: only that says which schema counts.
 */
import type { IngestPool, IngestSchema } from '../api/ingest/ingest-pool.ts'
import { Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'

/**
 * Time for which a cut-over pauses a pool until the requests under way have their sequences. It is
 * below WAIT_MS_MAX, so that waiting requests get no 429 (src/app/cut-over.ts).
 */
const CUT_OVER_MS_MAX = 2_000

interface CutOverDeps {
  /** As RowStore has it. */
  boundary(): Promise<number>
  /** The schema of a pool as the catalog has it; the old one where the pool was deleted. */
  schemaOf(pool: IngestPool): IngestSchema
  /** Bodies that waited may be parsed. */
  resumed(): void
  /** Default CUT_OVER_MS_MAX; tests set less. */
  readonly msMax?: number
}

/**
 * Runs `change` with the boundary sequence while `pool` is paused, and resumes the pool with the
 * schema that the catalog has then. Rejects with Unavailable where log or workers give no boundary
 * in time, or as `change` rejects.
 */
export async function cutOver<T>(
  pool: IngestPool,
  change: (sequence: number) => Promise<T>,
  deps: CutOverDeps,
): Promise<T> {
  try {
    const boundary = pool.pause().then(() => deps.boundary())
    const sequence = await inTime(boundary, deps.msMax ?? CUT_OVER_MS_MAX)
    crashPoint('cutover.held')
    return await change(sequence)
  } finally {
    pool.resume(deps.schemaOf(pool))
    deps.resumed()
  }
}

async function inTime<T>(work: Promise<T>, msMax: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const what = `the requests under way did not reach the log within ${msMax} ms`
    timer = setTimeout(() => reject(new Unavailable('cut_over_late', what)), msMax)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
