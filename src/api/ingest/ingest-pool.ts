/**
 * A pool as ingest sees it: the schema that its next bodies are parsed with, and the pause of a
 * cut-over.
 *
 * A cut-over replaces the schema at an exact sequence. It pauses the pool: no body of the pool goes
 * to the parse workers. The bodies wait in their slabs, and other pools go on. When every batch
 * that was parsed before has its sequences, each later request gets a higher one. Then the schema
 * is replaced, and the pool resumes (app/cut-over.ts).
 */
import type { BatchCost } from '../../format/batch-layout.ts'
import { assert } from '../../util/errors.ts'

export interface IngestSchema {
  readonly version: number
  /** The PoolSchema as JSON in UTF-8. */
  readonly bytes: SharedArrayBuffer
  readonly cost: BatchCost
}

export class IngestPool {
  readonly number: number
  /** The schema of the next parse task. A task that was begun keeps its own. */
  schema: IngestSchema
  /** True while no body of the pool may go to the parse workers. */
  isPaused = false
  /** Groups of parse tasks whose requests have no sequences yet. */
  #unsequenced = 0
  #onSequenced: () => void = () => {}

  constructor(number: number, schema: IngestSchema) {
    this.number = number
    this.schema = schema
  }

  begun(): void {
    assert(!this.isPaused, 'no task of a paused pool begins')
    this.#unsequenced += 1
  }

  /** The requests of a group have their sequences, or were refused. */
  sequenced(): void {
    assert(this.#unsequenced > 0, 'a group gets its sequences once')
    this.#unsequenced -= 1
    if (this.#unsequenced === 0) this.#onSequenced()
  }

  /** Pauses the pool. Resolves when every request that was parsed before has its sequence. */
  pause(): Promise<void> {
    assert(!this.isPaused, 'a pool is paused once at a time')
    this.isPaused = true
    if (this.#unsequenced === 0) return Promise.resolve()
    return new Promise(resolve => {
      this.#onSequenced = resolve
    })
  }

  /** Ends the pause. From now on bodies are parsed with `schema`. */
  resume(schema: IngestSchema): void {
    assert(this.isPaused, 'only a paused pool resumes')
    assert(schema.version >= this.schema.version, 'the schema version of a pool never falls')
    this.schema = schema
    this.isPaused = false
    this.#onSequenced = () => {}
  }
}
