/** NDJSON: which bodies become an array, and that joining lines makes nothing valid. */
import { describe, expect, test } from 'vitest'
import type { MakeKernel } from '../../../src/parse/kernel.ts'
import { makeJsKernel } from '../../../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../../../src/parse/kernel-native.ts'
import { toJsonDocument } from '../../../src/parse/sender/body-format.ts'
import { BODY_BYTES_MAX } from '../../../src/util/limits.ts'
import { JsonMaker, makePoolSchema } from '../../fuzz/json.ts'
import { Random } from '../../fuzz/random.ts'
import { newSeed, TEST_RUNS } from '../../util/random.ts'
import { parseAll, readErrors, readOutcomes, readRows, schemaOf } from '../reading.ts'
import { documentOf, errorOf, shared } from './reading.ts'

const schema = schemaOf([{ jsonProperty: 'a' }])
/** The outcome of a document in the kernel as `ok/events` or its code. */
function kernel(document: string): string {
  const [one] = readOutcomes(parseAll(schema, [{ body: document }]))
  return one!.document === 'ok' ? `ok/${one!.events}` : one!.document
}
const ndjson = (body: string | Uint8Array) => documentOf('NDJSON', body)

test.each([
  ['{"a":1}\n{"a":2}\n', '[{"a":1},{"a":2}]'],
  ['{"a":1}\n{"a":2}', '[{"a":1},{"a":2}]'],
  ['{"a":1}', '[{"a":1}]'],
  ['{"a":1}\r\n{"a":2}\r\n', '[{"a":1}\r,{"a":2}]'],
  ['\n\n{"a":1}\n \t\r\n\n{"a":2}\n\n', '[{"a":1}, \t\r\n\n{"a":2}]'],
  [' \t{ "a" : 1 }\t \r\n', '[{ "a" : 1 }]'],
  ['{"a":1}\r', '[{"a":1}]'],
  ['', '[]'],
  ['\n', '[]'],
  [' \r\n \n', '[]'],
  ['{"a":"\u2028 \u2029 \u0085 é 𝄞"}\n{}', '[{"a":"\u2028 \u2029 \u0085 é 𝄞"},{}]'],
  ['{"a":"\\n\\" \\\\"}\n{}', String.raw`[{"a":"\n\" \\"},{}]`],
  ['{"a":"[{"}\n{"b":"}]"}', '[{"a":"[{"},{"b":"}]"}]'],
])('%j', (body, document) => {
  expect(ndjson(body)).toBe(document)
  expect(kernel(document)).toMatch(/^ok/)
})

// Joined with commas, each of these bodies would be a valid array.
test.each([
  ['1,2', 'not_ndjson'],
  ['{"a":1},{"a":2}', 'not_ndjson'],
  ['{},{}\n{}', 'not_ndjson'],
  ['{"a":1\n"b":2}', 'not_ndjson'],
  ['{"a":[1\n2]}', 'not_ndjson'],
  ['{"a":"x\ny"}', 'not_ndjson'],
  ['{"a":"\n"}', 'not_ndjson'],
  ['{"a":"\\\n"}', 'not_ndjson'],
  ['{}\n1\n{}', 'not_ndjson'],
  ['{}\n[{}]', 'not_ndjson'],
  ['[{}\n{}]', 'not_ndjson'],
  ['{}\n"{}"', 'not_ndjson'],
  ['null', 'not_ndjson'],
  ['{}\n}\n{', 'not_ndjson'],
  // A JSON body under the type of NDJSON.
  ['[{"a":1},{"a":2}]', 'not_ndjson'],
  ['{\n  "a": 1\n}\n', 'not_ndjson'],
  ['[]', 'not_ndjson'],
  // Other line breaks, and what is no white space in JSON.
  ['{}\r{}', 'not_ndjson'],
  ['{}\u2028{}', 'not_ndjson'],
  ['{}\u000b\n{}', 'not_ndjson'],
  ['{} {}', 'not_ndjson'],
  ['{}\0\n{}', 'not_ndjson'],
  ['\0', 'not_ndjson'],
  ['{}\n\u00a0\n{}', 'not_ndjson'],
  ['{}\n,', 'not_ndjson'],
  ['{},\n{}', 'not_ndjson'],
  ['{}\n{"a":1', 'not_ndjson'],
  ['{"a":"', 'not_ndjson'],
  ['{"a":"\\', 'not_ndjson'],
  ['{"a":"\\u12', 'not_ndjson'],
  ['data: {}', 'not_ndjson'],
  // The rules of a JSON body.
  ['{}\n{"a":tru}', 'not_json'],
  ['{"a":1]}\n{}', 'not_json'],
  ['{"a":[1}}\n{}', 'not_json'],
  ['{"a":1,}\n{}', 'not_json'],
  ['{"a":01}\n', 'not_json'],
  ['{"a":"\t"}\n', 'not_json'],
  ['{}\n\ufeff{}', 'not_ndjson'],
  ['{}\n{"a":"\\ud800"}', 'unpaired_surrogate'],
  ['{}\n{"a":1e400}', 'number_out_of_range'],
  [`{}\n{"a":${'['.repeat(1024)}${']'.repeat(1024)}}`, 'too_deep'],
])('%j is refused', (body, code) => {
  expect(ndjson(body)).toBe(code)
})

