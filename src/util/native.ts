/**
 * The native module, which is optional: every routine of it has a TypeScript twin behind the same
 * interface. Only this file chooses between the two.
 */

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { DIST } from './build-files.ts'
import { CannotRun } from './errors.ts'
import { loadReason } from './load-package.ts'
import { IS_CLONE } from './version.ts'

/** Which routines run: those of the native module, or the TypeScript ones alone. */
export type KernelChoice = 'native' | 'js'

const FILE = fileURLToPath(new URL('native/weir.node', DIST))

/** The module, or why there is none. */
let loaded: { readonly module?: object; readonly why?: string } | undefined

/**
 * The routines of the native module that `Routines` describes; undefined where it is not wanted or
 * cannot be loaded, and the caller takes the TypeScript ones.
 */
export function tryNative<Routines extends object>(kernel: KernelChoice = 'native'): Routines | undefined {
  if (kernel === 'js') return undefined
  loaded ??= load()
  return loaded.module as Routines | undefined
}

/** The file of the native module; undefined where `tryNative` has none. */
export function nativeFile(kernel: KernelChoice = 'native'): string | undefined {
  return tryNative(kernel) === undefined ? undefined : FILE
}

function load(): NonNullable<typeof loaded> {
  if (!existsSync(FILE)) {
    if (!IS_CLONE) return { why: 'this package was made without it' }
    return { why: 'it was not built, and set-up said why (node src/setup.mjs says it again)' }
  }
  try {
    return { module: createRequire(import.meta.url)(FILE) as object }
  } catch (error) {
    return { why: loadReason(error) }
  }
}

/**
 * `native` where the module is wanted, or can be loaded and nothing is wanted (''), else `js`.
 * @throws CannotRun where `native` was asked for and the module cannot be used
 */
export function chooseNative(wanted: '' | KernelChoice): KernelChoice {
  if (wanted === 'js') return 'js'
  loaded ??= load()
  if (loaded.module !== undefined) return 'native'
  if (wanted === 'native')
    throw new CannotRun(`--kernel native: the native module cannot be used: ${loaded.why}`)
  return 'js'
}

/** A line of the start: which kernel runs, and why it is js where nobody asked for it. */
export function kernelNote(kernel: KernelChoice, wanted: '' | KernelChoice): string {
  if (kernel === 'native' || wanted === 'js') return `kernel ${kernel}`
  loaded ??= load()
  return `kernel js (slower): the native module cannot be used: ${loaded.why ?? ''}`
}
