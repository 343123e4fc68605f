/** Why a body is refused before a kernel sees it: an error of the client. */
import { BODY_BYTES_MAX } from '../../util/limits.ts'

export interface BodyRefusal {
  /** 400, or 413 where a limit was passed. */
  readonly status: number
  /** snake_case, stable. */
  readonly code: string
  readonly message: string
}

export function refuseBody(code: string, message: string, status = 400): BodyRefusal {
  return { status, code, message }
}

/** 413. @param what such as "the form as JSON" */
export function bodyTooLarge(what: string): BodyRefusal {
  return refuseBody('body_too_large', `${what} takes at most ${BODY_BYTES_MAX} bytes`, 413)
}

/** True for bytes that were not refused. */
export function isBytes(value: Uint8Array | BodyRefusal): value is Uint8Array {
  return value instanceof Uint8Array
}
