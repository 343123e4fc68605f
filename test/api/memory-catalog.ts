/** The jobs of imports in a catalog in memory, for tests of the front end. */

import type { Decide } from '../../src/catalog/change/change.ts'
import { cancelJob } from '../../src/catalog/change/change-job.ts'
import type { BadRequest } from '../../src/catalog/documents/catalog-types.ts'
import { keys, Memory } from '../../src/catalog/documents/memory.ts'
import { type ImportJob, type Pool, versionOf } from '../../src/catalog/documents/model.ts'
import { RECEIVED_AT } from '../../src/format/schema.ts'

export class MemoryCatalog {
  readonly read = new Memory()
  /** Writes of jobs that had begun. */
  writes = 0
  /** The import of each progress that was to be written. */
  readonly told: string[] = []
  /** Why no write of a running import succeeds. */
  refuses: Error | undefined
  /** Awaited in front of each write of a running import. */
  gate: Promise<unknown> | undefined
  #nowMs = 0

  /** Pools whose id, name and webhook id are the same text, with a required STRING column `id`. */
  constructor(...names: readonly string[]) {
    for (const [index, id] of names.entries()) {
      const column = { name: 'id', type: 'STRING', jsonProperty: 'id', nullable: false }
      const pool = {
        ...{ id, uniqueName: id, number: index + 1, webhookId: id, planVersion: 1, createdAt: 'now' },
        ...{ columns: [column], timestamp: RECEIVED_AT, uniqueIdColumn: 'id', tenant: null },
      } as unknown as Pool
      const version = versionOf(pool)
      const puts = [[keys.pool(id), pool] as const, [keys.schema(pool.number, 1), version] as const]
      this.read.apply({ puts, removes: [] })
    }
  }

  /** The imports of all pools, newest first. */
  get imports(): readonly ImportJob[] {
    return this.read.jobs.all().toReversed() as ImportJob[]
  }

  async cancel(): Promise<void> {
    for (const { id } of this.imports) await this.change(cancelJob(id, 'somebody'))
  }

  async change<T>(decide: Decide<T>): Promise<T | BadRequest> {
    // Each in a millisecond of its own: jobs are in the order of their creation.
    this.#nowMs = Math.max(Date.now(), this.#nowMs + 1)
    const decision = decide(this.read, this.#nowMs)
    if ('badRequest' in decision) return decision
    const [job] = decision.puts.map(([, value]) => value as ImportJob)
    if (job !== undefined && this.read.jobs.get(job.id) !== undefined) await this.#write(job)
    this.read.apply(decision)
    return decision.result
  }

  async #write(job: ImportJob): Promise<void> {
    this.writes += 1
    if (job.status === 'IN_PROGRESS') this.told.push(job.id)
    await this.gate
    if (this.refuses !== undefined) throw this.refuses
  }
}
