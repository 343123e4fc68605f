/** What the calling thread has used of the processor. */
import { tryNative } from './native.ts'

/** A clock of the calling thread's processor time, in ms. undefined: the native module, which knows it, is not there. */
export function threadCpuClock(): (() => number) | undefined {
  return tryNative()?.['threadCpuMs'] as (() => number) | undefined
}
