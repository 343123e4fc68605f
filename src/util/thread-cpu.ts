/** What the calling thread has used of the processor. */
import { monotonicMs } from './clock.ts'
import { tryNative } from './native.ts'

/**
 * A clock of the calling thread's processor time, in ms. Where the native module is not there it is wall time, which
 * counts a thread's waits as work: never too little.
 */
export function threadCpuClock(): () => number {
  const native = tryNative()?.['threadCpuMs'] as (() => number) | undefined
  return native ?? monotonicMs
}
