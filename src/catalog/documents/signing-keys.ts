/**
 * The keys that sign tokens. The newest signs. An older one verifies until the last token that it
 * signed has expired. After that a token of it is refused, whatever its dates say: whoever has
 * copied an old key cannot make tokens with it for ever.
 */
import { randomBytes } from 'node:crypto'
import { must } from '../../util/errors.ts'
import { TOKEN_SECONDS } from '../../util/limits.ts'
import type { SigningKey } from './model.ts'

const KEY_BYTES = 32
const KID_BYTES = 8

/** A new key, which is newer than every key of `known`, even where the clock was set back. */
export function makeSigningKey(known: readonly SigningKey[], nowMs: number): SigningKey {
  const newestMs = known.length === 0 ? 0 : Date.parse(must(newestFirst(known)[0], 'a key').createdAt)
  return {
    kid: randomBytes(KID_BYTES).toString('hex'),
    secret: randomBytes(KEY_BYTES).toString('base64url'),
    createdAt: new Date(Math.max(nowMs, newestMs + 1)).toISOString(),
  }
}

export function newestFirst(keys: readonly SigningKey[]): SigningKey[] {
  return [...keys].sort((a, b) => (a.createdAt < b.createdAt ? 1 : a.createdAt > b.createdAt ? -1 : 0))
}

/** The keys whose tokens are accepted now, of keys that stand newest first. */
export function acceptedKeys(keys: readonly SigningKey[], nowMs: number): readonly SigningKey[] {
  return keys.filter((_, index) => {
    const next = keys[index - 1]
    return next === undefined || nowMs < Date.parse(next.createdAt) + TOKEN_SECONDS * 1000
  })
}
