/** The files of the console over HTTP: at which paths, with which headers, and how large. */
import { get } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer, type TestServer } from '../util/server.ts'

/** Bytes of the first page as they are sent, all files together. */
const FIRST_PAGE_BYTES_MAX = 150_000

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** As it comes: fetch would inflate it. */
function read(path: string, headers: Record<string, string> = {}, base = server.base): Promise<Answer> {
  return new Promise((resolve, reject) => {
    get(`${base}${path}`, { headers, agent: false }, answer => {
      const chunks: Buffer[] = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('end', () =>
        resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(chunks) }),
      )
    }).on('error', reject)
  })
}

const filesOf = (page: string) =>
  [...page.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, path]) => path!)

test.each([
  '/',
  '/sign-in',
  '/sources',
  '/new-source',
  '/sources/DSO1',
  '/events',
  '/events/a%20pool',
  '/rejected',
])('%s is the page', async path => {
  const { status, headers, body } = await read(path)
  expect(status).toBe(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers['cache-control']).toBe('no-cache')
  expect(body.toString()).toContain('<div id="app">')
})

test('the page allows no other host, no script of its own, no frame', async () => {
  const { headers, body } = await read('/')
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("script-src 'self'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).toContain("require-trusted-types-for 'script'")
  expect(policy).not.toContain('unsafe')
  expect(headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
  })
  expect(body.toString()).not.toMatch(/<script(?![^>]* src=)|<style|style=|\son\w+=|https?:/)
})

test('its files are small, named by their content, compressed where that is taken, and never asked for twice', async () => {
  const files = filesOf((await read('/')).body.toString())
  expect(files.length).toBeGreaterThanOrEqual(3)
  let bytes = (await read('/', { 'accept-encoding': 'gzip' })).body.byteLength
  for (const path of files) {
    const plain = await read(path)
    expect(plain.status, path).toBe(200)
    expect(plain.headers['content-encoding'], path).toBe(undefined)
    expect(plain.headers['cache-control'], path).toBe('public, max-age=31536000, immutable')
    const packed = await read(path, { 'accept-encoding': 'br, gzip;q=0.5' })
    bytes += packed.body.byteLength
    if (packed.headers['content-encoding'] === 'gzip')
      expect(gunzipSync(packed.body).equals(plain.body)).toBe(true)
    const known = await read(path, { 'if-none-match': `"x", W/${plain.headers['etag']}` })
    expect(known.status).toBe(304)
    expect(known.body.byteLength).toBe(0)
    expect((await read(path, { 'accept-encoding': 'gzip;q=0' })).headers['content-encoding']).toBe(undefined)
  }
  expect(bytes).toBeLessThan(FIRST_PAGE_BYTES_MAX)
})

test.each([
  '/console/',
  '/console/none.js',
  '/console/..%2f..%2fpackage.json',
  '/console/index.html',
  '/source',
])('%s is not there', async path => {
  const { status, headers } = await read(path)
  expect(status).toBe(404)
  expect(headers['content-type']).toBe('application/problem+json')
})

test('--console off leaves out the pages and the sessions', async () => {
  const other = await startServer({ args: ['--console', 'off'] })
  expect((await read('/', {}, other.base)).status).toBe(404)
  const session = await fetch(`${other.base}/session`, { method: 'POST', body: '{}' })
  expect(session.status).toBe(404)
  expect(other.output()).not.toContain('#code=')
  await other.stop()
})
