/** The code to paste: what stands in it is taken by the source, and no name breaks out of it. */
import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { exampleBody, snippet, type Target } from '../../src/console/model/snippets.ts'

const column = (jsonProperty: string) => ({
  name: 'x',
  jsonProperty,
  type: 'STRING',
  nullable: true,
})

test.each([
  [['a', 'b.c'], null, { a: 'hello', b: { c: 'hello' } }],
  [['items[0].sku', 'items[1].sku'], null, { items: [{ sku: 'hello' }, { sku: 'hello' }] }],
  [['items[0].x', 'items.length'], null, { items: [{ x: 'hello' }] }],
  [['m[1][0]'], null, { m: [null, ['hello']] }],
  [['a.0'], null, { a: { '0': 'hello' } }],
  [['a[0]b'], null, { 'a[0]b': 'hello' }],
  [['[0]'], null, { '[0]': 'hello' }],
  [['a..b'], null, { a: { '': { b: 'hello' } } }],
  [['a[9999]', 'b'], null, { b: 'hello' }],
  [['a', 'a.b'], null, { a: { b: 'hello' } }],
  [['$header.x-shop'], null, { hello: 'weir' }],
  [['a'], 'data.0.events', { data: { '0': { events: [{ a: 'hello' }] } } }],
])('columns of %j in %j', (properties, eventsPath, body) => {
  expect(JSON.stringify(exampleBody(properties.map(column), eventsPath))).toBe(JSON.stringify(body))
})

test('a property __proto__ is one of the event', () => {
  expect(JSON.stringify(exampleBody([column('__proto__.a')], null))).toBe('{"__proto__":{"a":"hello"}}')
  expect(({} as { a?: unknown }).a).toBeUndefined()
})

const NASTY = `';touch /tmp/weir-broke-out;'"\`$(touch /tmp/weir-broke-out)\${process.exit(7)}%{if}\\\n</script>`

const target: Target = {
  url: 'http://127.0.0.1:1/v1/x',
  basicAuth: { username: NASTY, password: NASTY },
  example: exampleBody([column('it\'s "quoted"')], null),
  name: NASTY,
  timestamp: null,
  uniqueId: NASTY,
  columns: [{ ...column(NASTY), name: NASTY }],
}

describe('names and passwords stay texts', () => {
  test('in curl', () => {
    // The shell splits the words, and prints them in place of running curl.
    const said = spawnSync('bash', ['-c', `curl() { printf '%s\\0' "$@"; }\n${snippet('curl', target)}`])
    const words = said.stdout.toString().split('\0')
    expect(words[1]).toBe(`${NASTY}:${NASTY}`)
    expect(words[5]).toBe(JSON.stringify(target.example))
  })

  test('in JavaScript', () => {
    const code = `globalThis.fetch = async (url, init) => { console.log(JSON.stringify(init)); return { ok: true } }\n${snippet('JavaScript', target)}`
    const said = spawnSync(process.execPath, ['--input-type=module', '-e', code])
    const { headers, body } = JSON.parse(said.stdout.toString())
    expect(atob(headers.authorization.slice('Basic '.length))).toBe(`${NASTY}:${NASTY}`)
    expect(JSON.parse(body)).toEqual(target.example)
  })

  test.each([
    ['pä', 'ß€'],
    ['😀', ''],
  ])('%j and %j are UTF-8 in JavaScript and Python', (username, password) => {
    const given = { ...target, basicAuth: { username, password }, example: { a: 1 } }
    const fetching =
      'globalThis.fetch = async (_, i) => { console.log(i.headers.authorization); return { ok: true } }'
    const js = spawnSync(process.execPath, [
      '--input-type=module',
      '-e',
      `${fetching}\n${snippet('JavaScript', given)}`,
    ])
    const [, sent = ''] = js.stdout.toString().trim().split(' ')
    expect(Buffer.from(sent, 'base64').toString()).toBe(`${username}:${password}`)
    expect(snippet('Python', given)).toContain(`auth=("${username}".encode(), "${password}".encode())`)
  })

  test('a property __proto__ is sent by JavaScript too', () => {
    const example = exampleBody([column('__proto__.a')], '__proto__.b')
    const code = `globalThis.fetch = async (_, i) => { console.log(i.body); return { ok: true } }\n${snippet('JavaScript', { ...target, example })}`
    const said = spawnSync(process.execPath, ['--input-type=module', '-e', code])
    expect(said.stdout.toString().trim()).toBe(JSON.stringify(example))
  })

  test('in Terraform no template begins', () => {
    const text = snippet('Terraform', target)
    expect(text).toContain('$${process.exit(7)}%%{if}')
    expect(snippet('Terraform', { ...target, name: '\\b\f\b' })).toContain('"\\\\b\\u000c\\u0008"')
  })
})
