/** Footers as merges read them: the same as an independent reader finds, and never anything but Damaged where bytes are wrong. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parquetMetadata } from 'hyparquet'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readParquetFooter } from '../../src/compact/parquet-footer.ts'
import { Damaged } from '../../src/errors.ts'
import { disk } from '../../src/util/disk.ts'
import { planOfAll, randomOf, randomRow } from '../segment/rows.ts'
import { World } from './merge-world.ts'

const folder = mkdtempSync(join(tmpdir(), 'weir-footer-'))
let world: World
/** Of the native writer, the JavaScript writer, a merge, and one whose footer is not read at once. */
const files: string[] = []

beforeAll(async () => {
  const plan = planOfAll(true)
  world = await new World(plan).open()
  const random = randomOf(1)
  for (const writer of [0, 1]) {
    const values = Array.from({ length: 50 }, (_, i) => randomRow(plan, random, `k${writer} ${i}`).values!)
    files.push(world.file(world.seal([{ values }], [], writer).meta.segment))
  }
  const { meta } = await world.client.merge(world.job(0, 2))
  files.push(world.file(meta!.segment))
  const wide = join(folder, 'wide.parquet')
  const columns = Array.from({ length: 120 }, (_, i) => `range * ${i} AS c${i}`)
  await world.duck.run(
    `COPY (SELECT ${columns} FROM range(9000)) TO '${wide}' (ROW_GROUP_SIZE 2048, KV_METADATA {'weir.ä': '€'})`,
  )
  files.push(wide)
})

afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

it('are read as an independent reader reads them', () => {
  for (const file of files) {
    const found = readParquetFooter(disk, file)
    const wanted = parquetMetadata(Uint8Array.from(readFileSync(file)).buffer)
    const columns = wanted.row_groups.flatMap(group => group.columns)
    expect(found.rows).toBe(Number(wanted.num_rows))
    expect(found.valueBytes).toBe(
      columns.reduce((sum, { meta_data }) => sum + Number(meta_data!.total_uncompressed_size), 0),
    )
    expect(found.valueBytes).toBeGreaterThan(0)
    expect(found.texts).toEqual(
      new Map(wanted.key_value_metadata?.map(({ key, value }) => [key, value ?? ''])),
    )
    expect(found.texts.size).toBeGreaterThan(0)
  }
  expect(parquetMetadata(Uint8Array.from(readFileSync(files[3]!)).buffer).metadata_length).toBeGreaterThan(
    20_000,
  )
})

it('with wrong bytes are Damaged or read to their end', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const random = randomOf(seed)
  const path = join(folder, 'broken.parquet')
  let damaged = 0
  for (let round = 0; round < 1000; round++) {
    const whole = readFileSync(files[round % 3]!)
    const bytes = Buffer.from(whole)
    const footer = whole.readUInt32LE(whole.length - 8)
    for (let changes = 1 + random(3); changes > 0; changes--)
      bytes[whole.length - 1 - random(footer + 8)] = random(256)
    writeFileSync(path, random(10) === 0 ? bytes.subarray(random(bytes.length)) : bytes)
    try {
      readParquetFooter(disk, path)
    } catch (error) {
      expect(error, `seed ${seed}`).toBeInstanceOf(Damaged)
      expect(error, `seed ${seed}`).toMatchObject({ file: path })
      damaged += 1
    }
  }
  expect(damaged).toBeGreaterThan(50)
})

/** A file whose footer is `bytes`. */
function fileOf(bytes: Buffer): string {
  const path = join(folder, 'made.parquet')
  const end = Buffer.alloc(8)
  end.writeUInt32LE(bytes.length)
  end.write('PAR1', 4)
  writeFileSync(path, Buffer.concat([bytes, end]))
  return path
}

it.each([
  ['nested without end', Buffer.alloc(100_000, 0x1c), /nested too deep/],
  ['lists nested without end', Buffer.from([0x19, ...Buffer.alloc(100_000, 0x19)]), /nested too deep/],
  ['a list longer than the file', Buffer.from([0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f]), /ends too soon/],
  ['a list of numbers for row groups', Buffer.from([0x49, 0x15, 0x00]), /list of another kind/],
  ['a number beyond 64 bits', Buffer.from([0x36, ...Array.from({ length: 20 }, () => 0xff)]), /too large/],
  ['a kind that there is not', Buffer.from([0x1b, 0x00]), /unknown kind/],
  ['nothing', Buffer.from([0x00]), /no count of rows/],
  ['less than nothing', Buffer.from([0x36, 0x01, 0x00]), /no count of rows/],
])('with %s are Damaged', (_, bytes, what) => {
  expect(() => readParquetFooter(disk, fileOf(bytes))).toThrow(what)
  expect(() => readParquetFooter(disk, fileOf(bytes))).toThrow(Damaged)
})

it('of files that are no Parquet files are Damaged', () => {
  const path = join(folder, 'made.parquet')
  for (const bytes of [Buffer.alloc(0), Buffer.from('PAR1'), Buffer.alloc(100), Buffer.alloc(50_000, 0xff)]) {
    writeFileSync(path, bytes)
    expect(() => readParquetFooter(disk, path)).toThrow(/does not end as a Parquet file/)
  }
  const end = Buffer.from([0xff, 0xff, 0xff, 0x7f, ...Buffer.from('PAR1')])
  writeFileSync(path, end)
  expect(() => readParquetFooter(disk, path)).toThrow(/does not end as a Parquet file/)
})
