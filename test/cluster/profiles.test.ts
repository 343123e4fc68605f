/** What an operator has set for Weir's user adds no row to an INSERT. */
import { describe, expect, test } from 'vitest'
import { insertRows, quorumsOf } from '../../src/cluster/clickhouse/insert-rows.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { makeBatch } from '../util/make-batch.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { oneServer } from './one-server.ts'

const TABLE = 'DPO01'
const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }

const why = whyNoClickHouse()

describe.skipIf(why !== undefined)(`an INSERT under a profile ${why ?? ''}`, () => {
  test('without deduplication: a repetition adds nothing', async () => {
    const { server, topology } = await oneServer()
    await server.query(createTable(TABLE, SCHEMA, undefined))
    await server.query(`ALTER TABLE ${TABLE} MODIFY SETTING non_replicated_deduplication_window = 100`)
    // From 26 on another setting decides, which older ones do not have.
    await server.query("SET compatibility = '25.3', insert_deduplicate = 0")
    const values = Array.from({ length: 3 }, () => ({ payload: '{}', key: '', values: [] }))
    const requests = Float64Array.of(0, 1_000_000, values.length, 1)
    const entries = [{ batch: makeBatch(SCHEMA, values), requests, versions: BigInt64Array.of(0n) }]
    for (let time = 0; time < 2; time += 1)
      await insertRows(
        { table: TABLE, kind: 'post', schema: SCHEMA, entries },
        { topology, quorum: quorumsOf(topology, 0) },
      )
    expect(await server.query(`SELECT count() FROM ${TABLE} FORMAT TabSeparated`)).toBe('3\n')
  })
})
