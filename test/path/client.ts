/**
 * Shared by the tests over HTTP: requests to a pool of the real server, and the form of a refusal.
 */
import { expect } from 'vitest'
import { type Answer, type Ask, ask } from '../api/client.ts'
import type { ColumnSpec, TestPool, TestServer } from '../util/server.ts'

export const OK = { statusCode: 200, statusMessage: 'OK' }

export function portOf(server: TestServer): number {
  return Number(new URL(server.base).port)
}

export function pathOf(pool: TestPool): string {
  return new URL(pool.url).pathname
}

/** One request to a pool's webhook, POST by default. `query` begins with "?". */
export function post(
  server: TestServer,
  pool: TestPool,
  body: unknown,
  more: Ask & { readonly query?: string } = {},
): Promise<Answer> {
  const { query = '', ...rest } = more
  const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  const given = rest.chunks === undefined ? { body: bytes } : {}
  return ask(portOf(server), pathOf(pool) + query, { ...given, ...rest })
}

export function column(name: string, type: string, nullable = false, jsonProperty = name): ColumnSpec {
  return { name, jsonProperty, type, nullable }
}

/** A refusal is one object that has the fields of old clients and of RFC 9457. */
export function expectProblem(answer: Answer, status: number, code: string): void {
  expect([answer.status, answer.json?.code]).toEqual([status, code])
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(typeof answer.json.errors).toBe('string')
  expect(answer.json.errors).not.toBe('')
  expect(answer.json.status).toBe(status)
  expect(answer.json.detail).toBe(answer.json.errors)
  expect(typeof answer.json.title).toBe('string')
  expect(typeof answer.json.type).toBe('string')
  expect(typeof answer.json.retryable).toBe('boolean')
  expect(Array.isArray(answer.json.events)).toBe(true)
}

/** `[accepted, rejected]` of the headers. */
export function counts(answer: Answer): unknown[] {
  return [answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]
}

/** One filter of a counter. */
export function where(columnName: string, operator: string, value?: string) {
  return { filters: [{ column: columnName, operator, ...(value === undefined ? {} : { value }) }] }
}
