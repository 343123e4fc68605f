/**
 * The reader of Parquet footers agrees with an independent reader, and throws nothing but Damaged
 * for wrong bytes.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parquetMetadata } from 'hyparquet'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readParquetFooter } from '../../src/format/parquet-footer.ts'
import { disk } from '../../src/util/disk.ts'
import { Damaged } from '../../src/util/errors.ts'
import { MergeHarness } from '../store/compaction/merge-harness.ts'
import { randomOf, randomRow, schemaOfAll } from '../store/rows.ts'

const folder = mkdtempSync(join(tmpdir(), 'weir-footer-'))
let harness: MergeHarness
/**
 * Files of the native writer, the JavaScript writer and a merge, and one whose footer is longer
 * than the first read.
 */
const files: string[] = []

beforeAll(async () => {
  const schema = schemaOfAll(true)
  harness = await new MergeHarness(schema).open()
  const random = randomOf(1)
  for (const writer of [0, 1]) {
    const values = Array.from({ length: 50 }, (_, i) => randomRow(schema, random, `k${writer} ${i}`).values!)
    files.push(harness.file(harness.flush([{ values }], [], writer).meta.segment))
  }
  const { meta } = await harness.client.merge(harness.task(0, 2))
  files.push(harness.file(meta!.segment))
  const wide = join(folder, 'wide.parquet')
  const columns = Array.from({ length: 120 }, (_, i) => `range * ${i} AS c${i}`)
  await harness.duck.run(
    `COPY (SELECT ${columns} FROM range(9000)) TO '${wide}' (ROW_GROUP_SIZE 2048, KV_METADATA {'weir.ä': '€'})`,
  )
  files.push(wide)
})

afterAll(async () => {
  await harness.close()
  rmSync(folder, { recursive: true })
})

test('footers are read as an independent reader reads them', () => {
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

test('footers with wrong bytes are Damaged or read to their end', () => {
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

test.each([
  ['endless nesting', Buffer.alloc(100_000, 0x1c), /nested too deep/],
  ['endlessly nested lists', Buffer.from([0x19, ...Buffer.alloc(100_000, 0x19)]), /nested too deep/],
  ['a list longer than the file', Buffer.from([0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f]), /ends too soon/],
  ['a list of numbers for row groups', Buffer.from([0x49, 0x15, 0x00]), /list of another kind/],
  ['a number beyond 64 bits', Buffer.from([0x36, ...Array.from({ length: 20 }, () => 0xff)]), /too large/],
  ['an unknown kind of field', Buffer.from([0x1b, 0x00]), /unknown kind/],
  ['no field', Buffer.from([0x00]), /no count of rows/],
  ['a negative count of rows', Buffer.from([0x36, 0x01, 0x00]), /no count of rows/],
])('a footer with %s is Damaged', (_, bytes, what) => {
  expect(() => readParquetFooter(disk, fileOf(bytes))).toThrow(what)
  expect(() => readParquetFooter(disk, fileOf(bytes))).toThrow(Damaged)
})

test('a file that is no Parquet file is Damaged', () => {
  const path = join(folder, 'made.parquet')
  for (const bytes of [Buffer.alloc(0), Buffer.from('PAR1'), Buffer.alloc(100), Buffer.alloc(50_000, 0xff)]) {
    writeFileSync(path, bytes)
    expect(() => readParquetFooter(disk, path)).toThrow(/does not end as a Parquet file/)
  }
  const end = Buffer.from([0xff, 0xff, 0xff, 0x7f, ...Buffer.from('PAR1')])
  writeFileSync(path, end)
  expect(() => readParquetFooter(disk, path)).toThrow(/does not end as a Parquet file/)
})
