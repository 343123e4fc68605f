/** The load generator: wrk with load.lua, its CPU time measured apart by the shell that runs it. */
import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { benchEvents, eventId } from './events.ts'

export interface LoadOptions {
  readonly url: string
  readonly events: number
  readonly connections: number
  readonly seconds: number
  /** Distinct between runs on the same pool: part of every id. */
  readonly producer: number
  /** `array`: one JSON array; `lines`: an object a line (ClickHouse). */
  readonly form: 'array' | 'lines'
}

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly cpuSeconds: number
  readonly bodyBytes: number
}

/** A body with marks in place of each id (\u0001) and time (\u0002). */
function template(events: number, form: 'array' | 'lines'): string {
  const bodies = benchEvents(events).map((event, index) =>
    event.replace(`evt-${eventId(0, index).slice(4)}`, 'evt-\u0001'),
  )
  return form === 'array' ? `[${bodies.join(',')}]` : `${bodies.join('\n')}\n`
}

/** Runs wrk once. Rejects where wrk is not installed. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-load-'))
  const file = join(folder, 'template')
  const text = template(options.events, options.form)
  writeFileSync(file, text)
  const { origin, pathname, search } = new URL(options.url)
  const script = luaScript(folder)
  const command = `TIMEFORMAT='CPU %U %S'; time wrk -t1 -c${options.connections} -d${options.seconds}s --timeout 30s -s ${script} ${origin}`
  const output = await shell(command, {
    WEIR_BENCH_TEMPLATE: file,
    WEIR_BENCH_PATH: pathname + search,
    WEIR_BENCH_PRODUCER: String(options.producer),
  })
  const result = JSON.parse(/RESULT (\{.*\})/.exec(output)?.[1] ?? 'null') as Record<string, number> | null
  if (result === null) throw new Error(`wrk did not run (apt-get install wrk):\n${output}`)
  const cpu = /CPU ([\d.]+) ([\d.]+)/.exec(output)
  const bodyBytes = Buffer.byteLength(text) + options.events * (19 + 23)
  const of = (name: string) => result[name] ?? 0
  return {
    requests: of('requests'),
    seconds: of('durationUs') / 1e6,
    errors:
      of('errorsConnect') + of('errorsRead') + of('errorsWrite') + of('errorsStatus') + of('errorsTimeout'),
    p50Ms: of('p50Us') / 1000,
    p99Ms: of('p99Us') / 1000,
    maxMs: of('maxUs') / 1000,
    cpuSeconds: Number(cpu?.[1] ?? 0) + Number(cpu?.[2] ?? 0),
    bodyBytes,
  }
}

/** The script stands beside the sources; tsc does not copy it. */
function luaScript(folder: string): string {
  const source = [new URL('./load.lua', import.meta.url), new URL('../../bench/load.lua', import.meta.url)]
    .map(url => fileURLToPath(url))
    .find(path => existsSync(path))
  if (source === undefined) throw new Error('bench/load.lua is missing')
  copyFileSync(source, join(folder, 'load.lua'))
  return join(folder, 'load.lua')
}

function shell(command: string, env: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-c', command], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    child.stdout.on('data', data => (output += String(data)))
    child.stderr.on('data', data => (output += String(data)))
    child.on('error', reject)
    child.on('close', () => resolve(output))
  })
}
