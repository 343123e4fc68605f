/**
 * Every name that stands in the files of a data folder or a backup: names of files, keys of JSON,
 * keys of Parquet footers, and the numbers of formats. Ids and numbers in names are left out.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { readStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { readParquetFooter } from '../../src/format/parquet-footer.ts'
import { after, TAG } from '../../src/index/index-entry.ts'
import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { INDEX_MAP_BYTES } from '../../src/index/open-index.ts'
import { disk } from '../../src/util/disk.ts'

/** Entries of a kind that are looked at. */
const ENTRIES_MAX = 10_000

/** The names of a stopped folder, each on a line of its own, without those of other `kind`s. */
export async function namesOf(folder: string, kind: 'data folder' | 'backup'): Promise<Set<string>> {
  const names = new Set<string>()
  for (const file of (readdirSync(folder, { recursive: true }) as string[]).sort()) {
    const path = join(folder, file)
    // Temporary files mean nothing to another process.
    if (file.startsWith('tmp/') || file.endsWith('.tmp')) continue
    const name = file.replace(/DPO\w+/, '<pool>').replaceAll(/\d+/g, '<n>')
    names.add(`${kind}: ${name}${statSync(path).isDirectory() ? '/' : ''}`)
    if (statSync(path).isFile()) addContents(names, path, name)
  }
  for (const [key, document] of await readStore(join(folder, 'catalog'))) {
    const [tag = ''] = key.split('/')
    addKeys(names, `catalog ${tag}`, document)
  }
  if (kind === 'data folder') addIndex(names, join(folder, 'index'))
  return names
}

function addContents(names: Set<string>, path: string, name: string): void {
  const u32 = (at: number) => readFileSync(path).readUInt32LE(at)
  if (name === 'FORMAT') names.add(`format ${readFileSync(path, 'utf8').trim()}`)
  else if (name === 'admin.json' || name === 'BACKUP')
    addKeys(names, name, JSON.parse(readFileSync(path, 'utf8')))
  else if (/^log\/<n>-<n>\.log$/.test(name)) names.add(`format of a log file ${u32(8)}`)
  else if (name === 'log/head') names.add(`format of the log header ${u32(8)}`)
  else if (name.endsWith('.deletes')) names.add(`format of a delete file ${u32(4)}`)
  else if (name.endsWith('.parquet'))
    for (const [key, value] of readParquetFooter(disk, path).texts) {
      if (key.startsWith('weir.')) names.add(`footer ${key}${key === 'weir.format' ? ` ${value}` : ''}`)
    }
}

function addIndex(names: Set<string>, folder: string): void {
  const store = openLmdbStore({ folder, mapBytes: INDEX_MAP_BYTES })
  const entries = (tag: number) =>
    store.transact(txn => txn.range(Uint8Array.of(tag), after(Uint8Array.of(tag)), ENTRIES_MAX))
  const json = (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString()) as { format?: number }
  for (const [, value] of entries(TAG.identity)) {
    addKeys(names, 'index identity', json(value))
    names.add(`format of the index ${json(value).format}`)
  }
  for (const [, value] of entries(TAG.pool)) addKeys(names, 'index pool', json(value))
  for (const [, value] of entries(TAG.segment)) addKeys(names, 'index segment', json(value.subarray(4)))
  store.close()
}

/** The keys of a JSON value and of the objects in it. */
function addKeys(names: Set<string>, path: string, value: unknown): void {
  if (Array.isArray(value)) for (const one of value) addKeys(names, path, one)
  else if (typeof value === 'object' && value !== null)
    for (const [key, inner] of Object.entries(value)) {
      names.add(`${path}.${key}`)
      addKeys(names, `${path}.${key}`, inner)
    }
}
