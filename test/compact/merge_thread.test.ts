/** The merge thread: values of every size, given up and killed merges, a disk that refuses. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Plan } from '../../src/batch/plan.ts'
import { Unavailable } from '../../src/errors.ts'
import { keyPlan, planOfAll, randomOf, randomRow } from '../segment/rows.ts'
import type { Value } from '../util/make-batch.ts'
import { World } from './merge-world.ts'

let world: World
afterEach(() => world.close())

async function open(plan: Plan): Promise<World> {
  world = await new World(plan).open()
  return world
}

function rowsOf(plan: Plan, from: number, count: number): (readonly Value[])[] {
  const random = randomOf(from)
  return Array.from({ length: count }, (_, i) => randomRow(plan, random, `k${from + i}`).values!)
}

describe('a merge', () => {
  it('keeps long and odd texts byte for byte', async () => {
    await open(planOfAll(true))
    const texts = [
      '',
      '\u0000',
      'a\u0000b',
      '𝄞'.repeat(300),
      'x'.repeat(1_000_000),
      '\u{1f469}\u200d\u{1f680}',
    ]
    for (const writer of [0, 1]) {
      const values = rowsOf(world.plan, 100 * writer, texts.length).map((row, i) =>
        row.map((value, c) => (world.plan.columns[c]!.name === 'string' ? texts[i]! : value)),
      )
      const others = rowsOf(world.plan, 1000 + 200 * writer, 200) // so many that rows are short on average
      world.seal(
        [{ values, payloads: texts.map(text => JSON.stringify({ text })) }, { values: others }],
        [],
        writer,
      )
    }
    await world.merge(0, 2)
    await world.merge(0, 1)
  })

  it('of rows that are too long to sort keeps them all', async () => {
    await open({ ...planOfAll(false), tenant: -1 })
    const seals = [0, 1, 2].map(n => rowsOf(world.plan, 100 * n, 30))
    for (const values of seals)
      world.seal([{ values, payloads: values.map((_, i) => `"${String(i).repeat(300_000)}"`) }])
    const job = world.job(0, 3)
    const done = await world.client.merge(job)
    expect(done.meta).toMatchObject({ rows: 90 })
    const sql = `SELECT count(*)::INT, sum(strlen(_service_payload))::INT FROM '${world.file(job.segment)}'`
    const lengths = 3 * (10 * 300_002 + 20 * 600_002)
    expect((await world.duck.runAndReadAll(sql)).getRows()).toEqual([[90, lengths]])
  })

  it('of more than a row group prunes by its first columns', async () => {
    await open(keyPlan)
    for (let n = 0; n < 3; n++) {
      const values = Array.from({ length: 30_000 }, (_, i) => [`id-${i % 7}-${n}-${i}`])
      world.seal([{ values, payloads: values.map(() => '{}') }], [], n % 2)
    }
    const done = await world.client.merge(world.job(0, 3))
    expect(done.meta).toMatchObject({ rows: 90_000 })
    const file = world.file(done.meta!.segment)
    const sql = `SELECT row_group_id, any_value(row_group_num_rows)::INT FROM parquet_metadata('${file}') GROUP BY 1 ORDER BY 1`
    const groups = (await world.duck.runAndReadAll(sql)).getRows().map(row => Number(row[1]))
    expect(groups.reduce((sum, rows) => sum + rows, 0)).toBe(90_000)
    expect(Math.max(...groups)).toBeLessThanOrEqual(65_536)
  })
})

describe('the merge thread', () => {
  it('gives up a running merge when it is stopped, and leaves nothing', async () => {
    await open(keyPlan)
    for (let n = 0; n < 2; n++) {
      const values = Array.from({ length: 20_000 }, (_, i) => [`${n}-${i}`])
      world.seal([{ values, payloads: values.map((_, i) => `{"n":${i},"x":"${'y'.repeat(i % 200)}"}`) }])
    }
    const files = readdirSync(world.folder)
    const client = world.startClient('second')
    client.setPace('beside')
    const merge = client.merge(world.job(0, 2))
    const refused = expect(merge).rejects.toMatchObject({ code: 'stopping' })
    // It is in the middle: DuckDB has begun to write.
    const folder = join(world.root, 'tmp', 'second')
    while (!existsSync(join(folder, 'copy.parquet'))) await new Promise(resolve => setTimeout(resolve, 1))
    await client.stop()
    await refused
    expect(readdirSync(world.folder)).toEqual(files)
    expect(readdirSync(folder)).toEqual(['spill'])
    await expect(client.merge(world.job(0, 2))).rejects.toThrow(Unavailable)
    await world.merge(0, 2)
  })

  it('ends when no merge comes, and another one begins with the next', async () => {
    await open(keyPlan)
    world.seal([{ values: [['a']] }])
    const client = world.startClient('second', 1)
    for (let round = 0; round < 2; round++) {
      expect((await client.merge(world.job(0, 1))).rowsRead).toBe(1)
      await client.ended()
    }
    // A merge that comes while the thread ends waits for the next one.
    await client.merge(world.job(0, 1))
    const ended = client.ended()
    await ended.then(() => client.merge(world.job(0, 1)))
    await client.stop()
    await client.ended()
  })

  it('removes at its start what a killed one left', async () => {
    await open(keyPlan)
    world.seal([{ values: [['a']] }])
    const folder = join(world.root, 'tmp', 'second')
    mkdirSync(join(folder, 'spill'), { recursive: true })
    writeFileSync(join(folder, 'tmp_copy.parquet'), 'x')
    writeFileSync(join(folder, 'spill', 'duckdb_temp_storage_DEFAULT-0.tmp'), 'x')
    const client = world.startClient('second')
    await client.merge(world.job(0, 1))
    await client.stop()
    expect(readdirSync(folder)).toEqual(['spill'])
    expect(readdirSync(join(folder, 'spill'))).toEqual([])
  })

  it('answers Unavailable where the disk refuses, and merges when it does not', async () => {
    await open(keyPlan)
    world.seal([{ values: [['a']] }])
    world.seal([{ values: [['b']] }])
    const job = world.job(0, 2)
    // A folder stands where the new file's temporary name would.
    const blocked = `${world.file(job.segment)}.tmp`
    mkdirSync(blocked)
    await expect(world.client.merge(job)).rejects.toMatchObject({ name: 'Unavailable', code: 'merge_io' })
    rmSync(blocked, { recursive: true })
    await world.merge(0, 2)
  })
})
