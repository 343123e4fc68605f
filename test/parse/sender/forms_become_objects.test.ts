/** Forms: as published by senders, against the platform's own encoder, and hostile ones. */
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { FORM_FIELDS_MAX } from '../../../src/parse/sender/body-format.ts'
import { BODY_BYTES_MAX } from '../../../src/util/limits.ts'
import { Random } from '../../fuzz/random.ts'
import { newSeed, TEST_RUNS } from '../../util/random.ts'
import { parseAll, readOutcomes, schemaOf } from '../reading.ts'
import { documentOf, errorOf } from './reading.ts'

const form = (body: string | Uint8Array) => documentOf('FORM', body)

test.each([
  ['a=1&b=two', '{"a":"1","b":"two"}'],
  ['a=1&b=2&a=3&a=', '{"a":["1","3",""],"b":"2"}'],
  ['a=1&%61=2', '{"a":["1","2"]}'],
  ['a=b+c%20d%2B&+x=+', '{"a":"b c d+"," x":" "}'],
  ['a', '{"a":""}'],
  ['a=', '{"a":""}'],
  ['=a', '{"":"a"}'],
  ['=', '{"":""}'],
  ['a=b=c==', '{"a":"b=c=="}'],
  ['&&a=1&&&b=2&', '{"a":"1","b":"2"}'],
  ['a=1;b=2', '{"a":"1;b=2"}'],
  ['a[b]=1&a[c][]=2&a%5Bb%5D=3', '{"a[b]":["1","3"],"a[c][]":"2"}'],
  ['a.b=1', '{"a.b":"1"}'],
  ['__proto__=1&constructor=2&__proto__=3', '{"__proto__":["1","3"],"constructor":"2"}'],
  ['2=b&1=a', '{"2":"b","1":"a"}'],
  ['a=%C3%A9%F0%9D%84%9E&é=ß', '{"a":"é𝄞","é":"ß"}'],
  ['a=%00&b=%e2%80%a8%22%5c%0d%0a%7f', '{"a":"\\u0000","b":"\u2028\\"\\\\\\r\\n\u007f"}'],
  ['a=%EF%BB%BF', '{"a":"\ufeff"}'],
  ['a=\r\n', String.raw`{"a":"\r\n"}`],
  ['a=%2525&b=%26%3D', '{"a":"%25","b":"&="}'],
])('%j', (body, document) => {
  expect(form(body)).toBe(document)
  expect(readOutcomes(parseAll(schemaOf([]), [{ body: document }]))[0]!.accepted).toBe(1)
})

test.each([
  ['%', 'bad_form_encoding'],
  ['a=100%', 'bad_form_encoding'],
  ['a=%4', 'bad_form_encoding'],
  ['a=%4&b=1', 'bad_form_encoding'],
  ['a=%4G', 'bad_form_encoding'],
  ['a=%G4', 'bad_form_encoding'],
  ['a=%%41', 'bad_form_encoding'],
  ['a=%u00e9', 'bad_form_encoding'],
  ['a=% 41', 'bad_form_encoding'],
  ['a=%+1', 'bad_form_encoding'],
  ['%zz=1', 'bad_form_encoding'],
  ['a=%FF', 'invalid_utf8'],
  ['a=%C3', 'invalid_utf8'],
  ['a=%C3&b=%A9', 'invalid_utf8'],
  ['a=%C0%80', 'invalid_utf8'],
  ['a=%ED%A0%80', 'invalid_utf8'],
  ['a=%ED%A0%BD%ED%B8%80', 'invalid_utf8'],
  ['%F4%90%80%80=1', 'invalid_utf8'],
  [Buffer.from([0x61, 0x3d, 0xe9]), 'invalid_utf8'],
  ['', 'empty_form'],
  ['&', 'empty_form'],
  ['&&&', 'empty_form'],
  // JSON that curl -d sends without a Content-Type of its own.
  ['{"a":1}', 'json_as_form'],
  ['[{"a":1}]', 'json_as_form'],
  [' \n{"a":"b&c=d"}', 'json_as_form'],
])('%j is refused', (body, code) => {
  expect(form(body)).toBe(code)
})

test('messages say which field it is', () => {
  expect(errorOf('FORM', 'a=1&b=%2')).toBe(
    '400 bad_form_encoding: field 2 of the form has a "%" without two hexadecimal digits',
  )
  expect(errorOf('FORM', 'a=1&&%ff=1')).toBe('400 invalid_utf8: field 2 of the form is not valid UTF-8')
})

test.each([
  ['payload=%7B%22a%22%3A1%7D', '{"a":1}'],
  ['payload={"a":"b c"}', '{"a":"b c"}'],
  ['payload=+%0A%7B+%22a%22+%3A+%22+%2B%26%22%7D+', ' \n{ "a" : " +&"} '],
  ['&payload=%7B%7D&', '{}'],
  ['%70ayload=%7B%7D', '{}'],
  // No object, or not the only field: a field as any other.
  ['payload=', '{"payload":""}'],
  ['payload', '{"payload":""}'],
  ['payload=hello', '{"payload":"hello"}'],
  ['payload=[{"a":1}]', '{"payload":"[{\\"a\\":1}]"}'],
  ['payload=7', '{"payload":"7"}'],
  ['payload=%EF%BB%BF%7B%7D', '{"payload":"\ufeff{}"}'],
  ['payload=%C2%A0%7B%7D', '{"payload":"\u00a0{}"}'],
  ['payload=%7B%7D&a=1', '{"payload":"{}","a":"1"}'],
  ['payload=%7B%7D&payload=%7B%7D', '{"payload":["{}","{}"]}'],
  ['Payload=%7B%7D', '{"Payload":"{}"}'],
  ['payload[]=%7B%7D', '{"payload[]":"{}"}'],
])('%j: a field named payload', (body, document) => {
  expect(form(body)).toBe(document)
})

