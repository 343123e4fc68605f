/** The delete file is read back as it was written, and damage is named. */
import { describe, expect, test } from 'vitest'
import { readDeleteFile, writeDeleteFile } from '../../src/format/delete-file.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { Damaged } from '../../src/util/errors.ts'
import { keySchema, post, remove } from './rows.ts'

const header = {
  pool: 9,
  schemaVersion: 2,
  segment: 42,
  sequenceFrom: 5,
  sequenceTo: 2 ** 40,
  rowsOfFlush: 1,
}

function fileBytes(): Uint8Array {
  const entries = [
    remove(
      ['b', 'a'.repeat(220), 'c'],
      [
        [5, 0, 1],
        [2 ** 40, 0, 2],
      ],
    ),
    post(keySchema, [{ key: 'b', values: ['b'] }], [[7, 0, 1]]),
  ]
  const deduplicated = assemblerJs.deduplicate(entries, true, 3)
  return writeDeleteFile(header, deduplicated.keys!, deduplicated.deletes)
}

describe('a delete file', () => {
  test('is read back', () => {
    const file = readDeleteFile(fileBytes(), 'x')
    expect(file).toMatchObject(header)
    expect(file.keys.map(key => Buffer.from(key).toString())).toEqual(['a'.repeat(220), 'c'])
    expect([...file.sequences]).toEqual([2 ** 40, 2 ** 40])
  })

  test('is refused with any one bit changed or any byte missing, naming the file', () => {
    const bytes = fileBytes()
    for (let i = 0; i < bytes.length; i++) {
      const damaged = Uint8Array.from(bytes)
      damaged[i]! ^= 1 << (i & 7)
      expect(() => readDeleteFile(damaged, 'x.deletes')).toThrow(Damaged)
      expect(() => readDeleteFile(bytes.subarray(0, i), 'x.deletes')).toThrow(/x\.deletes/)
    }
  })
})
