/**
 * The HTTP library: the known binary, one that the operator trusts, or none. Also: `--chunked off`.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { chooseTransport, KNOWN_BINARIES, loadUws } from '../../src/api/http/choose-transport.ts'
import { nodeTransport } from '../../src/api/http/node.ts'
import { temporaryFolder } from '../util/server.ts'
import { ask, head, Raw } from './client.ts'
import { Fake, frontEnd, start } from './fake.ts'

const HOME = dirname(createRequire(import.meta.url).resolve('uWebSockets.js/package.json'))
const NAME = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`

/** Set-up removes the binaries of other processors. All come from one package, of one version. */
test('every known binary for this processor is the one of the installed package', () => {
  const known = Object.entries(KNOWN_BINARIES).filter(([key]) => key.startsWith(`${process.arch}_`))
  expect(known).toHaveLength(Object.keys(KNOWN_BINARIES).length / 2)
  for (const [key, hash] of known) {
    const bytes = readFileSync(join(HOME, `uws_linux_${key}.node`))
    expect([key, createHash('sha256').update(bytes).digest('hex')]).toEqual([key, hash])
  }
})

test('an unknown binary is not loaded: node:http with a warning, or one message; its hash as an option allows it', async () => {
  const folder = temporaryFolder()
  const bytes = Buffer.from('no library at all')
  writeFileSync(join(folder, NAME), bytes)
  const hash = createHash('sha256').update(bytes).digest('hex')
  const chosen = await chooseTransport('', '', folder)
  expect([chosen.transport.name, chosen.note.includes(hash), chosen.warning?.includes(hash)]).toEqual([
    'node',
    true,
    true,
  ])
  await expect(chooseTransport('uws', '', folder)).rejects.toThrow(`--http-sha256 ${hash}`)
  const tried = await loadUws(hash, folder)
  // The system's loader refused the file.
  expect([tried.module, 'isForeign' in tried && tried.isForeign]).toEqual([undefined, false])
})

test('without a binary for this Node: node:http, or one message', async () => {
  const folder = join(temporaryFolder(), 'empty')
  mkdirSync(folder)
  const { transport, note, warning } = await chooseTransport('', '', folder)
  expect([transport.name, warning]).toEqual(['node', undefined])
  expect(note).toMatch(/because .* no binary for ABI \d+ \(Node v/)
  await expect(chooseTransport('uws', '', folder)).rejects.toThrow(
    /^--http uws: uWebSockets.js cannot be loaded/,
  )
})

test.skipIf(frontEnd.name === 'node')('one file of the package is enough', async () => {
  const folder = temporaryFolder()
  copyFileSync(join(HOME, NAME), join(folder, NAME))
  expect((await chooseTransport('uws', '', folder)).transport.name).toBe('uws')
  expect((await chooseTransport('node', '')).transport.name).toBe('node')
})

describe.each([...new Set([frontEnd, nodeTransport])])('over $name', transport => {
  test('--chunked off: 411 before the body, and no request behind it runs', async () => {
    const fake = new Fake()
    const api = await start(fake, { transport, chunked: false })
    const raw = await Raw.open(api.port)
    raw.write(head('/v1/open', ['Transfer-Encoding: chunked']))
    await raw.until(one => /HTTP\/1\.1 411 [\s\S]*"length_required"/.test(one.received))
    raw.write('a\r\n{"id":"a"}\r\n0\r\n\r\n')
    await raw.untilClosed()
    expect(fake.logged).toEqual([])
    expect((await ask(api.port, '/v1/open', { body: '{"id":"b"}' })).status).toBe(200)
    expect(await api.stop(1000)).toBe(true)
  })
})
