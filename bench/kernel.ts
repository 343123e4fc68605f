/**
 * Question: how many events per second does each kernel parse on one core, and how many MB/s of
 * real webhooks?
 *
 * Method: bodies of 500 events of 450 bytes (bench/events.ts), and the payloads of
 * @octokit/webhooks-examples, in shared memory. Payload, key and columns go into one batch's
 * memory, which is reused as in the server. Non-goals: messages between threads, the log.
 */
import { createRequire } from 'node:module'
import { align8, HEADER_WORDS } from '../src/format/batch-layout.ts'
import type { PoolSchema } from '../src/format/schema.ts'
import { bufferBytes } from '../src/parse/batch-buffers.ts'
import { DOCUMENT } from '../src/parse/event-error.ts'
import {
  type Allocate,
  type MakeKernel,
  OUTCOME_ACCEPTED,
  OUTCOME_DOCUMENT,
  REQUEST_BITS,
  REQUEST_BYTES,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from '../src/parse/kernel.ts'
import { makeJsKernel } from '../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../src/parse/kernel-native.ts'
import { BENCH_SCHEMA } from './entries.ts'
import { BATCH_EVENTS, benchEvents } from './events.ts'
import { median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'

const BODIES = 64
const ROUNDS = 50
/** The word of a batch's header that holds its length (format/batch-layout.ts). */
const BATCH_BYTES_WORD = 4

const optional = (name: string, type: PoolSchema['columns'][number]['type'], jsonProperty = name) => ({
  name,
  type,
  jsonProperty,
  required: false,
})

const GITHUB_SCHEMA: PoolSchema = {
  pool: 2,
  version: 1,
  columns: [
    optional('action', 'STRING'),
    optional('sender', 'STRING', 'sender.login'),
    optional('repository', 'STRING', 'repository.full_name'),
    optional('installation', 'INT64', 'installation.id'),
  ],
  timestamp: -1,
  tenant: -1,
  key: null,
}

/** Options of the command line, as text. */
interface KernelOptions {
  readonly rounds?: string | undefined
}

/**
 * Prints events and MB per second of processor time for both kernels on both inputs: the median of
 * `rounds` (50) and the best.
 */
export async function benchKernel(options: KernelOptions): Promise<void> {
  const rounds = Math.max(1, numberOf('rounds', options.rounds, ROUNDS))
  const native = tryNativeKernel()
  const events = benchEvents(BATCH_EVENTS * BODIES)
  const bodies = Array.from(
    { length: BODIES },
    (_, body) => `[${events.slice(body * BATCH_EVENTS, (body + 1) * BATCH_EVENTS).join(',')}]`,
  )
  print(
    `kernel: one core, by processor time, ${BODIES} bodies a round, ${rounds} rounds, median; ${(Buffer.byteLength(bodies.join('')) / events.length).toFixed(0)} bytes an event`,
  )
  const inputs = [
    { name: '450-byte events, 6 columns', bodies, schema: BENCH_SCHEMA },
    { name: 'GitHub payloads, 4 columns', bodies: githubBodies(), schema: GITHUB_SCHEMA },
  ]
  for (const { name, bodies: texts, schema } of inputs) {
    const js = measure(makeJsKernel, texts, schema, rounds)
    print(
      row(
        `js     ${name}`,
        `${short(js.events)} events/s, ${short(js.bytes)}B/s (hash ${js.hash}), best ${short(js.best)}`,
      ),
    )
    if (native === undefined) {
      print(row(`native ${name}`, 'not built'))
      continue
    }
    const ours = measure(native, texts, schema, rounds)
    print(
      row(
        `native ${name}`,
        `${short(ours.events)} events/s, ${short(ours.bytes)}B/s (hash ${ours.hash}), best ${short(ours.best)}, ${(ours.events / js.events).toFixed(1)} × js`,
      ),
    )
  }
}

/** The real payloads, in arrays below the limit of a body. */
function githubBodies(): string[] {
  const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
    default?: Example[]
  } & Example[]
  const payloads = (examples.default ?? examples).flatMap(one =>
    one.examples.map(example => JSON.stringify(example)),
  )
  const bodies: string[] = []
  for (let from = 0; from < payloads.length; from += 40)
    bodies.push(`[${payloads.slice(from, from + 40).join(',')}]`)
  return bodies
}

interface Example {
  readonly name: string
  readonly examples: readonly unknown[]
}

function measure(make: MakeKernel, texts: readonly string[], schema: PoolSchema, rounds: number) {
  const kernel = make(schema, 'post', oneBuffer())
  const { slab, table, bytes } = slabOf(texts)
  const rates: number[] = []
  let events = 0
  let hash = 0
  for (let sample = -Math.min(5, rounds); sample < rounds; sample += 1) {
    const before = process.cpuUsage()
    events = 0
    for (let body = 0; body < texts.length; body += 1) {
      const parsed = kernel.parse(slab, table, body, body + 1)
      if (parsed.outcomes[OUTCOME_DOCUMENT] !== DOCUMENT.ok)
        throw new Error(`body ${body} was refused: ${parsed.outcomes.join(' ')}`)
      events += parsed.outcomes[OUTCOME_ACCEPTED]!
      hash = (hash * 31 + new Uint32Array(parsed.batch, 0, HEADER_WORDS)[BATCH_BYTES_WORD]!) >>> 0
    }
    const { user, system } = process.cpuUsage(before)
    if (sample >= 0) rates.push(events / ((user + system) / 1e6))
  }
  const middle = median(rates)
  const best = Math.max(...rates)
  return { events: middle, best, bytes: (middle / events) * bytes, hash: hash.toString(16) }
}

/** Memory that is reused, as parse workers do (src/parse/batch-buffers.ts). */
function oneBuffer(): Allocate {
  let buffer = new SharedArrayBuffer(0)
  return bytes => {
    if (buffer.byteLength < bytes) buffer = new SharedArrayBuffer(bufferBytes(bytes))
    return buffer
  }
}

function slabOf(texts: readonly string[]) {
  const bodies = texts.map(text => Buffer.from(text))
  const bytes = bodies.reduce((sum, body) => sum + body.byteLength, 0)
  const slab = new Uint8Array(
    new SharedArrayBuffer(bodies.reduce((sum, body) => sum + 64 + align8(body.byteLength), 0)),
  )
  const table = new Float64Array(bodies.length * REQUEST_WORDS)
  let offset = 64
  for (const [index, body] of bodies.entries()) {
    slab.set(body, offset)
    const row = index * REQUEST_WORDS
    table[row + REQUEST_OFFSET] = offset
    table[row + REQUEST_BYTES] = body.byteLength
    table[row + REQUEST_RECEIVED_AT] = 1000 * Date.UTC(2026, 0, 1)
    table[row + REQUEST_BITS] = -1
    offset += align8(body.byteLength) + 64
  }
  return { slab, table, bytes }
}
