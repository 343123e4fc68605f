/**
 * A command's calls to a running server: `--url`, with the credentials of the environment or of
 * data/admin.json.
 */

import type { Config } from '../database/config.ts'
import { withoutEndSlashes } from '../util/addresses.ts'
import { disk, readFile } from '../util/disk.ts'
import { CannotRun } from '../util/errors.ts'
import { jsonIn } from '../util/json.ts'
import { pathsOf } from '../util/paths.ts'

/** Where a server listens by default, for commands that always need one. */
export const DEFAULT_URL = 'http://127.0.0.1:8420'

/**
 * Posts JSON to the server at `url`. Resolves with its answer of status 200.
 * @param what the request in the message of a refusal, such as `the backup`
 * @param msMax time for the whole answer; without it any time will do
 * @throws CannotRun no server there (NoAnswer), or it refuses
 */
export async function postToServer(
  config: Config,
  url: string,
  path: string,
  body: object,
  what: string,
  msMax?: number,
): Promise<Response & { readonly body: ReadableStream<Uint8Array> }> {
  const answer = await fetch(`${baseOf(url)}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: authorizationOf(config) },
    body: JSON.stringify(body),
    ...(msMax === undefined ? {} : { signal: AbortSignal.timeout(msMax) }),
  }).catch(error => {
    throw new NoAnswer(unreachableServer(url, error as Error))
  })
  if (answer.status === 200 && answer.body !== null) return answer as typeof answer & { body: ReadableStream }
  const { detail = '' } = (await answer.json().catch(() => ({}))) as { readonly detail?: string }
  const text = `${url} refused ${what} with status ${answer.status}: ${detail}`
  throw NOT_NOW.has(answer.status) ? new NoAnswer(text) : new CannotRun(text)
}

const CLOSED =
  'the other side closed the connection without an answer: is it a Weir server, and does it serve http:// or https://?'
const UNKNOWN_ISSUER =
  'this machine does not know who issued its certificate: name a file with the certificate of the issuer in NODE_EXTRA_CA_CERTS'

/** The remedy for an error of a connection, by its code. */
const CONNECTION_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there: start the server, or name its address and --port',
  ENOTFOUND: 'no host has this name',
  EAI_AGAIN: 'the name of the host cannot be looked up now',
  EHOSTUNREACH: 'no route leads to this host',
  ENETUNREACH: 'no route leads to this network',
  ETIMEDOUT: 'the host does not answer: is a firewall between?',
  UND_ERR_CONNECT_TIMEOUT: 'the host does not answer: is a firewall between?',
  ECONNRESET: CLOSED,
  UND_ERR_SOCKET: CLOSED,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_ISSUER,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_ISSUER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_ISSUER,
  EPROTO: 'it does not speak TLS: use http:// where no proxy adds it',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS: use http:// where no proxy adds it',
}

/** The sentence for a server that a request does not reach. */
export function unreachableServer(url: string, error: Error): string {
  const cause = (error.cause ?? error) as NodeJS.ErrnoException
  let why = CONNECTION_ERRORS[cause.code ?? ''] ?? cause.message
  // The rule of browsers, which Node's fetch follows: https://fetch.spec.whatwg.org/#port-blocking
  if (cause.message === 'bad port')
    why = `fetch opens no connection to port ${new URL(url).port}, which belongs to another protocol: let the server listen on another --port`
  else if (cause.code?.startsWith('HPE_') === true)
    why = 'the answer is not HTTP: use https:// where the server was started with --tls-cert'
  else if (error.name === 'TimeoutError') why = 'it does not answer in time'
  return `${url} cannot be reached: ${why}${cause.code === undefined ? '' : ` (${cause.code})`}`
}

/** The address without a slash at its end. @throws CannotRun it is none */
export function baseOf(url: string): string {
  if (!/^https?:\/\/[^/]/.test(url))
    throw new CannotRun(`--url takes the address of a running server, as http://127.0.0.1:8420, not "${url}"`)
  return withoutEndSlashes(url)
}

/** The Authorization header of a command. @throws CannotRun there are no credentials */
export function authorizationOf(config: Config): string {
  const { clientId, clientSecret } = readCredentials(config)
  return `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
}

/**
 * Posts JSON to the server at `url`. Resolves with the JSON of its answer. @throws as postToServer
 */
export async function askServer<T extends object>(
  config: Config,
  url: string,
  path: string,
  body: object,
  msMax?: number,
): Promise<T> {
  const answer = await postToServer(config, url, path, body, 'the request', msMax)
  const text = await answer.text().catch(error => {
    throw new NoAnswer(`${url} broke off its answer: ${(error as Error).message}`)
  })
  const json = jsonIn(text)
  if (json !== undefined) return json as T
  throw new CannotRun(`${url} did not answer as Weir does: name the address of a Weir server with --url`)
}

/** No server answers there now: it may be starting again. */
export class NoAnswer extends CannotRun {}

/** Too many requests, and what a proxy or a server that stops answers. */
const NOT_NOW: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** The credentials of the environment, or those in the data folder. */
function readCredentials(config: Config): { readonly clientId: string; readonly clientSecret: string } {
  if (config.clientId !== '') return config
  const path = pathsOf(config.dataDir).admin
  try {
    return JSON.parse(Buffer.from(readFile(disk, path)).toString()) as {
      clientId: string
      clientSecret: string
    }
  } catch (error) {
    throw new CannotRun(
      `${path} cannot be read: ${(error as Error).message}; set WEIR_CLIENT_ID and WEIR_CLIENT_SECRET, or name the server's data folder with --data-dir`,
    )
  }
}
