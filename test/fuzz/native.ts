/** The native kernel where this build has one. */
import type { MakeKernel } from '../../src/parse/kernel.ts'

/** Its maker, or null without a compiler or in a tree that does not have it. */
export async function findNativeKernel(): Promise<MakeKernel | null> {
  const file = new URL('../../src/parse/kernel-native.js', import.meta.url).href
  try {
    const { tryNativeKernel } = (await import(file)) as { tryNativeKernel: () => MakeKernel | undefined }
    return tryNativeKernel() ?? null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return null
    throw error
  }
}
