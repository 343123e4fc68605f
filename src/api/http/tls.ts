/**
 * The certificate and the key of --tls-cert and --tls-key: read and checked at the start, and again
 * whenever one of the files changes, because certificates are renewed while a server runs.
 *
 *   W-9  The files are read every TLS_LOOK_MS, each up to TLS_FILE_BYTES_MAX.
 */
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { CannotRun } from '../../util/errors.ts'
import { KiB } from '../../util/limits.ts'
import { fail, inform } from '../../util/say.ts'

/** Where the two files are, in PEM. The certificate is followed by those of its issuers. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

/** Their contents, which fit together. */
export interface TlsPair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** The files, and their contents at the start. */
export interface Tls {
  readonly files: TlsFiles
  readonly pair: TlsPair
}

/** A renewed certificate is used within this time. Its predecessor lasts for days more. */
const TLS_LOOK_MS = 5_000
const TLS_FILE_BYTES_MAX = 256 * KiB

/** @throws CannotRun naming the file and what is wrong with it */
export async function readPair(files: TlsFiles): Promise<TlsPair> {
  const [cert, key] = await Promise.all([read('--tls-cert', files.cert), read('--tls-key', files.key)])
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    const why = (error as Error).message
    throw new CannotRun(`--tls-cert ${files.cert} and --tls-key ${files.key} cannot be used: ${why}`)
  }
  return { cert, key }
}

async function read(option: string, file: string): Promise<Buffer> {
  let bytes: Buffer
  try {
    bytes = await readFile(file)
  } catch (error) {
    throw new CannotRun(`${option} ${file} cannot be read: ${(error as Error).message}`)
  }
  if (bytes.byteLength > TLS_FILE_BYTES_MAX)
    throw new CannotRun(
      `${option} ${file} has more than ${TLS_FILE_BYTES_MAX} bytes, which no key and no chain has`,
    )
  return bytes
}

/**
 * Calls `renew` with each new pair that fits together. Files that do not, such as one that is still
 * being written, are said once, and the pair before stays in use.
 * @returns ends the watch
 */
export function watchPair({ files, pair }: Tls, renew: (pair: TlsPair) => Promise<void> | void): () => void {
  let used = pair
  let refused = ''
  let isLooking = false
  const look = async () => {
    try {
      const now = await readPair(files)
      refused = ''
      if (now.cert.equals(used.cert) && now.key.equals(used.key)) return
      await renew(now)
      used = now
      inform('the certificate was renewed; connections that are open keep the one before')
    } catch (error) {
      const { message } = error as Error
      if (message !== refused) fail(`the certificate before stays in use: ${message}`)
      refused = message
    }
  }
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    void look().finally(() => {
      isLooking = false
    })
  }, TLS_LOOK_MS)
  return () => clearInterval(timer)
}
