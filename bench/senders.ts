/**
 * Question: what does a signature cost a request, and what a column that reads a header?
 *
 * Single events from a closed loop. Bodies and signatures are made before, by Node's crypto. The
 * first line is a source without settings. Each figure is the server's CPU time a request, so the
 * generator's share of the cores does not count.
 */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { join } from 'node:path'
import { createSource } from '../test/util/senders.ts'
import { closedLoop, requestHead } from './connection.ts'
import { BENCH_COLUMNS, BENCH_SEED, benchEvent, createRandom } from './events.ts'
import { benchFolder } from './leftovers.ts'
import { cpuSeconds, median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface SendersOptions {
  readonly seconds?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
}

/** Distinct requests. They come again, and update their records. */
const REQUESTS = 2_000
const SECRET = 'a-secret-of-32-characters-or-so-'
const ed25519 = generateKeyPairSync('ed25519')

interface Kind {
  readonly name: string
  readonly settings: Readonly<Record<string, unknown>>
  /** Header lines of a request. */
  lines(body: string): string
}

const hmac = (text: string, encoding: 'hex' | 'base64') =>
  createHmac('sha256', SECRET).update(text).digest(encoding)
/** Signatures with a time stay good over the whole bench. */
const TOLERANCE_SECONDS = 86_400
const COLUMNS = { columns: [...BENCH_COLUMNS], timestamp: 'time', uniqueId: 'id', tenant: 'tenant' }

const KINDS: readonly Kind[] = [
  { name: 'no settings', settings: COLUMNS, lines: () => '' },
  {
    name: 'GITHUB (HMAC-SHA256)',
    settings: { ...COLUMNS, signature: { scheme: 'GITHUB', secrets: [SECRET] } },
    lines: body => `X-Hub-Signature-256: sha256=${hmac(body, 'hex')}\r\n`,
  },
  {
    name: 'STANDARD_WEBHOOKS (HMAC-SHA256, id, time)',
    settings: {
      ...COLUMNS,
      signature: {
        scheme: 'STANDARD_WEBHOOKS',
        secrets: [`whsec_${Buffer.from(SECRET).toString('base64')}`],
        toleranceSeconds: TOLERANCE_SECONDS,
      },
    },
    lines: body => {
      const at = Math.floor(Date.now() / 1000)
      const signature = hmac(`msg_1.${at}.${body}`, 'base64')
      return `Webhook-Id: msg_1\r\nWebhook-Timestamp: ${at}\r\nWebhook-Signature: v1,${signature}\r\n`
    },
  },
  {
    name: 'DISCORD (Ed25519)',
    settings: {
      ...COLUMNS,
      signature: {
        scheme: 'DISCORD',
        secrets: [ed25519.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex')],
        toleranceSeconds: TOLERANCE_SECONDS,
      },
    },
    lines: body => {
      const at = String(Math.floor(Date.now() / 1000))
      const signature = sign(null, Buffer.from(at + body), ed25519.privateKey).toString('hex')
      return `X-Signature-Timestamp: ${at}\r\nX-Signature-Ed25519: ${signature}\r\n`
    },
  },
  {
    name: 'a column of a header',
    settings: {
      ...COLUMNS,
      columns: [
        ...BENCH_COLUMNS,
        { name: 'event', type: 'STRING', jsonProperty: '$header.x-github-event', nullable: true },
      ],
    },
    lines: () => 'X-GitHub-Event: push\r\n',
  },
]

/** Runs each kind for `seconds` (8) in `pairs` (3) rounds, the order alternating. */
export async function benchSenders(options: SendersOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 8)
  const rounds = numberOf('pairs', options.pairs, 3)
  const connections = numberOf('connections', options.connections, 64)
  print(`senders: 1 event a request, ${connections} connections, ${seconds} s each, ${rounds} rounds`)
  const micros = new Map<string, number[]>(KINDS.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round += 1)
    for (const kind of round % 2 === 0 ? KINDS : [...KINDS].reverse())
      micros.get(kind.name)?.push(await cpuOfRequest(kind, seconds, connections))
  const plain = median(micros.get('no settings') ?? [])
  for (const [name, all] of micros)
    print(row(name, `${median(all).toFixed(1)} µs a request, ${(median(all) - plain).toFixed(1)} µs more`))
}

/** Microseconds of the server's CPU time. */
async function cpuOfRequest(kind: Kind, seconds: number, connections: number): Promise<number> {
  const server = await startWeir({ dataDir: join(benchFolder('weir-senders-'), 'data') })
  try {
    const { url } = await createSource(server.graphql, kind.settings)
    const random = createRandom(BENCH_SEED)
    const requests = Array.from({ length: REQUESTS }, (_, index) => {
      const body = benchEvent(index, random)
      return Buffer.from(requestHead('POST', url, Buffer.byteLength(body), kind.lines(body)) + body)
    })
    await closedLoop(url, requests, 1, connections) // kernels and code are warm
    const pid = server.child.pid as number
    const before = cpuSeconds(pid)
    const { length: answered } = await closedLoop(url, requests, seconds, connections)
    const micros = ((cpuSeconds(pid) - before) * 1e6) / answered
    print(row(kind.name, `${short(answered / seconds)} req/s, ${micros.toFixed(1)} µs a request`))
    return micros
  } finally {
    await server.stop()
  }
}
