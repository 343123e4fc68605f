/**
 * Ends the processes and removes the folders of a bench, however it ends.
 *
 *   done or failed       leaveNothing() of main.ts
 *   Ctrl-C, SIGTERM, …   the same, then exit 128 + signal
 *   a crash              signals to the processes and removal of the folders, without waiting
 *
 * After a kill -9 of the bench a generator ends by itself, because its channel closes.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeLeftovers } from '../test/util/server.ts'

/** Time for a process to end by its signal; then it is killed. */
const END_MS_MAX = 10_000
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

interface Child {
  readonly child: ChildProcess
  readonly signal: NodeJS.Signals
  readonly isGroup: boolean
  readonly ended: Promise<unknown>
}

const children = new Set<Child>()
const folders = new Set<string>()
let isEnding = false

/**
 * How a process is ended. `signal`: in place of SIGKILL. `isGroup`: its whole process group ends.
 */
export interface EndedBy {
  readonly signal?: NodeJS.Signals
  readonly isGroup?: boolean
}

/** Keeps a process in the list until it has ended. */
export function tracked<T extends ChildProcess>(child: T, { signal, isGroup }: EndedBy = {}): T {
  const ended = new Promise(resolve => {
    child.once('exit', resolve)
    child.once('error', resolve) // it could not be started
  })
  const one: Child = { child, signal: signal ?? 'SIGKILL', isGroup: isGroup ?? false, ended }
  children.add(one)
  void ended.then(() => children.delete(one))
  return child
}

/** A fresh folder below the system's temporary one. */
export function benchFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), name))
  folders.add(folder)
  return folder
}

/** Removes a folder that nothing uses any more. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  folders.delete(folder)
}

/** True when a signal ends the bench. Errors are then its consequence and are not reported. */
export function isInterrupted(): boolean {
  return isEnding
}

/** Ends the processes, waits for their ends, and removes the folders. */
export async function leaveNothing(): Promise<void> {
  await Promise.all(
    [...children].map(async one => {
      end(one, one.signal)
      const late = setTimeout(() => end(one, 'SIGKILL'), END_MS_MAX)
      await one.ended
      clearTimeout(late)
    }),
  )
  removeLeftovers()
  for (const folder of [...folders]) removeFolder(folder)
}

function end({ child, isGroup }: Child, signal: NodeJS.Signals): void {
  try {
    if (isGroup && child.pid !== undefined) process.kill(-child.pid, signal)
    else child.kill(signal)
  } catch {} // it has ended meanwhile
}

/** Arms the clean-up for signals, a closed output and a crash. Called once, in main.ts. */
export function guardLeftovers(): void {
  const stop = (name: string, code: number) => {
    if (isEnding) return
    isEnding = true
    process.stderr.write(`\nbench: ${name}: ending what was started\n`)
    leaveNothing().finally(() => process.exit(code))
  }
  for (const [signal, number] of Object.entries(SIGNALS))
    process.on(signal as NodeJS.Signals, () => stop(signal, 128 + number))
  // `npm run bench | head` closes the output.
  process.stdout.on('error', () => stop('the output is closed', 1))
  process.once('exit', () => {
    for (const one of children) end(one, one.signal)
    for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
}
