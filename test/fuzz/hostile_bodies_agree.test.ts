/**
 * Both kernels over hostile bodies that are written out, not drawn: every literal of the generator
 * as a value of every column type, each rule of section 4 by name, whole documents that are
 * refused, and a document cut short at every byte.
 */
import { describe, expect, test } from 'vitest'
import { COLUMN_TYPES, type PoolSchema, type RequestKind } from '../../src/format/schema.ts'
import { FLAG, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../../src/parse/kernel-native.ts'
import { schemaOf } from '../parse/reading.ts'
import { compareCase, describeMismatch, layOut } from './differential.ts'
import {
  BIG_NUMBERS,
  NAMES,
  NUMBERS,
  NUMBERS_REFUSED,
  STRINGS,
  STRINGS_REFUSED,
  TIMES,
  WORDS_REFUSED,
} from './json.ts'
import { Random } from './random.ts'

const native = tryNativeKernel()
const LITERALS = [
  ...NUMBERS,
  ...BIG_NUMBERS,
  ...STRINGS,
  ...TIMES.map(text => JSON.stringify(text)),
  ...['true', 'false', 'null', '{}', '[]', '{"a":1}', '[1,[2]]', ' \t\r\n7 '],
]
const REFUSED = [...NUMBERS_REFUSED, ...STRINGS_REFUSED, ...WORDS_REFUSED]

/**
 * Every body as a request of one call, with and without all-or-nothing; how many requests were
 * accepted and refused.
 */
function agree(schema: PoolSchema, bodies: readonly (string | Uint8Array)[], kind: RequestKind = 'post') {
  const sum = { requests: 0, accepted: 0, refused: 0, undecided: 0 }
  const bytes = bodies.map(body => Buffer.from(body as string))
  for (const flags of [0, FLAG.all_or_nothing]) {
    const { slab, table } = layOut(bytes, new Random(1))
    for (let at = 0; at < table.length; at += REQUEST_WORDS) {
      table[at + REQUEST.flags] = flags
      table[at + REQUEST.bits] = -1
    }
    const mismatch = compareCase(makeJsKernel, native!, { seed: 0, schema, kind, slab, table }, sum)
    expect(mismatch === null ? null : describeMismatch(mismatch).slice(0, 4000)).toBeNull()
  }
  expect(sum.requests).toBe(2 * bodies.length)
  return sum
}

describe.skipIf(native === undefined)('both kernels', () => {
  test.each(COLUMN_TYPES)('%s: every literal, required and not, as a value and as an id', type => {
    const bodies = LITERALS.map(text => `{"c0":${text}}`)
    expect(agree(schemaOf([{ type }]), bodies).accepted).toBeGreaterThan(0)
    agree(schemaOf([{ type, required: true }]), [...bodies, '{}', '[{},{"c0":null}]'])
    expect(
      agree(
        schemaOf([{ type }]),
        REFUSED.map(text => `[{"c0":1},{"c0":${text}}]`),
      ).refused,
    ).toBeGreaterThan(0)
    if (type === 'JSON') return
    const keyed = schemaOf(
      [
        { type: 'TIMESTAMP', required: true },
        { type, required: true },
      ],
      {
        columns: [0, 1],
        version: -1,
      },
    )
    const events = LITERALS.flatMap(text => [`{"c0":0,"c1":${text}}`, `{"c0":${text},"c1":${text}}`])
    for (const kind of ['post', 'delete'] as const) agree(keyed, events, kind)
  })

  test('unusual, dotted, escaped and duplicate names at every level', () => {
    const values = ['1', 'null', '{"b":2}', '{"b":{"c":3}}', '[{"b":4}]']
    const escaped = (name: string) =>
      `"${[...Array(name.length).keys()].map(i => `\\u${name.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
    for (const name of NAMES) {
      const schema = schemaOf([
        { jsonProperty: name },
        { jsonProperty: `${name}.b` },
        { jsonProperty: `a.${name}` },
      ])
      const keys = [JSON.stringify(name), escaped(name), JSON.stringify(`${name}.b`), '"a"', '"b"']
      const one = keys.flatMap(key => values.map(value => `${key}:${value}`))
      const bodies = one.flatMap(first => one.map(second => `{${first},${second}}`))
      expect(agree(schema, bodies).accepted).toBe(2 * bodies.length)
    }
  })

  test('documents: depth 1,024 and 1,025, marks of byte order, encodings, what stands around and behind', () => {
    const schema = schemaOf([{ jsonProperty: 'a' }, { jsonProperty: 'a.a.a', type: 'INT64' }])
    const good = '{"a":{"a":{"a":7}}}'
    const nested = [1022, 1023, 1024, 1025, 1026, 5000].flatMap(depth => [
      '['.repeat(depth) + ']'.repeat(depth),
      `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
      `${'[{"x":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`,
      `[${good},${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}]`,
      `{"b":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`,
    ])
    const byteOrderMarks = [
      [0xef, 0xbb, 0xbf],
      [0xef, 0xbb],
      [0xff, 0xfe],
      [0xfe, 0xff],
      [0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf],
    ]
    const utf8 = [
      'c080',
      'c3',
      'eda080',
      'edbfbf',
      'e08080',
      'f4908080',
      'f0808080',
      '80',
      'ff',
      'f8a0808080',
      'efbfbf',
    ]
    const around = [
      '',
      ' ',
      '\n\t\r ',
      '\0',
      '\u000b',
      '\u00a0',
      '\u2028',
      ',',
      ']',
      '}',
      '[',
      '{',
      '"',
      '\\',
      '1',
      'null',
    ]
    const bodies = [
      ...nested,
      ...byteOrderMarks.map(mark => Buffer.concat([Buffer.from(mark), Buffer.from(good)])),
      ...utf8.flatMap(hex => {
        const bytes = Buffer.from(hex, 'hex')
        return ['{"a":"', '{"', '', '{"b":["x'].map(text =>
          Buffer.concat([Buffer.from(text), bytes, Buffer.from('"}')]),
        )
      }),
      ...around.flatMap(text => [
        text,
        text + good,
        good + text,
        `[${good}${text}]`,
        `[${text}${good}]`,
        `[${good},${text}]`,
      ]),
      ...[500, 501, 502].flatMap(count => [
        `[${Array(count).fill('{}').join()}]`,
        `[${Array(count).fill('3').join()}]`,
        `[${Array(count).fill('{}').join()},]`,
        `[${Array(count).fill('{}').join()},"\\ud800"]`,
      ]),
    ]
    const sum = agree(schema, bodies)
    expect(sum.refused).toBeGreaterThan(100)
    expect(sum.accepted).toBeGreaterThan(1000)
  })

  test('a document cut short at every byte, as POST and as DELETE', () => {
    const whole = Buffer.from(
      ` [ {"time" : "2024-02-29T12:34:56.123456+05:30","id":"\\u00e9\\ud834\\udd1eß","a":{"b":[1,-2.5e-3,{"c":null}]},` +
        `"d":9007199254740993,"e":18446744073709551616 , "a.b":true,"id":"last"},\r\n3, {"time":1700000000.5,"id":"",` +
        `"d":1e2,"pad":"${'x'.repeat(70)}é"},{"id":"no time"} ] `,
    )
    const schema = schemaOf(
      [
        { type: 'TIMESTAMP', jsonProperty: 'time', required: true },
        { type: 'STRING', jsonProperty: 'id', required: true },
        { type: 'JSON', jsonProperty: 'a.b' },
        { type: 'INT64', jsonProperty: 'd' },
        { type: 'DOUBLE', jsonProperty: 'e' },
      ],
      { columns: [0, 1], version: -1 },
    )
    const bodies = Array.from({ length: whole.length + 1 }, (_, length) => whole.subarray(0, length))
    for (const kind of ['post', 'delete'] as const) {
      const sum = agree(schema, bodies, kind)
      // Accepted are the whole body and the one without its last space. All-or-nothing takes none.
      expect(sum.accepted).toBe(2 * 2)
      expect(sum.refused).toBe(2 * (bodies.length - 2))
    }
  })
})
