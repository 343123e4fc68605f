/**
 * The certificate and the key of --tls-cert and --tls-key: read and checked at the start, and again
 * whenever one of the files changes, because certificates are renewed while a server runs.
 *
 *   W-9  The files are read every TLS_RELOAD_MS, at most TLS_FILE_BYTES_MAX and one byte of each.
 *   W-11 A pair is parsed once: one that is known, in use or unfit, is only compared byte by byte.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createReadStream } from 'node:fs'
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
const TLS_RELOAD_MS = 5_000
const TLS_FILE_BYTES_MAX = 256 * KiB

/** @throws CannotRun naming the file and what is wrong with it */
export async function readPair(files: TlsFiles): Promise<TlsPair> {
  const pair = await readFiles(files)
  const problem = problemOf(pair)
  if (problem !== undefined) throw cannotUse(files, problem)
  return pair
}

async function readFiles(files: TlsFiles): Promise<TlsPair> {
  const [cert, key] = await Promise.all([read('--tls-cert', files.cert), read('--tls-key', files.key)])
  return { cert, key }
}

async function read(option: string, file: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  try {
    // The position `end` is read too.
    for await (const chunk of createReadStream(file, { end: TLS_FILE_BYTES_MAX })) chunks.push(chunk)
  } catch (error) {
    throw new CannotRun(`${option} ${file} cannot be read: ${(error as Error).message}`)
  }
  const bytes = Buffer.concat(chunks)
  if (bytes.byteLength > TLS_FILE_BYTES_MAX)
    throw new CannotRun(
      `${option} ${file} has more than ${TLS_FILE_BYTES_MAX} bytes, which no key and no chain has`,
    )
  return bytes
}

/** The reason why no server can use the pair; undefined where it can. */
function problemOf({ cert, key }: TlsPair): string | undefined {
  try {
    // OpenSSL compares only keys of one type: it takes an RSA certificate beside an EC key.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      return 'the key is not the one of the certificate'
    createSecureContext({ cert, key })
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

function cannotUse({ cert, key }: TlsFiles, problem: string): CannotRun {
  return new CannotRun(`--tls-cert ${cert} and --tls-key ${key} cannot be used: ${problem}`)
}

function isSame(one: TlsPair, other: TlsPair): boolean {
  return one.cert.equals(other.cert) && one.key.equals(other.key)
}

/**
 * Calls `renew` with each new pair that fits together. Files that do not, such as one that is still
 * being written, are reported once, and the pair before stays in use.
 * @param renew throws where the pair cannot be used now: it is tried again
 * @returns ends the watch: `renew` is not called any more
 */
export function watchPair({ files, pair }: Tls, renew: (pair: TlsPair) => void): () => void {
  let used = pair
  let unfit: TlsPair | undefined
  let reported = ''
  let isReloading = false
  let hasEnded = false
  const take = (found: TlsPair) => {
    if (unfit !== undefined && isSame(found, unfit)) return
    unfit = undefined
    if (!isSame(found, used)) {
      const problem = problemOf(found)
      if (problem !== undefined) {
        unfit = found
        throw cannotUse(files, problem)
      }
      renew(found)
      used = found
      inform('the certificate was renewed; connections that are open keep the one before')
    }
    reported = ''
  }
  const reload = async () => {
    isReloading = true
    try {
      const found = await readFiles(files)
      if (!hasEnded) take(found)
    } catch (error) {
      const { message } = error as Error
      if (!hasEnded && message !== reported) fail(`the certificate before stays in use: ${message}`)
      reported = message
    } finally {
      isReloading = false
    }
  }
  const timer = setInterval(() => {
    if (!isReloading) void reload()
  }, TLS_RELOAD_MS)
  return () => {
    hasEnded = true
    clearInterval(timer)
  }
}
