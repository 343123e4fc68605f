/** HTTP Basic credentials, compared in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { BasicAuth } from '../catalog/model.ts'

/** Digests of configured credentials: of equal length whatever the credentials are, and made once. */
const digests = new WeakMap<BasicAuth, Buffer>()

/** Does the Authorization header carry these credentials? An empty username is as good as any. */
export function basicAuthMatches(header: string, wanted: BasicAuth): boolean {
  const match = /^basic +([A-Za-z0-9+/=_-]*) *$/i.exec(header)
  if (match === null) return false
  let expected = digests.get(wanted)
  if (expected === undefined) {
    expected = digestOf(Buffer.from(`${wanted.username}:${wanted.password}`))
    digests.set(wanted, expected)
  }
  return timingSafeEqual(digestOf(Buffer.from(match[1]!, 'base64')), expected)
}

function digestOf(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