test('bytes that are not UTF-8 are refused, whatever the lines before them are', () => {
  for (const part of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80]])
    for (const [before, after] of [
      ['{}\n{"a":"', '"}'],
      ['x\n', ''],
    ])
      expect(ndjson(Buffer.concat([Buffer.from(before!), Buffer.from(part), Buffer.from(after!)]))).toBe(
        'invalid_utf8',
      )
})

test('a line whose depth is at the limit is refused by the kernel, as the element of an array is', () => {
  const deep = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
  expect(kernel(ndjson(`{}\n${deep(1023)}\n`))).toBe('ok/2')
  expect(kernel(ndjson(`{}\n${deep(1024)}\n`))).toBe('too_deep')
})

test('500 lines are taken, and 501 refused by the kernel; blank ones do not count', () => {
  const lines = (count: number, line = '{}') => `${line}\n\n`.repeat(count)
  expect(kernel(ndjson(lines(500)))).toBe('ok/500')
  expect(kernel(ndjson(lines(501)))).toBe('too_many_events')
  expect(ndjson(`${lines(501)}x`)).toBe('not_ndjson')
  expect(ndjson('\n'.repeat(BODY_BYTES_MAX))).toBe('[]')
})

test('an array longer than a body may be is refused', () => {
  const line = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
  expect(ndjson(line(BODY_BYTES_MAX - 2)).length).toBe(BODY_BYTES_MAX)
  expect(errorOf('NDJSON', line(BODY_BYTES_MAX - 1))).toBe(
    '413 body_too_large: NDJSON as an array takes at most 1048320 bytes',
  )
  const two = `${line(1000)}\n${line(BODY_BYTES_MAX - 1002)}\n`
  expect(two.length).toBe(BODY_BYTES_MAX)
  expect(ndjson(two)).toBe('body_too_large')
  expect(ndjson(two.slice(0, -1).replace('xx', 'x')).length).toBe(BODY_BYTES_MAX)
})

test.each([
  ['{}\n\n7\n', 'not_ndjson: line 3 is no object: each line of NDJSON is one JSON object'],
  ['{}\n {"a":\n', 'not_ndjson: line 2 ends inside its object: each line of NDJSON is one JSON object'],
  ['{} {}', 'not_ndjson: line 1 goes on after its object: each line of NDJSON is one JSON object'],
  [
    '{}\r\n  {"a" 1}\r\n',
    'not_json: line 2 is not JSON: expected a colon after the key at byte 7, found "1"',
  ],
  ['{}\n{"a":"\\udc00"}', 'unpaired_surrogate: line 2: a string holds one half of a surrogate pair'],
])('%j: the message names the line', (body, message) => {
  expect(errorOf('NDJSON', body)).toBe(`400 ${message}`)
})

