/** The change of the key that signs tokens. */
import { keys } from '../documents/memory.ts'
import { acceptedKeys, makeSigningKey } from '../documents/signing-keys.ts'
import type { Decide } from './change.ts'

/** Keys whose tokens are accepted: the newest, and those that it followed within TOKEN_SECONDS. */
export const SIGNING_KEYS_MAX = 16

interface RotatedKey {
  readonly kid: string
  readonly createdAt: string
  /** Keys whose tokens are refused from now on. */
  readonly ended: number
}

/**
 * Signs tokens with a new key from now on, and removes the keys whose tokens have expired.
 * @param endTokens removes all older keys: every token that was given before is refused
 */
export function rotateSigningKey(endTokens: boolean): Decide<RotatedKey> {
  return (memory, nowMs) => {
    const known = memory.signingKeys()
    const made = makeSigningKey(known, nowMs)
    const kept = endTokens ? [] : acceptedKeys([made, ...known], nowMs)
    if (kept.length > SIGNING_KEYS_MAX)
      return {
        badRequest: `The tokens of ${known.length} keys are still valid, which is the limit: rotate again within the hour, or end those tokens.`,
      }
    const ended = known.filter(key => !kept.includes(key))
    return {
      puts: [[keys.signingKey(made.kid), made]],
      removes: ended.map(({ kid }) => keys.signingKey(kid)),
      result: { kid: made.kid, createdAt: made.createdAt, ended: ended.length },
    }
  }
}
