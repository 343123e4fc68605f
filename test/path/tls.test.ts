/** TLS over both HTTP libraries: what it takes, and certificates that are renewed under load. */
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Config } from '../../src/database/config.ts'
import { askServer } from '../../src/tools/running-server.ts'
import { adminOf, startServer, type TestServer, temporaryFolder } from '../util/server.ts'

const FIXTURES = fileURLToPath(new URL('../../../test/path/tls', import.meta.url))
const fixture = (name: string) => join(FIXTURES, name)
const CA = ['first.crt', 'second.crt'].map(name => readFileSync(fixture(name)))

/** Puts a pair where the server reads it: the key first, as a half-written pair does not fit. */
function put(folder: string, name: string): void {
  copyFileSync(fixture(`${name}.key`), join(folder, 'key.pem'))
  copyFileSync(fixture(`${name}.crt`), join(folder, 'cert.pem'))
}

interface Answered {
  readonly status: number
  readonly text: string
  readonly subject: string
  readonly protocol: string | null
}

/**
 * Asks on a connection of its own. One that an earlier test left may be closed as idle while the
 * request is on its way.
 */
function ask(url: string, options: RequestOptions & { readonly body?: string } = {}): Promise<Answered> {
  const { body, ...rest } = options
  return new Promise((resolve, reject) => {
    const asked = request(url, { ca: CA, agent: false, ...rest }, answer => {
      const socket = answer.socket as TLSSocket
      const { subject } = socket.getPeerCertificate()
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          text: Buffer.concat(chunks).toString(),
          subject: `${subject.CN}`,
          protocol: socket.getProtocol(),
        }),
      )
    })
    asked.on('error', reject)
    asked.end(body)
  })
}

interface Host {
  readonly http: string
  readonly folder: string
  server: TestServer
}

/** A server over each library, whose files stand in `folder`. */
const hosts = ['uws', 'node'].map((http): Host => ({ http, folder: temporaryFolder(), server: null! }))

beforeAll(() =>
  Promise.all(
    hosts.map(async host => {
      const { http, folder } = host
      put(folder, 'first')
      const files = ['--tls-cert', join(folder, 'cert.pem'), '--tls-key', join(folder, 'key.pem')]
      host.server = await startServer({ args: ['--http', http, ...files] })
    }),
  ),
)
afterAll(() => Promise.all(hosts.map(({ server }) => server.stop())))

/** A server looks at its files each five seconds, so what waits for that runs over both at once. */
const overBoth = (run: (host: Host) => Promise<void>) => () => Promise.all(hosts.map(run))

/** Between two requests of a client under load. */
const PAUSE_MS = 10

