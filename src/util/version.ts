/** The program that runs: its version, and how it came here. */

import { existsSync, readFileSync } from 'node:fs'
import { DIST } from './build-files.ts'

const PACKAGE = new URL('../package.json', DIST)

/** A clone has a set-up; an installed package does not. */
export const IS_CLONE = existsSync(new URL('../src/setup.mjs', DIST))

/** For example `0.1.0`. */
export const WEIR_VERSION = (JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string })
  .version
