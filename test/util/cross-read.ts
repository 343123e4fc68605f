/**
 * Reads a stopped folder with two other readers. DuckDB and hyparquet read every live segment and
 * must agree in every value. The key index must have exactly the keys of the visible rows.
 */
import { deepStrictEqual, ok, strictEqual } from 'node:assert'
import { readFileSync } from 'node:fs'
import { DuckDBInstance } from '@duckdb/node-api'
import type { Pool, SchemaVersion } from '../../src/catalog/documents/model.ts'
import { schemaOf, schemaVersionOf } from '../../src/catalog/documents/model.ts'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { viewRun } from '../../src/format/key-run.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { readSegmentKeys } from '../../src/format/segment-keys.ts'
import { after, poolKey, TAG } from '../../src/index/index-entry.ts'
import type { KeyStore } from '../../src/index/index-store.ts'
import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/index/index-store-native.ts'
import type { PoolState } from '../../src/index/index-types.ts'
import { Index, readIdentity } from '../../src/index/key-index.ts'
import { must } from '../../src/util/errors.ts'
import { pathsOf, poolFolder, segmentFile } from '../../src/util/paths.ts'
import { readByDuckDb, textsByHyparquet } from '../store/readers.ts'

/**
 * A visible row: the columns of its segment and its sequence as text, TIMESTAMP in µs and DATE in
 * days since 1970.
 */
export type CrossRow = Readonly<Record<string, string | null>>

const MAP_BYTES = 64 * 1024 ** 3
const KEYS_MAX = 1_000_000

/**
 * The visible rows by pool id. Throws where the two readers, or the index and the segments, differ.
 * No server may run on the folder.
 */
export async function crossRead(dataDir: string): Promise<ReadonlyMap<string, CrossRow[]>> {
  const paths = pathsOf(dataDir)
  const { pools, schemas } = await readCatalog(paths.catalog)
  const options = { folder: paths.index, mapBytes: MAP_BYTES }
  const store = tryOpenNativeStore(options) ?? openLmdbStore(options)
  const duck = await (await DuckDBInstance.create(':memory:')).connect()
  const rows = new Map<string, CrossRow[]>(pools.map(pool => [pool.id, []]))
  try {
    const index = new Index(store, must(readIdentity(store), 'an index').identity)
    for (const state of index.state().pools) {
      const pool = pools.find(each => each.number === state.pool)
      if (pool === undefined) continue
      checkRanges(state)
      const deletionVectors = new Map(
        index.readDeletionVectors(state.pool).deletionVectors.map(each => [each.segment, new Set(each.rows)]),
      )
      let visible = 0
      for (const meta of state.segments) {
        const deletedRows = deletionVectors.get(meta.segment) ?? new Set<number>()
        strictEqual(deletedRows.size, meta.deletedRows, `marks of segment ${meta.segment}`)
        if (meta.rows === 0) continue
        const schema = must(schemas.get(`${state.pool}/${meta.schemaVersion}`), 'the plan of a segment')
        const file: string = `${poolFolder(paths, pool.id)}/${segmentFile(meta.segment)}`
        const byDuck = await readByDuckDb(duck, schema, file)
        strictEqual(byDuck.length, meta.rows, file)
        deepStrictEqual(await textsByHyparquet(schema, readFileSync(file)), byDuck, file)
        await checkKeys(store, state.pool, meta.segment, file, schema, deletedRows)
        for (const [row, values] of byDuck.entries())
          if (!deletedRows.has(row)) rows.get(pool.id)?.push(rowOf(schema, values))
        visible += meta.rows - deletedRows.size
      }
      const { key } = must(schemas.get(`${state.pool}/${schemaVersionOf(pool)}`), 'the schema of a pool')
      if (key !== null) strictEqual(countKeys(store, state.pool), visible, `keys of ${pool.id}`)
    }
  } finally {
    duck.closeSync()
    store.close()
  }
  return rows
}

async function readCatalog(folder: string) {
  const store = await openStore(folder)
  const pools: Pool[] = []
  const schemas = new Map<string, PoolSchema>()
  for (const [key, value] of store.entries) {
    if (key.startsWith('pool/')) pools.push(value as unknown as Pool)
    if (key.startsWith('plan/'))
      schemas.set(key.slice('plan/'.length), schemaOf(value as unknown as SchemaVersion))
  }
  await store.close()
  return { pools, schemas }
}

/** Checks that live segments have disjoint sequences: the rebuild relies on that. */
function checkRanges({ pool, segments, flushedSequence }: PoolState): void {
  let last = 0
  for (const { segment, sequenceFrom, sequenceTo } of [...segments].sort(
    (a, b) => a.sequenceFrom - b.sequenceFrom,
  )) {
    ok(sequenceFrom > last, `pool ${pool}, segment ${segment} begins above those before`)
    last = sequenceTo
  }
  ok(flushedSequence >= last, `pool ${pool} is flushed up to ${flushedSequence}, below ${last}`)
}

async function checkKeys(
  store: KeyStore,
  pool: number,
  segment: number,
  file: string,
  schema: PoolSchema,
  deletedRows: ReadonlySet<number>,
): Promise<void> {
  const { run } = await readSegmentKeys(file, schema)
  if (run === undefined) return
  const { count, rows, offsets, bytes } = viewRun(run)
  const prefix = poolKey(TAG.key, pool)
  const wrong: string[] = []
  store.transact(txn => {
    for (let i = 0; i < count; i++) {
      const entry = txn.get(Buffer.concat([prefix, bytes.subarray(offsets[i], offsets[i + 1])]))
      const view = entry === undefined ? undefined : new DataView(entry.buffer, entry.byteOffset)
      const points = view?.getUint32(0, true) === segment && view.getUint32(4, true) === rows[i]
      if (points === deletedRows.has(rows[i]!))
        wrong.push(`row ${rows[i]}: marked and pointed at, or neither`)
    }
  })
  deepStrictEqual(wrong, [], file)
}

function countKeys(store: KeyStore, pool: number): number {
  const prefix = poolKey(TAG.key, pool)
  return store.transact(txn => txn.range(prefix, after(prefix), KEYS_MAX).length)
}

function rowOf(schema: PoolSchema, values: readonly (string | null)[]): CrossRow {
  const columns = schema.columns.map(({ name }) => name)
  const names = ['_service_received_at', '_service_payload', ...columns, '_service_sequence']
  return Object.fromEntries(names.map((name, i) => [name, values[i] ?? null]))
}
