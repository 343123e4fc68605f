/**
 * Every regular expression of the product is linear: no text makes it backtrack without limit. The
 * list comes from the built code, so new ones are checked too.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isSafePattern } from 'redos-detector'
import { parseAst } from 'vite'
import { expect, test } from 'vitest'

const DIST = fileURLToPath(new URL('../..', import.meta.url))

interface Found {
  readonly file: string
  readonly pattern: string
  readonly flags: string
}

/**
 * Finds the regular expression literals of a syntax tree, and those that are built from text.
 */
function* expressionsIn(file: string): Generator<Found> {
  const open: unknown[] = [parseAst(readFileSync(file, 'utf8'))]
  const name = relative(DIST, file)
  while (open.length > 0) {
    const node = open.pop()
    if (Array.isArray(node)) open.push(...node)
    if (typeof node !== 'object' || node === null || Array.isArray(node)) continue
    const { type, regex, callee } = node as Record<string, Record<string, string> | undefined>
    if (regex !== undefined && regex !== null)
      yield { file: name, pattern: regex['pattern'] ?? '', flags: regex['flags'] ?? '' }
    const isCall = String(type) === 'NewExpression' || String(type) === 'CallExpression'
    if (isCall && callee?.['name'] === 'RegExp') yield { file: name, pattern: 'made of text', flags: '' }
    for (const [key, inner] of Object.entries(node)) if (key !== 'regex') open.push(inner)
  }
}

function allExpressions(): Found[] {
  return ['src', 'workers'].flatMap(folder =>
    (readdirSync(join(DIST, folder), { recursive: true }) as string[])
      .filter(name => name.endsWith('.js'))
      .flatMap(name => [...expressionsIn(join(DIST, folder, name))]),
  )
}

function isLinear({ pattern, flags }: Pick<Found, 'pattern' | 'flags'>): boolean {
  const options = { caseInsensitive: flags.includes('i'), unicode: flags.includes('u') }
  return isSafePattern(pattern, options).safe
}

test('the check knows what is not linear', () => {
  // Earlier versions of Weir had the first three. The last two are linear.
  expect(isLinear({ pattern: '^basic +([A-Za-z0-9+/=_-]*) *$', flags: 'i' })).toBe(false)
  expect(isLinear({ pattern: '\\/+$', flags: '' })).toBe(false)
  expect(isLinear({ pattern: '^(a+)+$', flags: '' })).toBe(false)
  expect(isLinear({ pattern: '^[A-Za-z0-9+/_=-]*$', flags: '' })).toBe(true)
  expect(isLinear({ pattern: '^\\d{4}-\\d{2}$', flags: '' })).toBe(true)
})

test('every regular expression is linear', () => {
  const found = allExpressions()
  expect(found.length).toBeGreaterThan(20)
  const made = found.filter(({ pattern }) => pattern === 'made of text').map(({ file }) => file)
  expect(made, 'only faults that tests order are made of text').toEqual(['src/util/fault-injection.js'])
  const wrong = found.filter(one => one.pattern !== 'made of text' && !isLinear(one))
  expect(wrong).toEqual([])
})
