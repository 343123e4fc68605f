/**
 * The native module, where set-up built it. It is optional: every user of it has a TypeScript twin behind the
 * same interface.
 */

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { CannotRun } from '../errors.ts'

/** Everything the module exports; each stage narrows it to the functions it added. */
export type NativeModule = Readonly<Record<string, unknown>>

const FILE = fileURLToPath(new URL('../../native/weir.node', import.meta.url))

let loaded: NativeModule | undefined

/** The module, or undefined where it was not built. Throws where it is there and cannot be loaded. */
export function tryNative(): NativeModule | undefined {
  if (loaded === undefined && existsSync(FILE)) loaded = createRequire(import.meta.url)(FILE) as NativeModule
  return loaded
}

/**
 * `native` where the module is wanted, or can be loaded and nothing is wanted (''), else `js`.
 * @throws CannotRun where `native` was asked for and is not there
 */
export function chooseNative(wanted: '' | 'native' | 'js'): 'native' | 'js' {
  if (wanted === 'js') return 'js'
  let why = 'it was not built: set-up found no C++ compiler'
  try {
    if (tryNative() !== undefined) return 'native'
  } catch (error) {
    why = (error as Error).message
  }
  if (wanted === 'native') throw new CannotRun(`--kernel native: the native module cannot be used: ${why}`)
  return 'js'
}
