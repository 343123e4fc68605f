/**
 * Samples that are broken, large, deep or odd: the result is bounded, names are valid, and a
 * problem names its sample.
 */
import { describe, expect, test } from 'vitest'
import { columnsProblem } from '../../../src/catalog/change/rules.ts'
import { COLUMNS_PROPOSED_MAX, inferColumns } from '../../../src/parse/infer/infer.ts'
import { INFER_BYTES_MAX, readSamples, SAMPLES_MAX } from '../../../src/parse/infer/samples.ts'
import { problemOf, propose } from './propose.ts'

function propertiesOf(...samples: readonly string[]): readonly string[] {
  return propose(...samples).columns.map(({ jsonProperty }) => jsonProperty)
}

function namesOf(...samples: readonly string[]): readonly string[] {
  const { columns } = propose(...samples)
  expect(columnsProblem(columns)).toBeUndefined()
  return columns.map(({ name }) => name)
}

describe('samples with a problem', () => {
  const cases: readonly [sample: string | Uint8Array, code: string][] = [
    ['', 'not_json'],
    ['   ', 'not_json'],
    ['{', 'not_json'],
    ['{"a":1}}', 'not_json'],
    ['{"a":1}{"b":2}', 'not_json'],
    ['[{"a":1}', 'not_json'],
    ['[{"a":1},]', 'not_json'],
    ['[{"a":1} {"b":1}]', 'not_json'],
    ['[,]', 'not_json'],
    ['{"a":01}', 'not_json'],
    ["{'a':1}", 'not_json'],
    ['1', 'not_object_or_array'],
    ['"x"', 'not_object_or_array'],
    ['null', 'not_object_or_array'],
    ['[1]', 'not_object_or_array'],
    ['[{"a":1},[]]', 'not_object_or_array'],
    ['{"a":1e999}', 'number_out_of_range'],
    ['{"a":"\\ud800"}', 'unpaired_surrogate'],
    ['\ufeff\ufeff{}', 'byte_order_mark'],
    [Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d), 'invalid_utf8'],
    ['{"a":'.repeat(2000), 'too_deep'],
  ]
  test.each(cases)('%j: %s', (body, code) => {
    const result = inferColumns([{ body: '{"ok":1}' }, { body }])
    expect(result).toMatchObject({ problem: { code, message: expect.stringContaining('Sample 1') } })
  })

  test('none at all', () => {
    expect(inferColumns([])).toMatchObject({ problem: { code: 'no_samples' } })
    expect(problemOf('[]')).toBe('no_samples')
    expect(problemOf('[]', '{}')).toBe('ok')
  })

  test('too many, and too large', () => {
    const many = (count: number) => Array.from({ length: count }, () => '{"a":1}')
    expect(problemOf(...many(SAMPLES_MAX))).toBe('ok')
    expect(problemOf(...many(SAMPLES_MAX + 1))).toBe('too_many_samples')
    expect(problemOf(`[${many(SAMPLES_MAX).join(',')}]`)).toBe('ok')
    expect(problemOf(`[${many(SAMPLES_MAX + 1).join(',')}]`)).toBe('too_many_samples')
    const large = `{"a":"${'x'.repeat(INFER_BYTES_MAX - 8)}"}`
    expect(problemOf(large)).toBe('ok')
    expect(problemOf(large, '{}')).toBe('samples_too_large')
  })
})

describe('names', () => {
  test('keys that differ by case only get names that do not', () => {
    expect(namesOf('{"id":1,"ID":2,"Id":3,"iD_2":4}')).toEqual(['id', 'ID_2', 'Id_3', 'iD_2_2'])
  })

  test('reserved names and odd letters', () => {
    expect(namesOf('{"_service_payload":1,"_SERVICE_x":1,"filename":1,"RowId":1}')).toEqual([
      'service_payload',
      'SERVICE_x',
      'event_filename',
      'event_RowId',
    ])
    expect(namesOf('{"größe (cm)":1,"@odata.type":1,"a b":1,"a-b":1,"…":1,"𝄞":1,"a\\u0000b":1}')).toEqual([
      'größe_cm',
      'odata_type',
      'a_b',
      'a_b_2',
      'event_field',
      'event_field_2',
      'a_b_3',
    ])
  })

  test('long keys are cut between characters', () => {
    const [first, second] = namesOf(
      JSON.stringify({ [`${'é'.repeat(100)}a`]: 1, [`${'é'.repeat(100)}b`]: 1 }),
    )
    expect(first).toBe('é'.repeat(60))
    expect(second).toBe(`${'é'.repeat(60)}_2`)
    expect(propertiesOf(JSON.stringify({ ['x'.repeat(1024)]: 1, ['y'.repeat(1025)]: 1 }))).toEqual([
      'x'.repeat(1024),
    ])
  })
})

