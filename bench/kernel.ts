/**
 * The kernels, for bench/micro.ts: how many events and bytes does each parse on one core?
 *
 * Bodies of 500 events of 450 bytes (bench/events.ts), and the payloads of
 * @octokit/webhooks-examples, in shared memory. Payload, key and columns go into one batch's
 * memory, which is reused as in the server. Messages between threads and the log do not count.
 */
import { createRequire } from 'node:module'
import { align8, HEADER_WORDS } from '../src/format/batch-layout.ts'
import type { PoolSchema } from '../src/format/schema.ts'
import { bufferBytes } from '../src/parse/batch-buffers.ts'
import { DOCUMENT } from '../src/parse/event-error.ts'
import { type Allocate, type MakeKernel, OUTCOME, REQUEST, REQUEST_WORDS } from '../src/parse/kernel.ts'
import { makeJsKernel } from '../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../src/parse/kernel-native.ts'
import { BENCH_SCHEMA } from './entries.ts'
import { BATCH_EVENTS, benchEvents } from './events.ts'

const BODIES = 64
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

/** One thing to measure. */
export interface MicroCase {
  readonly name: string
  /** What a call handles, and how many of them. */
  readonly unit: string
  readonly count: number
  /** Bytes that a call reads. */
  readonly bytes?: number
  readonly call: () => void
}

/** Both kernels on both inputs. */
export function kernelCases(): MicroCase[] {
  const events = benchEvents(BATCH_EVENTS * BODIES)
  const bodies = Array.from(
    { length: BODIES },
    (_, body) => `[${events.slice(body * BATCH_EVENTS, (body + 1) * BATCH_EVENTS).join(',')}]`,
  )
  const inputs = [
    { name: '450-byte events, 6 columns', bodies, schema: BENCH_SCHEMA },
    { name: 'GitHub payloads, 4 columns', bodies: githubBodies(), schema: GITHUB_SCHEMA },
  ]
  const native = tryNativeKernel()
  return inputs.flatMap(({ name, bodies: texts, schema }) => {
    const js = caseOf(`kernel js, ${name}`, makeJsKernel, texts, schema)
    if (native === undefined) return [js]
    const ours = caseOf(`kernel native, ${name}`, native, texts, schema)
    if (ours.hash !== js.hash) throw new Error(`THE KERNELS DIFFER on ${name}`)
    return [js, ours]
  })
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

interface KernelCase extends MicroCase {
  /** Of the sizes of the batches. */
  readonly hash: number
}

function caseOf(name: string, make: MakeKernel, texts: readonly string[], schema: PoolSchema): KernelCase {
  const kernel = make(schema, 'post', { allocate: oneBuffer() })
  const { slab, table, bytes } = slabOf(texts)
  let [events, hash] = [0, 0]
  const call = () => {
    events = 0
    hash = 0
    for (let body = 0; body < texts.length; body += 1) {
      const parsed = kernel.parse(slab, table, body, body + 1)
      if (parsed.outcomes[OUTCOME.document] !== DOCUMENT.ok)
        throw new Error(`body ${body} was refused: ${parsed.outcomes.join(' ')}`)
      events += parsed.outcomes[OUTCOME.accepted]!
      hash = (hash * 31 + new Uint32Array(parsed.batch, 0, HEADER_WORDS)[BATCH_BYTES_WORD]!) >>> 0
    }
  }
  call()
  return { name, unit: 'events', count: events, bytes, call, hash }
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
    table[row + REQUEST.offset] = offset
    table[row + REQUEST.bytes] = body.byteLength
    table[row + REQUEST.receivedAtUs] = 1000 * Date.UTC(2026, 0, 1)
    table[row + REQUEST.bits] = -1
    offset += align8(body.byteLength) + 64
  }
  return { slab, table, bytes }
}
