/**
 * A collector of traces for tests: it takes OTLP/HTTP in protobuf and keeps the spans. The field
 * numbers are those of opentelemetry-proto, trace/v1/trace.proto.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Value = string | number | boolean | undefined

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** "" without one. */
  readonly parentId: string
  readonly traceState: string
  readonly name: string
  readonly kind: 'internal' | 'server' | 'client'
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Readonly<Record<string, Value>>
  readonly isError: boolean
  readonly resource: Readonly<Record<string, Value>>
}

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = []
  /** Bodies as they came, which must not have a secret anywhere. */
  readonly bodies: Buffer[] = []
  readonly requests: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = []
  readonly base: string
  readonly #waiting = new Set<() => void>()

  private constructor(port: number) {
    this.base = `http://127.0.0.1:${port}`
  }

  /** @param answer sends an answer; the default is 200 */
  static async start(
    answer: (response: ServerResponse) => void = response => response.writeHead(200).end(),
  ): Promise<OtlpReceiver> {
    const server = createServer(async (request, response) => {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      receiver.#take(request.url ?? '', request.headers, Buffer.concat(parts))
      answer(response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const receiver = new OtlpReceiver((server.address() as AddressInfo).port)
    server.unref() // it lives as long as the tests of its file
    return receiver
  }

  /** Resolves with the spans for which `isWanted` once there are `count` of them. */
  async until(count: number, isWanted: (span: ReceivedSpan) => boolean): Promise<readonly ReceivedSpan[]> {
    for (;;) {
      const found = this.spans.filter(isWanted)
      if (found.length >= count) return found
      await new Promise<void>(resolve => this.#waiting.add(resolve))
    }
  }

  /** The spans of a trace, once the span of its request has come: it ends last. */
  async trace(traceId: string): Promise<readonly ReceivedSpan[]> {
    await this.until(1, span => span.traceId === traceId && span.kind === 'server')
    return this.spans.filter(span => span.traceId === traceId)
  }

  #take(url: string, headers: IncomingHttpHeaders, body: Buffer): void {
    this.requests.push({ url, headers })
    this.bodies.push(body)
    for (const resourceSpans of messages(fieldsOf(body), 1)) {
      const resource = attributesOf(messages(messages(resourceSpans, 1)[0]!, 1))
      for (const scopeSpans of messages(resourceSpans, 2))
        for (const span of messages(scopeSpans, 2)) this.spans.push(spanOf(span, resource))
    }
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
  }
}

const KINDS = ['internal', 'internal', 'server', 'client'] as const

function spanOf(span: Fields, resource: ReceivedSpan['resource']): ReceivedSpan {
  return {
    traceId: bytes(span, 1).toString('hex'),
    spanId: bytes(span, 2).toString('hex'),
    traceState: bytes(span, 3).toString(),
    parentId: bytes(span, 4).toString('hex'),
    name: bytes(span, 5).toString(),
    kind: KINDS[Number(span.get(6)?.[0] ?? 0)] ?? 'internal',
    startNs: bytes(span, 7).readBigUInt64LE(),
    endNs: bytes(span, 8).readBigUInt64LE(),
    attributes: attributesOf(messages(span, 9)),
    isError: messages(span, 15).some(status => status.get(3)?.[0] === 2n),
    resource,
  }
}

function attributesOf(pairs: readonly Fields[]): Record<string, Value> {
  return Object.fromEntries(
    pairs.map(pair => [bytes(pair, 1).toString(), anyValue(messages(pair, 2)[0] ?? new Map())]),
  )
}

function anyValue(value: Fields): Value {
  if (value.has(1)) return bytes(value, 1).toString()
  if (value.has(2)) return value.get(2)?.[0] === 1n
  if (value.has(3)) return Number(value.get(3)?.[0])
  return value.has(4) ? bytes(value, 4).readDoubleLE() : undefined
}

/** The values of a message by field number: numbers of variable length, or bytes. */
type Fields = ReadonlyMap<number, readonly (bigint | Buffer)[]>

function fieldsOf(message: Buffer): Fields {
  const fields = new Map<number, (bigint | Buffer)[]>()
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  while (at < message.length) {
    const tag = Number(varint())
    const width = { 0: 0, 1: 8, 2: -1, 5: 4 }[tag & 7]
    if (width === undefined) throw new Error(`no such wire type: ${tag & 7}`)
    let value: bigint | Buffer
    if (width === 0) value = varint()
    else {
      const length = width < 0 ? Number(varint()) : width
      value = message.subarray(at, at + length)
      at += length
    }
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value])
  }
  return fields
}

function bytes(fields: Fields, number: number): Buffer {
  return (fields.get(number)?.[0] as Buffer | undefined) ?? Buffer.alloc(0)
}

function messages(fields: Fields, number: number): readonly Fields[] {
  return (fields.get(number) ?? []).map(value => fieldsOf(value as Buffer))
}
