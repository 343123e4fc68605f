/**
 * Backups against real servers of S3, where they are installed: moto_server (PyPI, moto[server])
 * and versitygw (Go, github.com/versity/versitygw), which also checks signatures.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readBucketAddress } from '../../../src/tools/bucket/bucket-address.ts'
import { S3Client } from '../../../src/tools/bucket/s3-client.ts'
import { freePort, temporaryFolder } from '../../util/server.ts'
import { BUCKET, expectRestored, makeOrders, type Orders, orders, post, rowsOf, weirAt } from './buckets.ts'
import { FAKE_KEYS } from './fake-s3.ts'

const { AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret } = FAKE_KEYS

interface Real {
  readonly command: string
  args(port: string, folder: string): string[]
}

const REAL: readonly Real[] = [
  { command: 'moto_server', args: port => ['-H', '127.0.0.1', '-p', port] },
  { command: 'versitygw', args: (port, folder) => ['--port', `127.0.0.1:${port}`, 'posix', folder] },
]

let filled: Orders
beforeAll(async () => {
  filled = await makeOrders()
  await filled.change((_, url) => post(url, orders(0, 5000, 1, 2500)))
}, 60_000)

describe.each(REAL)('$command', ({ command, args }) => {
  const isThere = spawnSync('sh', ['-c', `command -v ${command}`]).status === 0
  let child: ChildProcess | undefined
  afterAll(() => child?.kill('SIGKILL'))

  test(`backups, retention and restores${isThere ? '' : ` (skipped: ${command} is not installed)`}`, async context => {
    if (!isThere) return context.skip(`${command} is not installed`)
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'bucket'))
    const port = await freePort()
    child = spawn(command, args(port, folder), {
      env: { ...process.env, ROOT_ACCESS_KEY: key, ROOT_SECRET_KEY: secret },
      stdio: 'ignore',
    })
    const endpoint = `http://127.0.0.1:${port}`
    const at = {
      environment: { AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret, AWS_ENDPOINT_URL: endpoint },
    }
    await expect
      .poll(
        () =>
          fetch(endpoint).then(
            () => true,
            () => false,
          ),
        { timeout: 30_000 },
      )
      .toBe(true)
    await fetch(`${endpoint}/bucket`, { method: 'PUT' }) // moto has no bucket yet
    onTestFinished(() => void delete process.env['AWS_SESSION_TOKEN'])
    delete process.env['AWS_SESSION_TOKEN']
    const backUp = () => weirAt(at, 'backup', BUCKET, '--data-dir', filled.dataDir, '--keep', '2')

    expect(await backUp()).toMatchObject({ code: 0 })
    await expectRestored(at, filled)
    await filled.change(async (_, url) => {
      await post(url, orders(0, 50, 2))
      await post(url, orders(100, 120, 1), 'DELETE')
    })
    const second = await backUp()
    expect(second.code).toBe(0)
    const [, bytes, sent] = /, (\d+) bytes, (\d+) of them sent/.exec(second.out) ?? []
    expect(Number(sent)).toBeLessThan(Number(bytes) / 20)
    expect(await rowsOf(await expectRestored(at, filled))).toEqual(await rowsOf(filled.dataDir))
    expect((await backUp()).out).toContain('removed 1 backups and ')
    expect((await weirAt(at, 'backups', BUCKET)).out.match(/ complete$/gm)?.length).toBe(2)

    const client = new S3Client(readBucketAddress(BUCKET, undefined, at.environment))
    const name = `objects/${'0'.repeat(64)}`
    const left = await client.beginUpload(name)
    expect(await client.uploads('objects/')).toEqual([{ name, uploadId: left }])
    expect(await backUp()).toMatchObject({ code: 0 })
    expect(await client.uploads('objects/')).toEqual([])
    const nowhere = await weirAt(at, 'backups', 's3://no-such-bucket/x')
    expect([nowhere.code, nowhere.err]).toEqual([2, expect.stringContaining('there is no such bucket')])
    if (command !== 'versitygw') return // moto checks no signature
    const wrong = { environment: { ...at.environment, AWS_SECRET_ACCESS_KEY: 'another' } }
    const denied = await weirAt(wrong, 'backups', BUCKET)
    expect([denied.code, denied.err]).toEqual([2, expect.stringContaining('the secret key is wrong')])
  }, 120_000)
})
