/** Answers to statements of upkeep and of jobs: what is not whole is none. */
import { describe, expect, test } from 'vitest'
import type { RewriteJob } from '../../src/catalog/documents/model.ts'
import { TableRewrite } from '../../src/cluster/clickhouse/rewrite-table.ts'
import { readRows } from '../../src/cluster/clickhouse/statements.ts'
import type { Replica } from '../../src/cluster/clickhouse/topology.ts'
import type { PlannedChanges } from '../../src/query/plan-row-changes.ts'
import { schemaOf } from '../query/pool.ts'

const CUT = expect.objectContaining({ name: 'Unavailable', code: 'cluster_unreachable' })

describe('an answer in JSONCompact', () => {
  test('has rows', () => {
    expect(readRows(Buffer.from('{"meta":[],"data":[["1","a"]],"rows":1}'))).toEqual([['1', 'a']])
    expect(readRows(Buffer.from('{"data":[]}'))).toEqual([])
  })

  test.each([
    '',
    'null',
    '{}',
    '[]',
    '{"data":null}',
    '{"data":{}}',
    '{"data":[["1"]',
    '{"data":[["1"]],"rows":1,"exception":"Code: 159. DB::Exception: Timeout exceeded"}',
  ])('is not whole: %s', text => {
    expect(() => readRows(Buffer.from(text))).toThrow(CUT)
  })
})

describe('the count of a range', () => {
  const schema = { ...schemaOf([['n', 'INT64']]), key: { columns: [0], version: -1 } }
  const job = { id: 'JOB1', poolId: 'DPO1', kind: 'DELETE_RECORDS', input: { set: [] }, beforeSequence: 9 }
  const planned = { where: undefined, values: [] as PlannedChanges['values'] } as PlannedChanges
  const topology = { shards: [], names: [], replicas: [], isHalved: [] }
  const options = { topology, quorum: { by: 'server' as const, replicas: [] } }
  const rewrite = new TableRewrite(job as unknown as RewriteJob, schema, planned, options, 'P1_X_SMALL')
  const never = new AbortController().signal
  const replicaOf = (body: string) =>
    ({ http: { run: async () => ({ body: Buffer.from(body) }) } }) as unknown as Replica

  test('is read', async () => {
    const replica = replicaOf('{"data":[["12"]]}')
    expect(await rewrite.count(replica, never)).toBe(12)
    expect(await rewrite.look(replica, { after: null, to: null }, never)).toMatchObject({ rows: 12 })
  })

  // Without it a range would be skipped, and its job would say that it has done all of it.
  test.each(['{"data":[]}', '{"data":[[]]}', '{"data":[[null]]}', '{"data":[["x"]]}'])(
    'is missing in %s',
    async body => {
      const replica = replicaOf(body)
      await expect(rewrite.count(replica, never)).rejects.toThrow(CUT)
      await expect(rewrite.look(replica, { after: null, to: null }, never)).rejects.toThrow(CUT)
    },
  )
})
