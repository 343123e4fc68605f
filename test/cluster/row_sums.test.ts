/** Rows of a folder in a modern ClickHouse: both sum them alike, and see each difference. */
import { expect, onTestFinished, test } from 'vitest'
import { nativeBlocks } from '../../src/cluster/clickhouse/native-block.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { readConfig } from '../../src/database/config.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { sumOfSegments, tableSum } from '../../src/tools/move/move.ts'
import { blocksOf, entriesOf, messagesOf } from '../../src/tools/move/move-rows.ts'
import { openOffline } from '../../src/tools/offline.ts'
import { startClickHouse, whyNoClickHouse } from './clickhouse.ts'
import { fillMovedFolder } from './moved-folder.ts'

test.skipIf(whyNoClickHouse() !== undefined)(
  `blocks of a move have the checksum of their segments ${whyNoClickHouse() ?? ''}`,
  async () => {
    const clickHouse = await startClickHouse()
    onTestFinished(() => clickHouse.stop())
    const http = new ClickHouseHttp({ url: clickHouse.url })
    onTestFinished(() => http.close())
    const { dataDir, pools } = await fillMovedFolder(3_000)
    const offline = await openOffline(readConfig({ 'data-dir': dataDir }, {}))
    onTestFinished(() => offline.close())
    const deps = { engine: await offline.engine(), temporaryFolder: offline.paths.temporary }
    for (const { poolId: table } of Object.values(pools)) {
      const pool = offline.catalog.pool(table)!
      const schema = offline.catalog.read.currentSchema(pool)
      const { segments, release } = await offline.snapshot(pool.number)
      const source = await sumOfSegments(schema, segments, deps.engine)
      await clickHouse.query(createTable(table, schema, undefined))
      let [version, rows] = [1n << 40n, 0]
      for await (const block of blocksOf(schema, messagesOf({ schema, segments }, 0, deps), 0)) {
        const [made] = nativeBlocks(schema, 'post', entriesOf(block, version), 1)
        await http.run(Buffer.from(made!.bytes), { query: `INSERT INTO ${table} FORMAT Native` }, 1e6)
        version += BigInt(block.rows)
        rows += block.rows
      }
      expect(rows).toBe(source.rows)
      const sum = async () => (await clickHouse.query(tableSum(table, schema))).trim().split('\t')
      const equal = [String(source.rows), String(source.sum)]
      expect(await sum()).toEqual(equal)
      // One value of one row, back and forth.
      const updates: readonly (readonly [string, string, string])[] = schema.columns.some(
        ({ name }) => name === 'i8',
      )
        ? [
            [
              '_service_payload',
              "concat(_service_payload, ' ')",
              'substring(_service_payload, 1, length(_service_payload) - 1)',
            ],
            ['f', '-f', '-f'],
            ['d', '-d', '-d'],
            ['i64', 'i64 + 1', 'i64 - 1'],
            ['flag', 'NOT flag', 'NOT flag'],
          ]
        : []
      for (const [column, change, undo] of rows === 0 ? [] : updates) {
        const received = `(SELECT min(_service_received_at) FROM ${table} WHERE isNotNull(${column}) AND isNotNull(flag) AND f != 0)`
        const at = (await clickHouse.query(`SELECT toUnixTimestamp64Micro(${received})`)).trim()
        const update = (to: string) =>
          clickHouse.query(
            `ALTER TABLE ${table} UPDATE ${column} = ${to} WHERE toUnixTimestamp64Micro(_service_received_at) = ${at} SETTINGS mutations_sync = 2`,
          )
        await update(change)
        expect([column, await sum()]).not.toEqual([column, equal])
        await update(undo)
        expect([column, await sum()]).toEqual([column, equal])
      }
      release()
    }
  },
)
