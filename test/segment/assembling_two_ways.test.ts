/** The native and the TypeScript passes give equal bytes; winners are the specification's (W-7 within a seal). */
import { describe, expect, it } from 'vitest'
import { FIRST_PLAN_COLUMN } from '../../src/batch/layout.ts'
import type { KeyRun } from '../../src/keys/protocol.ts'
import { type Assembler, assemblerJs, tryAssemblerNative } from '../../src/segment/assembler.ts'
import type { TailEntry } from '../../src/segment/protocol.ts'
import { countKept } from '../../src/segment/runs.ts'
import { layOutStream, writeStreamFrame } from '../../src/segment/stream.ts'
import { arrowHead } from '../../src/segment/stream-head.ts'
import { keyPlan, planOfAll, post, randomEntries, remove } from './rows.ts'

const native = tryAssemblerNative()

function streamOf(assembler: Assembler, entries: readonly TailEntry[], isKeyed: boolean) {
  const plan = planOfAll(isKeyed)
  const survey = assembler.survey(entries, isKeyed, FIRST_PLAN_COLUMN + plan.columns.length)
  const layout = layOutStream(plan, countKept(survey.keep), survey.sums, arrowHead)
  const stream = new Uint8Array(layout.bytes).fill(0xaa)
  writeStreamFrame(stream, layout)
  assembler.fill(entries, survey.keep, stream, layout.places)
  return { survey, stream }
}

function runOf(run: KeyRun | undefined): [string, number][] {
  const words = new Int32Array(run!, 0, 2)
  const n = words[0]!
  const rows = new Int32Array(run!, 8, n)
  const offsets = new Int32Array(run!, 8 + 4 * n, n + 1)
  const bytes = Buffer.from(run!, 12 + 8 * n)
  return Array.from(rows, (row, i) => [bytes.subarray(offsets[i], offsets[i + 1]).toString('latin1'), row])
}

describe.runIf(native !== undefined)('native and TypeScript', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  it.each([true, false])(`give equal bytes, keyed %s, seed ${seed}`, isKeyed => {
    for (let round = 0; round < 40; round++) {
      const entries = randomEntries(planOfAll(isKeyed), seed + round, 1 + (round % 12))
      const [js, cpp] = [streamOf(assemblerJs, entries, isKeyed), streamOf(native!, entries, isKeyed)]
      expect(cpp.survey.keep).toEqual(js.survey.keep)
      expect(cpp.survey.sums).toEqual(js.survey.sums)
      expect(cpp.survey.deletes).toEqual(js.survey.deletes)
      expect(Buffer.from(cpp.survey.keys ?? new ArrayBuffer(0))).toEqual(
        Buffer.from(js.survey.keys ?? new ArrayBuffer(0)),
      )
      expect(Buffer.compare(cpp.stream, js.stream)).toBe(0)
      expect(cpp.stream.length).toBeGreaterThan(0)
    }
  })
})

describe.each(native === undefined ? [assemblerJs] : [assemblerJs, native])('winners, $name', assembler => {
  const row = (key: string) => ({ key, payload: '{}', values: [key] })
  const pick = (entries: readonly TailEntry[]) => {
    const { keep, keys, deletes } = assembler.survey(entries, true, 3)
    return { keep: [...keep], run: runOf(keys), deletes: [...deletes] }
  }

  it('W-7: of equal keys in one request the later wins', () => {
    const got = pick([post(keyPlan, [row('a'), row('b'), row('a')], [[1, 0, 3]])])
    expect(got).toEqual({
      keep: [0, 1, 1],
      run: [
        ['a', 1],
        ['b', 0],
      ],
      deletes: [],
    })
  })

  it('W-7: interleaved sequences of two batches are compared, not the order of rows', () => {
    const got = pick([
      post(
        keyPlan,
        [row('a'), row('b')],
        [
          [5, 0, 1],
          [7, 0, 1],
        ],
      ),
      post(
        keyPlan,
        [row('b'), row('a')],
        [
          [6, 0, 1],
          [8, 0, 1],
        ],
      ),
    ])
    expect(got).toEqual({
      keep: [0, 1, 0, 1],
      run: [
        ['a', 1],
        ['b', 0],
      ],
      deletes: [],
    })
  })

  it('a delete after a post wins, a post after a delete wins', () => {
    const got = pick([
      post(keyPlan, [row('a')], [[1, 0, 1]]),
      remove(['a', 'b', 'c'], [[2, 0, 3]]),
      post(keyPlan, [row('b')], [[3, 0, 1]]),
    ])
    expect(got).toEqual({
      keep: [0, 0, 0, 0, 1],
      run: [
        ['a', -1],
        ['b', 0],
        ['c', -1],
      ],
      deletes: [2, 2],
    })
  })

  it('keys are unique and ascend by their bytes, prefixes and zero bytes included', () => {
    const keys = [
      'aaaaaaaa',
      'aaaaaaaa\u0000',
      'aaaaaaaaaaaaaaaa',
      'aaaaaaaaaaaaaaaab',
      'a',
      'a\u0000',
      '',
      'z',
      'a',
    ]
    const { run } = pick([post(keyPlan, keys.map(row), [[1, 0, keys.length]])])
    const sorted = [...new Set(keys)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    expect(run.map(([key]) => key)).toEqual(sorted)
  })
})
