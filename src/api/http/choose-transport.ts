/**
 * Chooses the HTTP library: uWebSockets.js where its binary loads, else node:http.
 *
 * The package uWebSockets.js is a third party's republication of the upstream project with binaries
 * for all platforms (docs/decisions/0023). Weir loads one file of it, the binary of this platform,
 * processor and Node version, and only if its SHA-256 is known. No other file of the package runs.
 */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setForLibrary } from '../../database/config.ts'
import { CannotRun } from '../../util/errors.ts'
import { HTTP_HEAD_BYTES_MAX } from '../../util/limits.ts'
import { loadReason, machine } from '../../util/load-package.ts'
import { nodeTransport } from './node.ts'
import type { Transport } from './transport.ts'
import { type UwsModule, uwsTransport } from './uws.ts'

export interface ChosenTransport {
  readonly transport: Transport
  /** One line for the operator: which library runs, and why. */
  readonly note: string
  /** Set when the package has a binary of unknown SHA-256. */
  readonly warning?: string
}

/** uWebSockets.js answers nothing to a request with another header name: the log says it first. */
const UWS_NOTE =
  'HTTP by uWebSockets.js; it takes header names of letters, digits and "-" alone, and leaves a request with another name (x_id) without an answer: --http node takes them'

/**
 * @param wanted '' takes uWebSockets.js if it loads
 * @param trusted SHA-256 of a binary that the operator trusts, '' for none
 * @param folder the folder of the package uWebSockets.js; by default where it is installed
 * @throws CannotRun when `uws` is wanted and cannot be loaded
 */
export async function chooseTransport(
  wanted: '' | 'uws' | 'node',
  trusted: string,
  folder?: string,
): Promise<ChosenTransport> {
  if (wanted === 'node') return { transport: nodeTransport, note: 'HTTP by node:http, as asked for' }
  const loaded = await loadUws(trusted, folder)
  if (loaded.module !== undefined) return { transport: uwsTransport(loaded.module), note: UWS_NOTE }
  const { why, isForeign } = loaded
  if (wanted === 'uws')
    throw new CannotRun(
      `--http uws: uWebSockets.js cannot be loaded: ${why}. Without --http uws Weir runs on node:http`,
    )
  const note = `HTTP by node:http, because uWebSockets.js cannot be loaded: ${why}`
  return {
    transport: nodeTransport,
    note,
    ...(isForeign ? { warning: `uWebSockets.js was not loaded: ${why}` } : {}),
  }
}

/** The binaries for Linux in the package that package.json pins, by processor and ABI. */
export const KNOWN_BINARIES: Readonly<Record<string, string>> = {
  x64_115: 'f4fa5d7b697529b45ac8aa3d57385d9af51bc1d2b26aa9f5b68ca4361542e665',
  x64_127: '78e38a9a163b1cf33ce539619e5908111dea95a12e7943d95fbcdd524879caa8',
  x64_137: '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449',
  x64_141: 'd22bae7642b872152cd0eeb682c6c2ffd186e91af8cf18cdf98be984a6549d49',
  arm64_115: '034e0fcccdc08f90df3b130f421516311831b1352fe38eab91abc2984c2fdf3a',
  arm64_127: 'a7d9bc3ec166421a49416d5ea4f49118ae68ea1dbf8a765c4f45a79b0b6adb13',
  arm64_137: 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4',
  arm64_141: '1317f2e69ea1924ee8dd94ed02a3e6beb08e55d8b06f18caeda3d67a02857aee',
}

const require = createRequire(import.meta.url)

/** `isForeign`: the package has a binary of unknown SHA-256. */
export type UwsLoad =
  | { readonly module: UwsModule }
  | { readonly module?: undefined; readonly why: string; readonly isForeign: boolean }

/** Loads the binary, in 10 to 30 ms. The parameters are those of chooseTransport. */
export async function loadUws(trusted: string, folder?: string): Promise<UwsLoad> {
  const { platform, arch, versions } = process
  const abi = versions.modules
  let file: string
  let bytes: Uint8Array
  try {
    const home = folder ?? dirname(require.resolve('uWebSockets.js/package.json'))
    file = join(home, `uws_${platform}_${arch}_${abi}.node`)
    bytes = await readFile(file)
  } catch (error) {
    const isAbsent = ['ENOENT', 'MODULE_NOT_FOUND'].includes((error as NodeJS.ErrnoException).code ?? '')
    const why = isAbsent ? `it has no binary for ABI ${abi} (${machine()})` : (error as Error).message
    return { why, isForeign: false }
  }
  const found = createHash('sha256').update(bytes).digest('hex')
  const known = platform === 'linux' ? KNOWN_BINARIES[`${arch}_${abi}`] : undefined
  if (found !== known && found !== trusted) {
    const why = `${file} has the SHA-256 ${found}, which is not the known one; if you put it there, start with --http-sha256 ${found}`
    return { why, isForeign: true }
  }
  try {
    // By itself the library takes 4 KiB of a head that comes in pieces.
    setForLibrary('UWS_HTTP_MAX_HEADERS_SIZE', String(HTTP_HEAD_BYTES_MAX))
    return { module: require(file) as UwsModule }
  } catch (error) {
    return { why: `${loadReason(error)} (${machine()})`, isForeign: false }
  }
}
