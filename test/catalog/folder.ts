/** A catalog in a temporary folder. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BadRequest, Target } from '../../src/catalog/documents/catalog-types.ts'
import { type CatalogOptions, type OpenedCatalog, openCatalog } from '../../src/catalog/open-catalog.ts'
import { type Paths, pathsOf } from '../../src/util/paths.ts'

export interface Folder {
  readonly root: string
  readonly paths: Paths
  /** Opens the catalog. `stop` and `remove` stop it. */
  open(options?: Partial<CatalogOptions>): Promise<OpenedCatalog>
  stop(): Promise<void>
  remove(): Promise<void>
}

/** Creates an empty data folder. */
export function makeFolder(): Folder {
  const root = mkdtempSync(join(tmpdir(), 'weir-catalog-'))
  const paths = pathsOf(root)
  const opened: OpenedCatalog[] = []
  const stop = async (): Promise<void> => {
    for (const { catalog } of opened.splice(0)) await catalog.stop()
  }
  return {
    root,
    paths,
    async open(options = {}) {
      const one = await openCatalog({ paths, ...options })
      opened.push(one)
      return one
    },
    stop,
    async remove() {
      await stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** The created pool and source. Throws where the creation was refused. */
export function created(result: Target | BadRequest): Target {
  if ('badRequest' in result) throw new Error(result.badRequest)
  return result
}
