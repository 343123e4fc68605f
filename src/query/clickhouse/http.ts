/** Statements over ClickHouse's HTTP interface. Connections stay open. */
import { Agent, type IncomingMessage, request } from 'node:http'
import { request as requestTls, Agent as TlsAgent } from 'node:https'
import { monotonicMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { warn } from '../../util/say.ts'

export interface ClickHouseAddress {
  /** `http://host:port`, or `https://…` */
  readonly url: string
  /** PEM of the authorities of an `https` address; absent for those of Node. */
  readonly ca?: string
  readonly user?: string
  readonly password?: string
  /** Of tables that are named without one. */
  readonly database?: string
}

export interface ClickHouseAnswer {
  readonly body: Buffer
  /** From the header X-ClickHouse-Summary. */
  readonly readRows: number
  readonly readBytes: number
}

/** What ClickHouse says of a statement that failed. */
export class ClickHouseError extends Error {
  override readonly name = 'ClickHouseError'
  readonly code: number

  constructor(code: number, what: string) {
    super(what)
    this.code = code
  }
}

/** Thousands of requests may fail for one reason. */
const SAY_MS = 1_000
const saidMs = new Map<string, number>()

/**
 * An error for clients, whom the names, users and paths of servers do not concern. The log gets
 * `why`, at most once in SAY_MS for each code.
 */
export function unavailable(code: string, what: string, why: string): Unavailable {
  const nowMs = monotonicMs()
  if (nowMs - (saidMs.get(code) ?? Number.NEGATIVE_INFINITY) >= SAY_MS) {
    saidMs.set(code, nowMs)
    warn(`${code}: ${why}`)
  }
  return new Unavailable(code, what)
}

export class ClickHouseHttp {
  readonly #address: ClickHouseAddress
  readonly #agent: Agent

  constructor(address: ClickHouseAddress) {
    this.#address = address
    const { url, ca } = address
    const options = { keepAlive: true, noDelay: true, ...(ca === undefined ? {} : { ca }) }
    this.#agent = url.startsWith('https:') ? new TlsAgent(options) : new Agent(options)
  }

  /**
   * Rejects with ClickHouseError, with Unavailable (`cluster_unreachable`), and as `signal` says.
   * @param body the statement, or rows whose statement is the parameter `query`
   * @param bytesMax longer answers are refused (`answer_too_large`)
   */
  async run(
    body: string | Buffer,
    parameters: Readonly<Record<string, string>>,
    bytesMax: number,
    signal?: AbortSignal,
  ): Promise<ClickHouseAnswer> {
    try {
      const response = await this.#send(body, parameters, signal)
      return { body: await read(response, bytesMax), ...costOf(response) }
    } catch (error) {
      throw typedFailure(error, signal)
    }
  }

  /**
   * The bytes of an answer as they come and are taken: no more is read than the caller asks for.
   * They may end early, which the format of the answer tells. Rejects as `run` does.
   * @param waitMs the caller waits at most so long for the next ones
   */
  async *stream(
    body: string,
    parameters: Readonly<Record<string, string>>,
    waitMs: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, void> {
    try {
      const response = await this.#send(body, parameters, signal)
      const chunks = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>
      try {
        for (;;) {
          const late = () =>
            response.destroy(new Unavailable('timeout', 'ClickHouse sent nothing for too long'))
          const timer = setTimeout(late, waitMs)
          const next = await chunks.next().finally(() => clearTimeout(timer))
          if (next.done === true) return
          yield next.value
        }
      } finally {
        response.destroy()
      }
    } catch (error) {
      throw typedFailure(error, signal)
    }
  }

  /** The answer to a statement that did not fail. */
  async #send(
    body: string | Buffer,
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<IncomingMessage> {
    const { url, user, password = '', database } = this.#address
    const query = new URLSearchParams({ ...(database === undefined ? {} : { database }), ...parameters })
    const headers = user === undefined ? {} : { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password }
    const options = {
      method: 'POST',
      agent: this.#agent,
      headers,
      ...(signal === undefined ? {} : { signal }),
    }
    const response = await send(`${url}/?${query}`, options, body)
    if (response.statusCode === 200) return response
    const what = (await read(response, ERROR_BYTES_MAX)).toString().slice(0, ERROR_CHARACTERS_MAX)
    const code = response.headers['x-clickhouse-exception-code']
    throw new ClickHouseError(Number(code ?? 0), what)
  }

  /**
   * As run, for a statement whose answer is empty. One that is not comes from something else, or
   * tells what failed after status 200: nothing is known to be done.
   */
  async execute(
    body: string | Buffer,
    parameters: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<void> {
    const answer = await this.run(body, parameters, ERROR_CHARACTERS_MAX, signal)
    if (answer.body.length > 0)
      throw new Unavailable('cluster_unreachable', 'an answer to a statement that has none')
  }

  close(): void {
    this.#agent.destroy()
  }
}

const ERROR_CHARACTERS_MAX = 2_000
const ERROR_BYTES_MAX = 16 * MiB

function typedFailure(error: unknown, signal: AbortSignal | undefined): unknown {
  if (error instanceof ClickHouseError || error instanceof Unavailable) return error
  if (signal?.aborted === true) return signal.reason
  return new Unavailable('cluster_unreachable', `ClickHouse did not answer: ${(error as Error).message}`)
}

function send(
  url: string,
  options: Parameters<typeof request>[1],
  body: string | Buffer,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const start = url.startsWith('https:') ? requestTls : request
    start(url, options, resolve).on('error', reject).end(body)
  })
}

async function read(response: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new Unavailable('answer_too_large', 'the answer has too many bytes')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function costOf({ headers }: IncomingMessage): Pick<ClickHouseAnswer, 'readRows' | 'readBytes'> {
  const summary = JSON.parse(String(headers['x-clickhouse-summary'] ?? '{}')) as Record<string, string>
  return { readRows: Number(summary['read_rows'] ?? 0), readBytes: Number(summary['read_bytes'] ?? 0) }
}
