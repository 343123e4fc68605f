/** The native kernel repeats four limits: each must be that of limits.ts. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { KEY_PART_BYTES_MAX } from '../../src/format/key.ts'
import { BODY_BYTES_MAX, DEPTH_MAX, EVENTS_MAX } from '../../src/util/limits.ts'

const SCHEMA_H = new URL('../../../src/parse/native/schema.h', import.meta.url)

test.each([
  ['body_bytes_max', BODY_BYTES_MAX],
  ['events_max', EVENTS_MAX],
  ['depth_max', DEPTH_MAX],
  ['key_part_bytes_max', KEY_PART_BYTES_MAX],
])('%s of schema.h is that of limits.ts', (name, limit) => {
  const [, value] = readFileSync(SCHEMA_H, 'utf8').match(new RegExp(`${name} = (\\d+)`)) ?? []
  expect(Number(value)).toBe(limit)
})
