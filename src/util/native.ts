/**
 * The native module, where set-up built it. It is optional: every user of it has a TypeScript twin behind the
 * same interface.
 */

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { CannotRun } from './errors.ts'
import { loadReason } from './load-package.ts'

/** Everything the module exports; each stage narrows it to the functions it added. */
export type NativeModule = Readonly<Record<string, unknown>>

const FILE = fileURLToPath(new URL('../../native/weir.node', import.meta.url))

let looked:
  | { readonly module: NativeModule }
  | { readonly module?: undefined; readonly why: string }
  | undefined

/** The module, or undefined where it was not built or cannot be loaded: chooseNative() tells why. */
export function tryNative(): NativeModule | undefined {
  looked ??= look()
  return looked.module
}

function look(): NonNullable<typeof looked> {
  if (!existsSync(FILE))
    return { why: 'it was not built, and set-up said why (node src/setup.mjs says it again)' }
  try {
    return { module: createRequire(import.meta.url)(FILE) as NativeModule }
  } catch (error) {
    return { why: loadReason(error) }
  }
}

/**
 * `native` where the module is wanted, or can be loaded and nothing is wanted (''), else `js`.
 * @throws CannotRun where `native` was asked for and is not there
 */
export function chooseNative(wanted: '' | 'native' | 'js'): 'native' | 'js' {
  if (wanted === 'js') return 'js'
  looked ??= look()
  if (looked.module !== undefined) return 'native'
  if (wanted === 'native')
    throw new CannotRun(`--kernel native: the native module cannot be used: ${looked.why}`)
  return 'js'
}

/** Which kernel runs, and why it is not the native one where nobody asked for another. A line at start says it. */
export function kernelNote(kernel: 'native' | 'js', wanted: '' | 'native' | 'js'): string {
  if (kernel === 'native' || wanted === 'js') return `kernel ${kernel}`
  looked ??= look()
  return `kernel js (slower): the native module cannot be used: ${looked.module === undefined ? looked.why : ''}`
}
