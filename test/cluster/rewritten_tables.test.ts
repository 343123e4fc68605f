/**
 * Jobs that change rows of tables, beside posts and deletes, killed before and after each of their
 * statements: on two shards of two replicas of ClickHouse 18.16, and on 26.9.
 */
import { describe, expect, test } from 'vitest'
import { cancelJob } from '../../src/catalog/change/change-job.ts'
import { insertRows } from '../../src/cluster/clickhouse/insert-rows.ts'
import { readTopology, type Topology } from '../../src/cluster/clickhouse/topology.ts'
import { Inserts } from '../../src/cluster/inserts.ts'
import { JobVersions } from '../../src/cluster/job-versions.ts'
import { deleteSchema, type RequestKind } from '../../src/format/schema.ts'
import { below, casesOf, newSeed, type Random, randomFrom } from '../util/random.ts'
import { whyNoClickHouse } from './clickhouse.ts'
import { noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { type JobInput, JobTables, killed, type ModelRow } from './job-tables.ts'
import { oneServer } from './one-server.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const seed = newSeed()
const UNIQUE = [
  ['with', 'id'],
  ['without', null],
] as const

/** Ten rounds took 129 s beside other work of the machine. */
const ROUNDS_MS_MAX = casesOf(900_000, 5_400_000)

/** A job, and what it does with a row: null where the row goes, itself where it stays. */
interface ModelJob extends JobInput {
  readonly of: (row: ModelRow) => ModelRow | null
}

function jobOf(random: Random): ModelJob {
  const k = below(random, 5)
  const conditions: readonly (readonly [string, (row: ModelRow) => boolean])[] = [
    [`n % 5 = ${k}`, row => row.n % 5 === k],
    [`word = 'w${k}'`, row => row.word === `w${k}`],
    ['word IS NULL', row => row.word === null],
    ['true', () => true],
    [`id > 'k2' AND n < 30`, row => row.id > 'k2' && row.n < 30],
  ]
  const [filterSql, matches] = conditions[below(random, conditions.length)]!
  const changed = (of: (row: ModelRow) => ModelRow | null) => (row: ModelRow) =>
    matches(row) ? of(row) : row
  if (random() < 0.3 && filterSql !== 'true')
    return { kind: 'DELETE_RECORDS', filterSql, of: changed(() => null) }
  const kind = 'UPDATE_RECORDS'
  if (random() < 0.6) {
    const set = [{ column: 'n', expression: 'n + 1' }]
    return { kind, filterSql, set, of: changed(row => ({ ...row, n: row.n + 1 })) }
  }
  const set = [{ column: 'word', expression: random() < 0.5 ? "'new'" : 'NULL' }]
  const word = set[0]!.expression === 'NULL' ? null : 'new'
  return { kind, filterSql, set, of: changed(row => ({ ...row, word })) }
}

function apply(tables: JobTables, job: ModelJob): void {
  for (const [key, row] of [...tables.model]) {
    const after = job.of(row)
    if (after === null) tables.model.delete(key)
    else tables.model.set(key, after)
  }
}

const rowOf = (random: Random): ModelRow => ({
  id: `k${below(random, 60)}`,
  n: below(random, 50),
  word: random() < 0.3 ? null : `w${below(random, 5)}`,
})
const rowsOf = (random: Random): ModelRow[] => [
  ...new Map(
    Array.from({ length: 1 + below(random, 30) }, () => rowOf(random)).map(row => [row.id, row]),
  ).values(),
]

const UPDATE = {
  kind: 'UPDATE_RECORDS',
  filterSql: 'true',
  set: [{ column: 'n', expression: 'n + 1' }],
} as const
const numbered = (count: number): ModelRow[] =>
  Array.from({ length: count }, (_, n) => ({ id: `k${n}`, n, word: 'w' }))

function attacks(start: () => Promise<{ topology: Topology; path: string | undefined }>) {
  describe.each(UNIQUE)('a pool %s a unique id', (_, uniqueId) => {
    test(`equals the model, seed ${seed}`, { timeout: ROUNDS_MS_MAX }, async () => {
      const { topology, path } = await start()
      const tables = await JobTables.make(topology, uniqueId, path)
      const random = randomFrom(seed)
      // A mutation of 18.16 begins after seconds.
      const rounds = uniqueId === null ? casesOf(3, 20) : casesOf(10, 60)
      for (let round = 0; round < rounds; round += 1) {
        for (let step = below(random, 4); step >= 0; step -= 1) await tables.post(rowsOf(random))
        if (uniqueId !== null) await tables.delete(rowsOf(random).map(({ id }) => id))
        const asked = jobOf(random)
        const job = await tables.create(asked)
        apply(tables, asked)
        let beside = 0
        await tables.runToEnd(job, {
          async before() {
            if (random() < 0.05) throw killed()
          },
          async after() {
            if (random() < 0.1) throw killed()
            // What comes beside the job is later than it.
            if (beside < 3 && random() < 0.1) {
              beside += 1
              await tables.post(rowsOf(random))
              if (uniqueId !== null)
                await tables.delete(
                  rowsOf(random)
                    .slice(0, 3)
                    .map(({ id }) => id),
                )
            }
          },
        })
        expect(tables.now(job)).toMatchObject({ status: 'SUCCEEDED', progress: 1, error: null })
        await tables.check(`seed ${seed}, round ${round}, ${asked.kind} ${asked.filterSql}`)
      }
    })

    test('a condition that is null for a row leaves it', async () => {
      const { topology, path } = await start()
      const tables = await JobTables.make(topology, uniqueId, path)
      await tables.post([
        { id: 'k0', n: 0, word: null },
        { id: 'k1', n: 1, word: 'w' },
        { id: 'k2', n: 2, word: 'other' },
      ])
      await tables.runToEnd(await tables.create({ kind: 'DELETE_RECORDS', filterSql: `word = 'w'` }))
      for (const [key, { word }] of tables.model) if (word === 'w') tables.model.delete(key)
      await tables.check('without the row of w')
      expect(tables.model.size).toBe(2)
    })

    test.each(['before', 'after'] as const)(
      'is changed once where each node is killed %s a statement',
      async when => {
        const { topology, path } = await start()
        const tables = await JobTables.make(topology, uniqueId, path)
        await tables.post(numbered(40))
        const job = await tables.create(UPDATE)
        for (const [key, row] of tables.model) tables.model.set(key, { ...row, n: row.n + 1 })
        // The first run ends at its first statement, the second one at its second, and so on.
        for (let at = 1, ran = Number.POSITIVE_INFINITY; ; at += 1) {
          const before = at
          ran = 0
          const end = (count: number) => {
            ran = Math.max(ran, count)
            if (count === before) throw killed()
          }
          await tables
            .run(job, { [when]: (__: string, count: number) => end(count) })
            .catch(error => expect(error).toMatchObject({ code: 'killed' }))
          if (ran < at) break
        }
        expect(tables.now(job)).toMatchObject({ status: 'SUCCEEDED', progress: 1 })
        await tables.check('after its kills')
      },
    )

    test('a statement that comes late or twice changes nothing', async () => {
      const { topology, path } = await start()
      const tables = await JobTables.make(topology, uniqueId, path)
      await tables.post(numbered(40))
      const late: (() => Promise<unknown>)[] = []
      const first = await tables.create(UPDATE)
      await tables.run(first, {
        after(sql, _, again) {
          if (/^(INSERT|ALTER)/.test(sql)) late.push(again)
        },
      })
      const second = await tables.create(UPDATE)
      await tables.post([{ id: 'k1', n: 100, word: 'posted' }])
      const repeat = async () => {
        for (const again of late) await again()
      }
      await tables.run(second, {
        async after(sql) {
          if (/^(INSERT|ALTER)/.test(sql)) await repeat()
        },
      })
      await repeat()
      tables.model.clear()
      for (const row of numbered(40)) tables.model.set(row.id, { ...row, n: row.n + 2 })
      tables.model.set(uniqueId === null ? 'posted' : 'k1', { id: 'k1', n: 100, word: 'posted' })
      expect(late.length).toBeGreaterThan(0)
      await expect.poll(() => tables.records(0)).toEqual(await tables.records(1))
      await tables.check('after late statements')
    })

    test('rows on their way when a job is made are confirmed when they are sent again', async () => {
      if (uniqueId === null) return // its rows are no later states of others
      const { topology, path } = await start()
      const tables = await JobTables.make(topology, uniqueId, path)
      await tables.post(numbered(4))
      const jobs = new JobVersions()
      const early = [tables.takeVersion(), tables.takeVersion()]
      const sent: bigint[] = []
      const inserts = new Inserts({
        versions: async () => early.shift() ?? tables.takeVersion(),
        async insert({ kind, entries }) {
          sent.push(...entries.flatMap(({ versions }) => [...versions]))
          const schema = kind === 'delete' ? deleteSchema(tables.schema) : tables.schema
          await insertRows({ table: tables.pool.id, kind, schema, entries }, tables.options())
        },
        isCurrent: () => true,
        jobVersion: table => jobs.of(table),
        onDone: () => {},
        onInsert: () => {},
      })
      const job = await tables.create({ kind: 'DELETE_RECORDS', filterSql: 'n < 3' })
      await tables.run(job)
      jobs.take(tables.catalog.read.jobs.all().map(each => [`job/${each.id}`, each]))
      const commit = async (kind: RequestKind, row: ModelRow) => {
        const { batch, requests, schema } = tables.request(kind, [row])
        await inserts.commit(tables.pool.id, schema, kind, batch, requests)
      }
      await expect(commit('post', { id: 'k5', n: 5, word: null })).rejects.toMatchObject({
        code: 'jobs_meanwhile',
      })
      const removed = { id: 'k3', n: 0, word: null }
      await expect(commit('delete', removed)).rejects.toMatchObject({ code: 'jobs_meanwhile' })
      // Somebody who saw the row of k5 deletes it. It does not come back by itself.
      await commit('delete', { id: 'k5', n: 0, word: null })
      await commit('post', { id: 'k1', n: 9, word: null })
      await commit('delete', removed)
      await commit('post', { id: 'k4', n: 4, word: null })
      tables.model.clear()
      for (const [id, n] of [
        ['k1', 9],
        ['k4', 4],
      ] as const)
        tables.model.set(id, { id, n, word: null })
      await tables.check('after the rows')
      expect(sent.length).toBe(6)
    })

    test('a refused value, a cancelled job and a deleted pool end as in one folder', async () => {
      const { topology, path } = await start()
      const tables = await JobTables.make(topology, uniqueId, path)
      await tables.post(numbered(40))
      const set = [{ column: 'n', expression: 'CASE WHEN n = 7 THEN NULL ELSE n END' }]
      const refused = await tables.create({ kind: 'UPDATE_RECORDS', filterSql: 'true', set })
      await tables.run(refused, {}, 1_000)
      expect(tables.now(refused)).toMatchObject({
        status: 'FAILED',
        error: expect.stringMatching(/^the expression of column "n" is null for 1 records .* is required$/),
      })
      await tables.check('after a refused value')
      const unknown = await tables.create({ kind: 'DELETE_RECORDS', filterSql: 'nothing = 1' })
      await tables.run(unknown)
      expect(tables.now(unknown)).toMatchObject({
        status: 'FAILED',
        error: expect.stringContaining('nothing'),
      })
      const cancelled = await tables.create(UPDATE)
      await tables.run(cancelled, {
        async after(sql) {
          if (sql.includes('count()') && sql.includes('WHERE'))
            await tables.catalog.change(cancelJob(cancelled.id, 'other'))
        },
      })
      expect(tables.now(cancelled)).toMatchObject({
        status: 'FAILED',
        error: expect.stringMatching(/^The job was cancelled\./),
      })
    })
  })
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `two shards of two replicas ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    attacks(async () => {
      const zookeeper = await startZookeeper({ tickMs: 2_000 })
      const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
      const addresses = servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` }))
      return { topology: await readTopology(addresses, 'weir'), path: '/tables' }
    })

    test.each(UNIQUE)(
      'a replica that was down shows no older row: a pool %s a unique id',
      async (_, uniqueId) => {
        const zookeeper = await startZookeeper({ tickMs: 2_000 })
        const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
        const addresses = servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` }))
        const tables = await JobTables.make(await readTopology(addresses, 'weir'), uniqueId, '/tables')
        await tables.post(numbered(40))
        await servers[1]!.kill()
        tables.topology = await readTopology(addresses, 'weir')
        expect(tables.topology.shards.map(({ length }) => length)).toEqual([1, 2])
        const job = await tables.create(UPDATE)
        for (const [key, row] of tables.model) tables.model.set(key, { ...row, n: row.n + 1 })
        const run = tables.run(job)
        if (uniqueId === null)
          await expect(run).rejects.toMatchObject({ message: expect.stringContaining('does not answer') })
        else await run
        expect(tables.now(job).status).toBe(uniqueId === null ? 'IN_PROGRESS' : 'SUCCEEDED')
        await servers[1]!.restart()
        tables.topology = await readTopology(addresses, 'weir')
        await tables.runToEnd(job)
        expect(tables.now(job).status).toBe('SUCCEEDED')
        await tables.check('when it is back')
      },
    )
  },
)

describe.skipIf(whyNoClickHouse() !== undefined)('26.9', () => {
  attacks(async () => {
    const { topology } = await oneServer()
    return { topology, path: undefined }
  })
})
