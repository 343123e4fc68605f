/** Which questions are known as asked before. */
import { expect, test } from 'vitest'
import { operation } from '../../src/query/expression/typed.ts'
import type { Dialect, QueryPlan } from '../../src/query/plan/plan.ts'
import { RepeatedQuestions } from '../../src/query/repeated-questions.ts'

const plan = {
  select: { outputs: [{ name: 'value', value: operation('count_rows', 'integer', []) }] },
} as unknown as QueryPlan
const dialect = { write: () => ({ sql: '' }) } as unknown as Dialect

/** True where it was asked before. */
const asks = (repeated: RepeatedQuestions, fairKey: string, question: string, rows = 100_000) =>
  repeated.statementsOf(`${fairKey} ${question}`, fairKey, rows, plan, dialect) !== undefined

test('a question over many rows is known at its second ask', () => {
  const repeated = new RepeatedQuestions()
  expect([asks(repeated, 'A', '1'), asks(repeated, 'A', '1'), asks(repeated, 'A', '2')]).toEqual([
    false,
    true,
    false,
  ])
  expect([asks(repeated, 'A', '3', 99_999), asks(repeated, 'A', '3', 99_999)]).toEqual([false, false])
})

test('an application that asks much is the one that is forgotten', () => {
  const repeated = new RepeatedQuestions()
  for (const question of ['1', '2']) asks(repeated, 'B', question)
  for (let at = 0; at < 30_000; at++) asks(repeated, 'A', `${at}`)
  expect([asks(repeated, 'B', '1'), asks(repeated, 'B', '2')]).toEqual([true, true])
  // Its newest ones are known, and its oldest are not.
  expect([asks(repeated, 'A', '29999'), asks(repeated, 'A', '25000'), asks(repeated, 'A', '15000')]).toEqual([
    true,
    true,
    false,
  ])
})
