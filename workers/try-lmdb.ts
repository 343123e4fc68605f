/**
 * Entry point of a process that reads an LMDB folder once (src/tools/try-lmdb.ts). A damaged
 * folder may crash it.
 */
import { readStore } from '../src/catalog/lmdb/catalog-store.ts'
import { countIndex, walkIndex } from '../src/index/inspect-index.ts'
import type { LmdbAnswer, LmdbQuestion } from '../src/tools/try-lmdb.ts'
import { disk } from '../src/util/disk.ts'
import { must, toWire } from '../src/util/errors.ts'

const { kind, folder, keyFile, kernel } = JSON.parse(must(process.argv[2], 'the question')) as LmdbQuestion

async function answer(): Promise<LmdbAnswer> {
  try {
    if (kind === 'index') return { keys: [...walkIndex({ disk, folder, kernel })] }
    if (kind === 'keys') return { keys: [...countIndex({ disk, folder, kernel })] }
    await readStore(folder, disk, keyFile)
    return { keys: [] }
  } catch (error) {
    return { error: toWire(error) }
  }
}

const found = await answer()
process.send?.(found, (error: Error | null) => process.exit(error === null ? 0 : 1))
