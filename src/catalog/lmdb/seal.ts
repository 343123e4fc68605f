/**
 * Secrets at rest: applications' secrets, signing keys, the credentials of data sources and the
 * digest in `meta` are sealed on disk with the key in data/secret.key (docs/decisions/0041).
 *
 * A sealed document lacks its secret fields. Its field `sealed` has them as JSON, encrypted by
 * AES-256-GCM and bound to the document's key, so it opens in no other document. The documents in
 * memory are plain: only catalog-store.ts seals and opens.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { type Disk, readFile, replaceFile } from '../../util/disk.ts'
import { Damaged } from '../../util/errors.ts'
import type { Entry } from '../documents/catalog-types.ts'

/** The secret fields of a document, by the part of its key before the first slash. */
const SECRET_FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  // Whoever reads the digest of a short secret can guess the secret.
  ['meta', ['givenDigest']],
  ['signing-key', ['secret']],
  ['application', ['secret']],
  ['source', ['basicAuth', 'settings', 'sender']],
])

const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const PREFIX = 'v1.'

type Document = Readonly<Record<string, unknown>>

/** The key in `file`, or undefined where the file is missing. Throws Damaged naming the file. */
export function readSecretKey(file: string, on: Disk): Uint8Array | undefined {
  if (!on.exists(file)) return undefined
  const key = readFile(on, file)
  if (key.byteLength !== KEY_BYTES)
    throw new Damaged(
      file,
      0,
      `it has ${key.byteLength} bytes, a key has ${KEY_BYTES}; put the file back from a backup of this folder`,
    )
  return key
}

/** Makes a key in the new file `file`, which is durable when this returns. Its mode is 0600. */
export function makeSecretKey(file: string, on: Disk): Uint8Array {
  const key = randomBytes(KEY_BYTES)
  replaceFile(on, file, [key])
  return key
}

/** True for a document with a secret that is not sealed. Earlier versions wrote such documents. */
export function isPlain([key, value]: Entry): boolean {
  return secretsOf(key, value as Document).length > 0
}

export function isSealed([key, value]: Entry): boolean {
  return SECRET_FIELDS.has(kindOf(key)) && typeof (value as Document)['sealed'] === 'string'
}

/** The document as it is stored. A document without secrets stays as it is. */
export function sealEntry([key, value]: Entry, secretKey: Uint8Array): Entry {
  const secrets = secretsOf(key, value as Document)
  if (secrets.length === 0) return [key, value]
  const open = Object.fromEntries(
    Object.entries(value as Document).filter(([name]) => !secrets.some(([secret]) => secret === name)),
  )
  return [key, { ...open, sealed: seal(JSON.stringify(Object.fromEntries(secrets)), key, secretKey) }]
}

/** undefined where the key is another one or the document was changed. */
export function openEntry(entry: Entry, secretKey: Uint8Array): Entry | undefined {
  if (!isSealed(entry)) return entry
  const [key, value] = entry
  const { sealed, ...open } = value as Document
  const json = unseal(sealed as string, key, secretKey)
  return json === undefined ? undefined : [key, { ...open, ...(JSON.parse(json) as object) }]
}

function secretsOf(key: string, document: Document): [string, unknown][] {
  const fields = SECRET_FIELDS.get(kindOf(key)) ?? []
  return fields.flatMap(name => {
    const value = document[name]
    return value === undefined || value === null ? [] : [[name, value] as [string, unknown]]
  })
}

function kindOf(key: string): string {
  return key.split('/', 1)[0]!
}

/** `v1.` and base64url of nonce, tag and ciphertext. */
function seal(text: string, documentKey: string, secretKey: Uint8Array): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(ALGORITHM, secretKey, nonce)
  cipher.setAAD(Buffer.from(documentKey))
  const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return PREFIX + Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url')
}

function unseal(sealed: string, documentKey: string, secretKey: Uint8Array): string | undefined {
  if (!sealed.startsWith(PREFIX)) return undefined
  const bytes = Buffer.from(sealed.slice(PREFIX.length), 'base64url')
  if (bytes.byteLength < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv(ALGORITHM, secretKey, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(Buffer.from(documentKey))
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  const encrypted = bytes.subarray(NONCE_BYTES + TAG_BYTES)
  try {
    return Buffer.concat([decipher.update(encrypted), decipher.final()]).toString('utf8')
  } catch {
    return undefined // node:crypto throws where the tag does not match
  }
}
