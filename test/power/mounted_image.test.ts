/**
 * A power cut on a real file system. The server runs on an ext4 image under load. At random moments
 * it is stopped while the image is copied. A server on the mounted copy must have every request
 * that was acknowledged by then.
 *
 * The copy lacks all data that the kernel has not written to the image. The server is stopped
 * (SIGSTOP), so that the whole copy is of one moment. Only syncs commit the journal (commit=300).
 */
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, type TestContext, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { ClientState, type SpaceNow, spacesNow, verifySpaces } from '../crash/client-state.ts'
import { runLoad } from '../crash/load.ts'
import type { Target } from '../crash/requests.ts'
import { newSeed } from '../util/random.ts'
import { fetchToken, startServer, type TestServer } from '../util/server.ts'

const seed = newSeed()
const COPIES = 2
const IMAGE_BYTES = 384 * 1024 * 1024
/** Requests before each copy, however slow the machine is. */
const REQUESTS_PER_COPY = 12

const run = (command: string, ...given: string[]) => execFileSync(command, given, { stdio: 'pipe' })

/** The images that are mounted, so that the end of the test unmounts them. */
class Mounts {
  readonly #mounted: string[] = []

  mount(image: string, at: string): void {
    mkdirSync(at)
    run('mount', '-o', 'loop,commit=300', image, at)
    this.#mounted.push(at)
  }

  /** Removes the loop device too. */
  unmount(at: string): void {
    run('umount', at)
    this.#mounted.splice(this.#mounted.indexOf(at), 1)
  }

  unmountAll(): void {
    for (const at of [...this.#mounted].reverse()) {
      try {
        run('umount', at)
      } catch {
        run('umount', '-l', at) // a process still uses it: it is unmounted when that process ends
      }
    }
  }
}

/** The reason why nothing can be mounted here; undefined where it can. */
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

test(`nothing acknowledged is missing on copies of a mounted image (seed ${seed})`, async (context: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-image-'))
  const skip = reasonToSkip(folder)
  if (skip !== undefined) {
    rmSync(folder, { recursive: true, force: true })
    context.skip(skip)
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

/**
 * Loads a server on `dataDir`, which is in the file system of `image`, and copies the image now and
 * then.
 */
async function copyUnderLoad(dataDir: string, image: string, servers: Set<TestServer>): Promise<Copy[]> {
  const server = await started(dataDir, servers)
  const state = new ClientState(seed)
  await state.createPools(server)
  const token = await fetchToken(server.base, dataDir)
  const target: Target = { base: server.base, token, isOver: false, isStopping: false, isArmed: false }
  const load = runLoad(state, target)
  load.catch(() => undefined) // awaited below
  const copies: Copy[] = []
  for (let index = 0; index < COPIES; index++) {
    await delay(150 + state.random() * 1200)
    while (state.tally.requests < REQUESTS_PER_COPY * (index + 1)) await delay(20)
    server.child.kill('SIGSTOP')
    await untilStopped(must(server.child.pid, 'a running server'))
    const file = `${image}.${index}`
    run('cp', '--sparse=always', image, file)
    copies.push({ file, now: spacesNow(state) })
    server.child.kill('SIGCONT')
  }
  target.isOver = true
  await load
  await server.kill()
  return copies
}

/** Waits until every thread stands still: one that is inside a sync finishes it first. */
async function untilStopped(pid: number): Promise<void> {
  const threads = () => readdirSync(`/proc/${pid}/task`)
  const state = (thread: string) =>
    readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1').replace(/^.*\) /s, '')[0]
  while (threads().some(thread => state(thread) !== 'T')) await delay(5)
}
