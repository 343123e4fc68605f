/** Requests of a client that expects the server to die: the result is an answer or `unknown`. */

/** The client's knowledge of its request. */
export type Outcome =
  | { readonly kind: 'answered'; readonly status: number; readonly accepted: number; readonly text: string }
  | { readonly kind: 'unknown' }

/** The server broke a promise. */
export class Violation extends Error {
  override readonly name = 'Violation'
}

/** The connection ended before the answer was whole. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
}

/**
 * Posts or deletes. The status counts once it is received, even where the rest of the answer is
 * missing.
 */
export async function send(
  url: string,
  method: 'POST' | 'DELETE',
  body: string | Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>> = { 'content-type': 'application/json' },
): Promise<Outcome> {
  let answer: Response
  try {
    answer = await fetch(url, { method, body, headers })
  } catch {
    return { kind: 'unknown' }
  }
  const accepted = Number(answer.headers.get('x-events-accepted') ?? -1)
  const text = await answer.text().catch(() => '')
  return { kind: 'answered', status: answer.status, accepted, text }
}

/** A GraphQL answer. */
export interface GraphqlAnswer {
  readonly data: Record<string, unknown> | null
  readonly errors?: readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[]
}

/** Sends a GraphQL request. Throws ConnectionLost. */
export async function ask(
  base: string,
  token: string,
  query: string,
  variables = {},
): Promise<GraphqlAnswer> {
  try {
    const answer = await fetch(`${base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    })
    return (await answer.json()) as GraphqlAnswer
  } catch (error) {
    const { message, cause } = error as Error
    throw new ConnectionLost(cause instanceof Error ? `${message}: ${cause.message}` : message)
  }
}
