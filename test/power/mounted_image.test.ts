/**
 * A real file system without its power: the server runs on an ext4 image under load, is held still at random moments
 * while the image is copied, and a server on the mounted copy must have all that was acknowledged by then.
 *
 * What the kernel has not written to the image is not in the copy. The server is held (SIGSTOP) so that all of the copy is of
 * one moment; the journal is committed by syncs alone (commit=300).
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, type TestContext, test } from 'vitest'
import { runLoad } from '../crash/load.ts'
import type { Target } from '../crash/requests.ts'
import { type SpaceNow, spacesNow, verifySpaces, World } from '../crash/world.ts'
import { fetchToken, startServer, type TestServer } from '../util/server.ts'

const seed = Number(process.env['WEIR_TEST_SEED'] ?? Date.now() % 2 ** 31)
const COPIES = 2
const IMAGE_BYTES = 384 * 1024 * 1024
/** After SIGSTOP a thread inside a sync ends it first. */
const STILL_MS = 60

const run = (command: string, ...given: string[]) => execFileSync(command, given, { stdio: 'pipe' })

/** Mounted images, for the end. */
class Mounts {
  readonly #mounted: string[] = []

  mount(image: string, at: string): void {
    mkdirSync(at)
    run('mount', '-o', 'loop,commit=300', image, at)
    this.#mounted.push(at)
  }

  /** The loop device goes with its mount. */
  unmount(at: string): void {
    run('umount', at)
    this.#mounted.splice(this.#mounted.indexOf(at), 1)
  }

  unmountAll(): void {
    for (const at of [...this.#mounted].reverse()) {
      try {
        run('umount', at)
      } catch {
        run('umount', '-l', at) // something is still in there: it goes with the last process
      }
    }
  }
}

/** Why nothing can be mounted here, undefined where it can. */
function reasonToSkip(folder: string): string | undefined {
  if (process.getuid?.() !== 0) return 'mounting needs root'
  const mounts = new Mounts()
  try {
    const image = makeImage(folder, 'probe', 16 * 1024 * 1024)
    mounts.mount(image, join(folder, 'probe-mount'))
    return undefined
  } catch (error) {
    return `no image can be mounted: ${(error as Error).message.slice(0, 200)}`
  } finally {
    mounts.unmountAll()
  }
}

function makeImage(folder: string, name: string, bytes: number): string {
  const image = join(folder, `${name}.img`)
  writeFileSync(image, '')
  truncateSync(image, bytes)
  run('mkfs.ext4', '-q', '-F', image)
  return image
}

test(`nothing acknowledged is missing on copies of a mounted image (seed ${seed})`, async (test: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-image-'))
  const skip = reasonToSkip(folder)
  if (skip !== undefined) {
    rmSync(folder, { recursive: true, force: true })
    test.skip(skip)
  }
  const mounts = new Mounts()
  const servers = new Set<TestServer>()
  try {
    const image = makeImage(folder, 'live', IMAGE_BYTES)
    mounts.mount(image, join(folder, 'live'))
    const copies = await copyUnderLoad(join(folder, 'live', 'data'), image, servers)
    for (const [index, { file, now }] of copies.entries()) {
      const at = join(folder, `copy-${index}`)
      mounts.mount(file, at)
      const server = await started(join(at, 'data'), servers)
      await verifySpaces(now, server.base, await fetchToken(server.base, server.dataDir))
      await server.kill()
      mounts.unmount(at)
      rmSync(file)
    }
    expect(copies.length).toBe(COPIES)
  } finally {
    for (const server of servers) await server.kill()
    mounts.unmountAll()
    rmSync(folder, { recursive: true, force: true })
  }
}, 300_000)

interface Copy {
  readonly file: string
  readonly now: readonly SpaceNow[]
}

async function started(dataDir: string, servers: Set<TestServer>): Promise<TestServer> {
  const server = await startServer({ dataDir, args: ['--log-file-bytes', String(4 * 1024 * 1024)] })
  servers.add(server)
  return server
}

/** Loads a server on `dataDir`, which stands in `image`, and copies the image now and then. */
async function copyUnderLoad(dataDir: string, image: string, servers: Set<TestServer>): Promise<Copy[]> {
  const server = await started(dataDir, servers)
  const world = new World(seed)
  await world.createPools(server)
  const token = await fetchToken(server.base, dataDir)
  const target: Target = { base: server.base, token, isOver: false, isStopping: false, isArmed: false }
  const load = runLoad(world, target)
  load.catch(() => undefined) // awaited below
  const copies: Copy[] = []
  for (let index = 0; index < COPIES; index++) {
    await delay(150 + world.random() * 1200)
    server.child.kill('SIGSTOP')
    await delay(STILL_MS)
    const file = `${image}.${index}`
    run('cp', '--sparse=always', image, file)
    copies.push({ file, now: spacesNow(world) })
    server.child.kill('SIGCONT')
  }
  target.isOver = true
  await load
  await server.kill()
  expect(existsSync(image)).toBe(true)
  expect(world.tally.requests).toBeGreaterThan(20)
  return copies
}
