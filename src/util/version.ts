/** The running version of Weir, for example `0.1.0`. */
import { readFileSync } from 'node:fs'

const PACKAGE = new URL('../../../package.json', import.meta.url)

export const WEIR_VERSION = (JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string })
  .version
