/** The running version of Weir, from package.json. */
import { readFileSync } from 'node:fs'

const PACKAGE = new URL('../../../package.json', import.meta.url)

/** For example `0.1.0`. */
export const WEIR_VERSION = (JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string })
  .version
