/**
 * The peer of P-2: uWebSockets.js in a process of its own that reads bodies, drops them and answers
 * 200.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tracked } from '../leftovers.ts'

const PROGRAM = `
const uWS = require('uWebSockets.js')
const body = '[{"statusCode":200,"statusMessage":"OK"}]'
uWS.App().post('/*', res => {
  res.onAborted(() => {})
  res.onData((chunk, last) => { if (last) res.cork(() => { res.writeHeader('content-type', 'application/json'); res.end(body) }) })
}).listen('127.0.0.1', 0, socket => console.log(uWS.us_socket_local_port(socket)))
`

/** Starts it; `url` takes any POST. */
export async function startDropServer(): Promise<{ readonly url: string; stop(): void }> {
  const child = tracked(spawn(process.execPath, ['-e', PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] }))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { url: `http://127.0.0.1:${Number(line.toString())}/v1/x`, stop: () => void child.kill('SIGKILL') }
}
