/** `weir tail <pool>`: prints the events of a pool as a running server acknowledges them. */
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type CommandInput, DAMAGED } from '../database/command.ts'
import { CannotRun } from '../util/errors.ts'
import { note, printable, say } from '../util/say.ts'
import { authorizationOf, baseOf, DEFAULT_URL, unreachableServer } from './running-server.ts'

/** Prints one JSON object a line. The exit code is 1 where the server ends the stream. */
export async function tail({ config, positionals, flags }: CommandInput): Promise<number> {
  const url = flags.get('url') ?? DEFAULT_URL
  const parameters = new URLSearchParams()
  for (const name of ['columns', 'filters']) if (flags.has(name)) parameters.set(name, flags.get(name) ?? '')
  const path = `${baseOf(url)}/v1/pools/${encodeURIComponent(positionals[0] ?? '')}/tail?${parameters}`
  const answer = await fetch(path, { headers: { authorization: authorizationOf(config) } }).catch(error => {
    throw new CannotRun(unreachableServer(url, error as Error))
  })
  if (answer.status !== 200 || answer.body === null) {
    const { detail = '' } = (await answer.json().catch(() => ({}))) as { readonly detail?: string }
    throw new CannotRun(`${url} refused the tail with status ${answer.status}: ${detail}`)
  }
  note('events from now on; Ctrl-C ends')
  return await print(Readable.fromWeb(answer.body as ReadableStream))
}

async function print(body: Readable): Promise<number> {
  let event = ''
  try {
    for await (const line of createInterface({ input: body, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (line.startsWith('event: ')) event = line.slice('event: '.length)
      else if (line.startsWith('data: ')) {
        const data = line.slice('data: '.length)
        if (event === '') say(printable(data))
        else if (event === 'missed') note(`missed: ${(JSON.parse(data) as { count: number }).count} events`)
        else note(printable((JSON.parse(data) as { message: string }).message))
      } else if (line === '') event = ''
    }
    return DAMAGED
  } catch (error) {
    throw new CannotRun(`the server broke off the tail: ${(error as Error).message}`)
  }
}