test('a payload that begins as an object and is none is refused by the kernel, as a JSON body is', () => {
  for (const [text, code] of [
    ['{"a":1},{"a":2}', 'not_json'],
    ['{"a":1', 'not_json'],
    ['{hello}', 'not_json'],
    ['{"a":1e400}', 'number_out_of_range'],
    ['{"a":"\\ud800"}', 'unpaired_surrogate'],
    ['{}\0', 'not_json'],
  ]) {
    const document = form(`payload=${encodeURIComponent(text!)}`)
    expect(document).toBe(text)
    expect(readOutcomes(parseAll(schemaOf([]), [{ body: document }]))[0]!.document).toBe(code)
  }
})

test('every example of GitHub is its own bytes behind payload=', () => {
  const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
    readonly name: string
    readonly examples: readonly object[]
  }[]
  const texts = examples.flatMap(({ examples }) => examples.map(example => JSON.stringify(example)))
  expect(texts.length).toBeGreaterThan(100)
  for (const text of texts) expect(form(new URLSearchParams({ payload: text }).toString())).toBe(text)
})

test('the request of Twilio for an incoming message, as its documentation shows it', () => {
  const body =
    'ToCountry=US&ToState=CA&SmsMessageSid=SM1234567890123456789012345678901234&NumMedia=0&ToCity=&FromZip=94107' +
    '&SmsSid=SM1234567890123456789012345678901234&FromState=CA&SmsStatus=received&FromCity=SAN+FRANCISCO' +
    '&Body=Ahoy%21+We+can%27t+wait+%E2%80%93+%F0%9F%8E%89&FromCountry=US&To=%2B15558675310&NumSegments=1' +
    '&AccountSid=AC1234567890123456789012345678901234&From=%2B15017122661&ApiVersion=2010-04-01'
  expect(JSON.parse(form(body))).toEqual(Object.fromEntries(new URLSearchParams(body)))
})

test('fields that the platform encodes are read as it reads them', () => {
  const seed = newSeed()
  const parts = [...'ab0 +&=%;"\\\0\n\r\t\u0001\u007f[].{}é\u2028𝄞', '__proto__', 'payload', '%41', '\ufeff']
  for (let one = 0; one < 500 * TEST_RUNS; one += 1) {
    const random = new Random(seed + one)
    const text = (length: number) =>
      Array.from({ length: random.below(length) }, () => random.pick(parts)).join('')
    const encoded = new URLSearchParams()
    for (let fields = 2 + random.below(6); fields > 0; fields -= 1) encoded.append(text(3), text(8))
    const want = new Map<string, string[]>()
    for (const [name, value] of encoded) want.set(name, [...(want.get(name) ?? []), value])
    const got = new Map(
      Object.entries(JSON.parse(form(encoded.toString()))).map(([name, value]) => [name, [value].flat()]),
    )
    expect(new Map([...got].sort()), `seed ${seed + one}: ${encoded}`).toEqual(new Map([...want].sort()))
  }
})

test('100,000 fields, and one more than the limit, are refused; the limit is taken', () => {
  const fields = (count: number) => Array.from({ length: count }, (_, field) => `f${field}=`).join('&')
  expect(errorOf('FORM', fields(100_000))).toBe('413 too_many_fields: a form takes at most 4096 fields')
  expect(form('&a'.repeat(FORM_FIELDS_MAX + 1))).toBe('too_many_fields')
  expect(JSON.parse(form('&a'.repeat(FORM_FIELDS_MAX)))).toEqual({ a: Array(FORM_FIELDS_MAX).fill('') })
  expect(Object.keys(JSON.parse(form(fields(FORM_FIELDS_MAX)))).length).toBe(FORM_FIELDS_MAX)
  expect(form(`${'&'.repeat(BODY_BYTES_MAX - 1)}a`)).toBe('{"a":""}')
})

test('an object that grows beyond the limit of a body is refused', () => {
  for (const unit of ['\u0001', '%01', '"', '\\', '%22']) {
    const length = unit === '\u0001' || unit === '%01' ? 6 : 2
    const fits = Math.floor((BODY_BYTES_MAX - '{"a":""}'.length) / length)
    expect(form(`a=${unit.repeat(Math.min(fits, 300_000))}`).length).toBeGreaterThan(600_000 - 10)
    expect(errorOf('FORM', `a=${unit.repeat(fits + 1)}`)).toBe(
      '413 body_too_large: a form as JSON takes at most 1048320 bytes',
    )
  }
  // Characters of several bytes: the text is short enough, its bytes are not.
  expect(form(`a=${'é'.repeat((BODY_BYTES_MAX - 8) / 2)}`).length).toBe((BODY_BYTES_MAX - 8) / 2 + 8)
  expect(form(`a=${'é'.repeat((BODY_BYTES_MAX - 8) / 2)}x`)).toBe('body_too_large')
  expect(form(`a=${'\u0001'.repeat(BODY_BYTES_MAX - 2)}`)).toBe('body_too_large')
  expect(form(`${'\u0001'.repeat(BODY_BYTES_MAX - 2)}=`)).toBe('body_too_large')
})