describe('keys', () => {
  test('names of prototypes are plain names', () => {
    const body = '{"__proto__":{"x":1},"constructor":"a","toString":2,"hasOwnProperty":true,"length":3}'
    expect(propertiesOf(body)).toEqual(['__proto__.x', 'constructor', 'toString', 'hasOwnProperty', 'length'])
    expect(propertiesOf('{}')).toEqual([])
  })

  test('the last duplicate wins at each level, as it does at ingest', () => {
    const types = (body: string) =>
      propose(body).columns.map(({ jsonProperty, type }) => `${jsonProperty} ${type}`)
    expect(types('{"a":1,"a":"x"}')).toEqual(['a STRING'])
    expect(types('{"a":{"b":1},"a":{"c":"x"}}')).toEqual(['a.c STRING'])
    expect(types('{"a":{"b":1},"a":2}')).toEqual(['a INT64'])
    expect(types('{"a":{"b":1,"b":null}}')).toEqual([])
    expect(types('{"\\u0061":1,"a":true}')).toEqual(['a BOOLEAN'])
  })

  test('a key that no property can name gets no column', () => {
    expect(propertiesOf('{"":1,"a":{"b.c":1,"":2,"d[0]":3,"e":4},"f.g":{"h":1}}')).toEqual(['a.e', 'f.g'])
    expect(propertiesOf('{"$.a":1,"$header.x":1,"$query.y":1,"$path":1,"$":{"a":1},"$id":1}')).toEqual([
      '$',
      '$id',
    ])
    expect(propertiesOf('{"$header":{"x":1},"$query":{"x":1},"$path":{"x":1}}')).toEqual([
      '$header',
      '$query',
    ])
  })

  test('a name with dots that a path equals too gets no column', () => {
    expect(propertiesOf('{"a.b":1,"a":{"b":2,"c":3}}')).toEqual(['a.b', 'a.c'])
    expect(propertiesOf('{"a.b":1}', '{"a":{"b":"x","c":3}}')).toEqual(['a.c'])
    expect(propertiesOf('{"a.b":1}', '{"a":{"b":"x"}}', '{"a":5}')).toEqual(['a'])
    expect(propertiesOf('{"a.b":null}', '{"a":{"b":"x"}}')).toEqual([])
    expect(propertiesOf('{"a[0]":1}', '{"a":["x"]}')).toEqual(['a'])
    expect(propertiesOf('{"a[0].b":1}', '{"a":[{"b":"x"}]}')).toEqual(['a'])
    expect(propertiesOf('{".a":1}', '{"":{"a":"x"}}')).toEqual([])
    expect(propertiesOf('{"a.b":1}', '{"c":1}')).toEqual(['a.b', 'c'])
  })
})

describe('size', () => {
  test('100,000 keys at the top, and in an object', () => {
    const keys = Array.from({ length: 100_000 }, (_, i) => `"k${i}":${i}`).join(',')
    const top = propose(`{${keys}}`)
    expect(top.columns.map(({ jsonProperty }) => jsonProperty)).toEqual(
      Array.from({ length: COLUMNS_PROPOSED_MAX }, (_, i) => `k${i}`),
    )
    expect(top.leftOut.length).toBe(100)
    const inside = propose(`{"id":"a","o":{${keys}},"z":1}`)
    expect(inside.columns.map(({ jsonProperty }) => jsonProperty)).toEqual(['id', 'o', 'z'])
    expect(inside.leftOut.at(-1)?.reason).toMatch(/more names than are read/)
  })

  test('objects and arrays to the depth that ingest takes', () => {
    const nested = (open: string, close: string) => open.repeat(1000) + close.repeat(1000)
    expect(propertiesOf(nested('{"a":', '').replace(/:$/, ':1') + '}'.repeat(1000))).toEqual(['a.a.a'])
    expect(propertiesOf(`{"a":${nested('[', ']')}}`)).toEqual(['a'])
  })

  test('the most useful columns of many are proposed, in their order, and the others are listed', () => {
    const links = Array.from({ length: 80 }, (_, i) => `"link_${i}_url":"x"`).join(',')
    const { columns, leftOut } = propose(`{${links},"status":"x","amount":1}`)
    expect(columns.length).toBe(COLUMNS_PROPOSED_MAX)
    expect(columns.slice(-2).map(({ name }) => name)).toEqual(['status', 'amount'])
    expect(leftOut.length).toBe(22)
    expect(leftOut[0]).toEqual({
      jsonProperty: 'link_58_url',
      reason: 'Other fields seem more useful; at most 60 are proposed.',
    })
  })

  test('a key is proposed however many useful columns there are', () => {
    const useful = Array.from({ length: 80 }, (_, i) => `"a${i}_status":"x"`).join(',')
    const body = `{${useful},"event":{"uuid":"a","time":1700000000}}`
    const { columns, uniqueId, timestamp } = propose(body)
    expect(columns.length).toBe(COLUMNS_PROPOSED_MAX)
    expect([uniqueId.column, timestamp.column]).toEqual(['event_uuid', 'event_time'])
    expect(columns.map(({ name }) => name)).toEqual(expect.arrayContaining(['event_uuid', 'event_time']))
  })
})

describe('files of samples', () => {
  const bodies = (file: string) => {
    const samples = readSamples(Buffer.from(file))
    if ('problem' in samples) return samples.problem.code
    return samples.map(({ body }) => Buffer.from(body).toString())
  }

  test.each([
    ['{"a":1}', ['{"a":1}']],
    [' {"a":1}\n{"a":2}\r\n\n{"a":3}', ['{"a":1}', '{"a":2}', '{"a":3}']],
    ['{\n  "a": 1\n}\n{"a":2}', ['{\n  "a": 1\n}', '{"a":2}']],
    ['[{"a":1},{"a":2}]', ['[{"a":1},{"a":2}]']],
    ['', []],
    ['{"a":1}\n{"a":', 'not_json'],
    ['{"a":1}\nx', 'not_json'],
    ['\ufeff{"a":1}', ['{"a":1}']],
    ['\ufeff\ufeff{"a":1}', 'byte_order_mark'],
  ])('%j', (file, want) => {
    expect(bodies(file)).toEqual(want)
  })

  test('a NUL between documents is refused', () => {
    expect(bodies('{"a":1}\u0000{"a":1}')).toBe('not_json')
  })

  test('they are bounded', () => {
    expect(bodies('{}'.repeat(SAMPLES_MAX)).length).toBe(SAMPLES_MAX)
    expect(bodies('{}'.repeat(SAMPLES_MAX + 1))).toBe('too_many_samples')
    expect(bodies(' '.repeat(INFER_BYTES_MAX + 1))).toBe('samples_too_large')
  })
})
