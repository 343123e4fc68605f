/** A journal of imports in memory, for tests of the front end. */
import type { ImportJournal, JournaledImport } from '../../src/api/import-journal.ts'

export class MemoryJournal implements ImportJournal {
  readonly imports: JournaledImport[] = []
  readonly pools = new Map<string, string>()
  writes = 0
  /** The import of each progress that was to be written. */
  readonly told: string[] = []
  isCancelled = false
  /** Why no write of a running import succeeds. */
  refuses: Error | undefined
  /** Awaited in front of each write. */
  gate: Promise<unknown> | undefined

  begin: ImportJournal['begin'] = async (poolId, _, input) => {
    const id = `DPJ${this.imports.length + 1}`
    const done = { rows: 0, accepted: 0, rejected: 0, durableRows: 0, durableBytes: null }
    const times = { createdAt: 'now', modifiedAt: 'now' }
    this.imports.unshift({ id, status: 'IN_PROGRESS', progress: 0, error: null, ...input, ...done, ...times })
    this.pools.set(id, poolId)
    return { id }
  }

  progress: ImportJournal['progress'] = async (id, done, progress) => {
    this.told.push(id)
    await this.#change(id, { ...done, progress })
    return { isCancelled: this.isCancelled }
  }

  end: ImportJournal['end'] = (id, done, error) =>
    this.#change(id, { ...done, status: error === null ? 'SUCCEEDED' : 'FAILED', error, progress: 1 })

  ofPool(poolId: string): readonly JournaledImport[] {
    return this.imports.filter(({ id }) => this.pools.get(id) === poolId)
  }

  async #change(id: string, change: Partial<JournaledImport>): Promise<void> {
    this.writes += 1
    await this.gate
    if (this.refuses !== undefined) throw this.refuses
    const at = this.imports.findIndex(one => one.id === id)
    this.imports[at] = { ...this.imports[at]!, ...change }
  }
}
