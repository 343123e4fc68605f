/** A server process of a test that can die and come back on the same folder and ports. */
import type { ChildProcess } from 'node:child_process'
import { atEnd } from './at-end.ts'

export interface Restartable {
  readonly child: ChildProcess
  /** Ends it as a power cut does. */
  kill(): Promise<void>
  /** Ends it as its operator does, by SIGTERM. */
  stop(): Promise<void>
  /** Ends it so, and starts it on the same folder and ports. */
  restart(): Promise<void>
}

/** Starts a server, which ends with the test. `isUp` resolves when it answers. */
export function restartable(run: () => ChildProcess, isUp: () => Promise<void>): Restartable {
  let child = run()
  const end = async (signal: 'SIGKILL' | 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise(resolve => child.once('exit', resolve))
    child.kill(signal)
    await ended
  }
  const kill = () => end('SIGKILL')
  atEnd(kill)
  return {
    get child() {
      return child
    },
    kill,
    stop: () => end('SIGTERM'),
    async restart() {
      await kill()
      child = run()
      await isUp()
    },
  }
}
