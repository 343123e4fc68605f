import { expect, test } from 'vitest'
import { isMisspelt, likelyName } from '../../src/util/misspelt.ts'
import { below, randomFrom } from './random.ts'

const LETTERS = 'abcd'

/** `word` after one edit: a letter more, less or another, or two neighbours swapped. */
function edited(word: string, random: () => number): string {
  const at = below(random, word.length)
  const letter = LETTERS[below(random, LETTERS.length)]!
  const kind = below(random, 4)
  if (kind === 0) return word.slice(0, at) + letter + word.slice(at)
  if (kind === 1) return word.slice(0, at) + word.slice(at + 1)
  if (kind === 2) return word.slice(0, at) + letter + word.slice(at + 1)
  return word.slice(0, at) + (word[at + 1] ?? '') + word[at] + word.slice(at + 2)
}

/** All words that one edit makes of `word`. */
function neighbours(word: string): Set<string> {
  const all = new Set([word])
  for (let at = 0; at <= word.length; at++) {
    for (const letter of LETTERS) {
      all.add(word.slice(0, at) + letter + word.slice(at))
      if (at < word.length) all.add(word.slice(0, at) + letter + word.slice(at + 1))
    }
    all.add(word.slice(0, at) + word.slice(at + 1))
    if (at + 1 < word.length) all.add(word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2))
  }
  return all
}

test('a misspelt word is one edit away, and no other is', () => {
  const seed = 57
  const random = randomFrom(seed)
  for (let round = 0; round < 20_000; round++) {
    const known = Array.from({ length: 3 + below(random, 5) }, () => LETTERS[below(random, 4)]).join('')
    let given = edited(known, random)
    if (random() < 0.5) given = edited(given.padEnd(1, 'a'), random)
    const want = given !== known && neighbours(known).has(given) && given.length <= 2 * known.length
    expect(isMisspelt(given, known), `seed ${seed}: ${given} for ${known}`).toBe(want)
  }
})

test('case, and signs between letters and digits, do not count', () => {
  for (const given of [
    'data dir',
    'data.dir',
    'data\u2011dir',
    'data-dir[]',
    '\u200bdata-dir',
    '-- data-dir',
  ])
    expect(isMisspelt(given, 'data-dir'), given).toBe(true)
  expect(isMisspelt('DataDir', 'data-dir')).toBe(true)
  expect(isMisspelt('data_dri', 'data-dir')).toBe(true)
  expect(isMisspelt('data-dir', 'data-dir')).toBe(false)
  expect(isMisspelt('x'.repeat(1_000_000), 'data-dir')).toBe(false)
})

test('the likely name is the only one near, or the only one that begins so', () => {
  expect(likelyName('prot', ['port', 'host'])).toBe('port')
  expect(likelyName('dat', ['data-dir', 'host'])).toBe('data-dir')
  expect(likelyName('cat', ['bat', 'hat'])).toBeUndefined()
  expect(likelyName('d', ['data-dir', 'host'])).toBeUndefined()
  expect(likelyName('other', ['port', 'host'])).toBeUndefined()
})
