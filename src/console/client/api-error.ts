/** What went wrong with a request, for a person: the server's sentence, or that there was none. */

export class ApiError extends Error {
  /** Such as `FORBIDDEN` or `wrong_type`; `offline` where no answer came. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The error of an answer that is a problem (RFC 9457), or of a server that answers otherwise. */
export async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const { code, detail } = (await answer.json()) as { readonly code?: string; readonly detail?: string }
    return new ApiError(code ?? `http_${answer.status}`, detail ?? `the server answered ${answer.status}`)
  } catch {
    return new ApiError(`http_${answer.status}`, `the server answered ${answer.status}`)
  }
}