test('a comma in place of a line break between two objects, and no other, becomes a line break', () => {
  const array = '[{"a":[1,{"b":"x,y"},3],"c":{"d":1,"e":[{},{}]}},{"f":"g,","h":[]},{"i":1}]'
  const text = array.slice(1, -1)
  const between = new Set([...text.matchAll(/(?<=\}),(?=\{"[fi])/g)].map(match => match.index))
  expect(between.size).toBe(2)
  const commas = [...text.matchAll(/,/g)].map(match => match.index)
  for (let bits = 0; bits < 2 ** commas.length; bits += 1) {
    const broken = commas.filter((_, index) => (bits >> index) & 1)
    const body = broken.reduce((body, at) => `${body.slice(0, at)}\n${body.slice(at + 1)}`, text)
    const isRight = broken.length === between.size && broken.every(at => between.has(at))
    expect([body, ndjson(body)]).toEqual([body, isRight ? array : 'not_ndjson'])
  }
})

// ── against the array of the same events, with random lines ─────────────────────────────────────

const LF = 0x0a

/** The lines of a body without blank ones, split as nothing but their bytes say. */
function linesOf(body: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from <= body.length; ) {
    const found = body.indexOf(LF, from)
    const to = found < 0 ? body.length : found
    const line = body.subarray(from, to)
    if (/[^ \t\r]/.test(line.toString('latin1'))) lines.push(line)
    from = to + 1
  }
  return lines
}

const asArray = (lines: readonly Uint8Array[]) =>
  Buffer.concat([
    Buffer.from('['),
    ...lines.flatMap((line, at) => (at === 0 ? [line] : [Buffer.from(','), line])),
    Buffer.from(']'),
  ])

/** Everything that a kernel makes of a document. */
function made(make: MakeKernel, pool: ReturnType<typeof makePoolSchema>, body: Uint8Array) {
  const parsed = parseAll(pool, [{ body }], 'post', make)
  return { outcomes: readOutcomes(parsed), errors: readErrors(parsed), rows: readRows(parsed.batch) }
}

function compare(make: MakeKernel, seed: number): 'accepted' | 'refused' {
  const random = new Random(seed)
  const pool = makePoolSchema(random)
  const maker = new JsonMaker(random, random.pick([0, 0, 30]), false)
  const count = random.once(30) ? 497 + random.below(6) : random.below(6)
  let text = random.once(10) ? '\n' : ''
  for (let line = 1; line <= count; line += 1) {
    const event =
      count > 400 ? '{}' : random.once(15) ? maker.event() : maker.event().replace(/[\r\n]+/g, ' ')
    text +=
      event + (line === count && random.once(2) ? '' : random.pick(['\n', '\n', '\r\n', '\n\n', ' \t\n']))
  }
  const body = Buffer.from(text)
  if (random.once(4) && body.length > 0)
    body[random.below(body.length)] = random.pick([...Buffer.from('\n\n,"\\{}[] x'), 0xff])
  const lines = linesOf(body)
  const isNdjson = lines.every(line => {
    const [alone] = readOutcomes(parseAll(pool, [{ body: asArray([line]) }]))
    return /^[ \t\r]*\{/.test(line.toString('latin1')) && alone!.document === 'ok' && alone!.events === 1
  })
  const events = toJsonDocument('NDJSON', shared(body), null)
  if (!('document' in events)) {
    expect([isNdjson, events.status], body.toString()).toEqual([false, 400])
    return 'refused'
  }
  const got = made(make, pool, events.document)
  if (isNdjson) expect(got, body.toString()).toEqual(made(make, pool, asArray(lines)))
  else expect(got.outcomes[0]!.document, body.toString()).not.toBe('ok')
  return isNdjson ? 'accepted' : 'refused'
}

describe.each([
  ['js', makeJsKernel],
  ['native', tryNativeKernel()],
] as const)('the %s kernel', (_, make) => {
  const seed = newSeed()
  test.skipIf(make === undefined)(`parses lines as it parses the array of them, seed ${seed}`, () => {
    const sum = { accepted: 0, refused: 0 }
    const cases = 250 * TEST_RUNS
    for (let one = 0; one < cases; one += 1) sum[compare(make!, seed + one)] += 1
    expect(sum.accepted).toBeGreaterThan(cases / 4)
    expect(sum.refused).toBeGreaterThan(cases / 10)
  })
})