describe.each(hosts)('over $http', host => {
  test('the address is https, and plain http is not answered', async () => {
    expect(host.server.base).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(await ask(`${host.server.base}/livez`)).toMatchObject({ status: 200, subject: 'weir test first' })
    await expect(fetch(`${host.server.base.replace('https', 'http')}/livez`)).rejects.toThrow()
  })

  test('the first start prints a link to the console, which is https too', async () => {
    await expect
      .poll(() => host.server.output())
      .toMatch(/the console: https:\/\/127\.0\.0\.1:\d+\/sign-in#code=\S+/)
  })

  test('a command that does not know the issuer, or asks by http, hears what to do', async () => {
    const config = { clientId: 'APP', clientSecret: 'secret' } as Config
    const asking = (url: string) => askServer(config, url, '/v1/admin/jobs', { action: 'list' })
    await expect(asking(host.server.base)).rejects.toThrow(/NODE_EXTRA_CA_CERTS/)
    await expect(asking(host.server.base.replace('https', 'http'))).rejects.toThrow(/https:\/\//)
  })

  test.each(['TLSv1', 'TLSv1.1'] as const)('%s is refused', async version => {
    const old = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' } as const
    await expect(ask(`${host.server.base}/livez`, old)).rejects.toThrow()
  })

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('%s is taken', async version => {
    const answer = await ask(`${host.server.base}/livez`, { minVersion: version, maxVersion: version })
    expect(answer).toMatchObject({ status: 200, protocol: version })
  })

  test('bodies, long answers and chunks come whole', async () => {
    const { clientId, clientSecret } = adminOf(host.server.dataDir)
    const form = 'grant_type=client_credentials'
    const token = await ask(`${host.server.base}/oauth2/token`, {
      method: 'POST',
      auth: `${clientId}:${clientSecret}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: form,
    })
    const authorization = `Bearer ${JSON.parse(token.text).access_token}`
    const headers = { authorization, 'content-type': 'application/json' }
    const schema = '{ __schema { types { name description fields { name description } } } }'
    const long = await ask(`${host.server.base}/graphql`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ query: schema }),
    })
    expect(long.text.length).toBeGreaterThan(50_000)
    expect(() => JSON.parse(long.text)).not.toThrow()
    const inChunks = await ask(`${host.server.base}/graphql`, {
      method: 'POST',
      headers: { ...headers, 'transfer-encoding': 'chunked' },
      body: `{"query":"{ __typename }","variables":{"a":"${'x'.repeat(200_000)}"}}`,
    })
    expect(JSON.parse(inChunks.text)).toEqual({ data: { __typename: 'Query' } })
  })
})

test(
  'a renewed certificate is used for new connections, and open ones lose no request',
  overBoth(async ({ server, folder }) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    const { clientId, clientSecret } = adminOf(server.dataDir)
    const webhook = `${server.base}${/\/v1\/WHK\w+/.exec(server.output())?.[0]}`
    const post = () => ask(webhook, { method: 'POST', agent, body: '{"hello":"weir"}' })
    let isLoading = true
    const load = Array.from({ length: 4 }, async () => {
      const seen = new Set<string>()
      while (isLoading) {
        const { status, subject } = await post()
        seen.add(`${status} ${subject}`)
        await pause(PAUSE_MS)
      }
      return [...seen]
    })
    let events = ''
    const tail = request(
      `${server.base}/v1/pools/events/tail`,
      { ca: CA, auth: `${clientId}:${clientSecret}`, agent: false },
      answer => answer.on('data', data => (events += data)),
    ).end()
    try {
      await expect.poll(() => events).toContain('data: ')
      put(folder, 'second')
      await expect.poll(async () => (await ask(`${server.base}/livez`)).subject).toBe('weir test second')
      // The answer that was under way goes on too.
      const before = events.length
      await expect.poll(() => events.slice(before)).toContain('data: ')
      isLoading = false
      for (const seen of await Promise.all(load)) expect(seen).toEqual(['200 weir test first'])
    } finally {
      isLoading = false
      tail.destroy()
      agent.destroy()
    }
  }),
)

test(
  'files that do not fit are said, and the pair before stays',
  overBoth(async ({ server, folder }) => {
    const before = server.output().length
    writeFileSync(join(folder, 'cert.pem'), '-----BEGIN CERTIFICATE-----\nhalf')
    await expect
      .poll(() => server.output().slice(before))
      .toMatch(/the certificate before stays in use: --tls-cert \S+ and --tls-key \S+ cannot be used/)
    expect((await ask(`${server.base}/livez`)).subject).toBe('weir test second')
    put(folder, 'first')
    await expect.poll(async () => (await ask(`${server.base}/livez`)).subject).toBe('weir test first')
  }),
)

const rsaKey = join(temporaryFolder(), 'rsa.pem')
writeFileSync(
  rsaKey,
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
)

test.each([
  ['one file alone', ['--tls-cert', fixture('first.crt')], /both or not at all/],
  [
    'no file',
    ['--tls-cert', '/nowhere.pem', '--tls-key', fixture('first.key')],
    /--tls-cert \/nowhere\.pem cannot be read/,
  ],
  [
    'a key of another',
    ['--tls-cert', fixture('first.crt'), '--tls-key', fixture('second.key')],
    /cannot be used: the key is not the one of the certificate/,
  ],
  [
    'a key of another type',
    ['--tls-cert', fixture('first.crt'), '--tls-key', rsaKey],
    /cannot be used: the key is not the one of the certificate/,
  ],
])('%s ends the start with a sentence', async (_, args, sentence) => {
  await expect(startServer({ args })).rejects.toThrow(sentence)
})
