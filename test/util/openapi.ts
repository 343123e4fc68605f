/** Requests by the operations of an OpenAPI document, whose answers are compared with it. */
import { expect } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { type Answer, type Ask, ask } from '../api/client.ts'
import { problemIn, resolve, type Schema } from './json-schema.ts'

export interface Operation {
  readonly id: string
  /** In upper case. */
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly statuses: readonly number[]
  readonly responses: Readonly<Record<string, Schema>>
  readonly hasBody: boolean
  /** The schema of a body in JSON. */
  readonly jsonBody: Schema | undefined
  /** Names of the parameters of the query. */
  readonly parameters: readonly string[]
}

/** A request. */
export interface Call extends Omit<Ask, 'method'> {
  /** Values for the names in the path. */
  readonly in?: Readonly<Record<string, string>>
  /** Without the "?". */
  readonly query?: string
}

/** Headers that an operation documents where it sends them. */
const HEADERS = ['allow', 'www-authenticate', 'retry-after', 'set-cookie', 'content-disposition', 'etag']

export class Documented {
  readonly document: Schema
  readonly operations: readonly Operation[]
  /** Operations with the statuses that they answered: `livez 200`. */
  readonly seen = new Set<string>()

  constructor(document: Schema) {
    this.document = document
    const paths = document['paths'] as Readonly<Record<string, Readonly<Record<string, Schema>>>>
    this.operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => {
        const responses = described['responses'] as Operation['responses']
        return {
          id: String(described['operationId']),
          method: method.toUpperCase(),
          path,
          tag: (described['tags'] as readonly string[])[0]!,
          statuses: Object.keys(responses)
            .filter(status => status !== 'default')
            .map(Number),
          responses,
          hasBody: described['requestBody'] !== undefined,
          jsonBody: jsonBodyOf(described),
          parameters: ((described['parameters'] ?? []) as readonly Schema[])
            .map(one => this.#resolved(one))
            .filter(one => one['in'] === 'query')
            .map(one => String(one['name'])),
        }
      }),
    )
  }

  operation(id: string): Operation {
    return must(
      this.operations.find(one => one.id === id),
      `the operation ${id}`,
    )
  }

  /**
   * Sends a request, and checks that its answer has the status and is as documented. So is a
   * request that succeeds: what the document says of requests is what the server takes.
   */
  async call(port: number, id: string, status: number, call: Call = {}): Promise<Answer> {
    const { in: names = {}, query = '', ...rest } = call
    const { method, path } = this.operation(id)
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(must(names[name], name)),
    )
    const answer = await ask(port, query === '' ? filled : `${filled}?${query}`, { ...rest, method })
    expect([id, answer.status, answer.status === status ? '' : answer.text]).toEqual([id, status, ''])
    this.check(id, answer)
    if (status === 200) this.#checkRequest(this.operation(id), query, rest.body)
    return answer
  }

  /** Checks that the operation documents the status, the headers, the content type and the body. */
  check(id: string, { status, headers, text }: Answer): void {
    const { responses, method } = this.operation(id)
    const response = this.#resolved(must(responses[status], `the status ${status} of ${id}`))
    const documented = Object.keys((response['headers'] ?? {}) as Schema).map(name => name.toLowerCase())
    const stray = HEADERS.filter(name => headers[name] !== undefined && !documented.includes(name))
    // A refusal has every header that its status documents.
    const absent = status < 400 ? [] : documented.filter(name => headers[name] === undefined)
    expect([id, status, stray, absent]).toEqual([id, status, [], []])
    this.seen.add(`${id} ${status}`)
    const content = response['content'] as Readonly<Record<string, { schema: Schema }>> | undefined
    if (content === undefined || method === 'HEAD') {
      expect([id, status, text]).toEqual([id, status, ''])
      return
    }
    const type = headers['content-type']?.split(';', 1)[0] ?? ''
    if (type === '' && text === '') return // a handshake that is answered by a header alone
    expect([id, status, Object.keys(content)]).toEqual([id, status, expect.arrayContaining([type])])
    const { schema } = content[type]!
    for (const value of valuesOf(type, text, schema))
      expect([id, status, problemIn(schema, value, this.document)]).toEqual([id, status, ''])
  }

  /** The documented answers that never came. @param isWanted which of them should have */
  missing(isWanted: (operation: Operation, status: number) => boolean): string[] {
    return this.operations.flatMap(operation =>
      operation.statuses
        .filter(status => isWanted(operation, status))
        .map(status => `${operation.id} ${status}`)
        .filter(name => !this.seen.has(name)),
    )
  }

  #checkRequest({ id, tag, jsonBody, parameters }: Operation, query: string, body: Ask['body']): void {
    const stray = [...new URLSearchParams(query).keys()].filter(name => !parameters.includes(name))
    // A handshake has parameters of its own. Events of any form come to a webhook.
    if (tag === 'webhooks') return
    expect([id, stray]).toEqual([id, []])
    if (jsonBody === undefined || typeof body !== 'string') return
    expect([id, problemIn(jsonBody, JSON.parse(body), this.document)]).toEqual([id, ''])
  }

  #resolved(part: Schema): Schema {
    return typeof part['$ref'] === 'string' ? resolve(part['$ref'], this.document) : part
  }
}

function jsonBodyOf({ requestBody }: Schema): Schema | undefined {
  const { content = {} } = (requestBody ?? {}) as { readonly content?: Record<string, { schema: Schema }> }
  return content['application/json']?.schema
}

/** The values that the schema of a body is about: one, or those of the lines of NDJSON. */
function valuesOf(type: string, text: string, schema: Schema): readonly unknown[] {
  if (schema['type'] === 'string') return [text]
  const values = type === 'application/x-ndjson' ? text.trimEnd().split('\n') : [text]
  return values.map(value => JSON.parse(value) as unknown)
}
