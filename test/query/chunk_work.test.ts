/** What is known of texts is forgotten where it becomes too much, and never counted short. */
import { expect, test } from 'vitest'
import { ChunkWork } from '../../src/query/duckdb/chunk-work.ts'
import { DuckDBInstance } from '../../src/util/duckdb.ts'
import { schemaOf, TestPool } from './pool.ts'

test('files that are forgotten while others are read count in the query that reads them', async () => {
  const pool = new TestPool()
  const schema = schemaOf([['s', 'STRING']])
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    const columns =
      "make_timestamp(0) AS _service_received_at, '{}' AS _service_payload, 0::BIGINT AS _service_sequence"
    // The long one is of a file that is known already where the other two do not fit beside it.
    const lengths = [1_000_000, 10, 10, 10]
    const files: string[] = []
    for (const length of lengths)
      files.push((await pool.write(`SELECT repeat('x', ${length}) AS s, ${columns}`)).file)
    const work = new ChunkWork(2)
    const check = async (read: readonly string[], ns: number) => {
      const each = { name: 's', ns, made: 0, isScan: true, rows: Infinity, isOfJoin: false }
      const whole = read.map(file => ({ file, columns: new Set<string>() }))
      await work.check(connection, [each], [{ schema, whole, reduced: undefined }], () => undefined)
    }
    const [long = '', ...short] = files
    await check([long], 100)
    await expect(check([long, ...short.slice(0, 2)], 5_000)).rejects.toMatchObject({ code: 'too_much_work' })
    await expect(check([long], 5_000)).rejects.toMatchObject({ code: 'too_much_work' })
    await check(short, 5_000)
  } finally {
    connection.closeSync()
    instance.closeSync()
    await pool.close()
  }
})
