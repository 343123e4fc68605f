/**
 * The load of a closed loop: the generator in Node (generator.ts), or wrk with load.lua, whose CPU
 * time is measured by the shell that runs it.
 */
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Errors, type GeneratorDone, generate, type Target } from './generator.ts'
import { benchFolder, removeFolder, tracked } from './leftovers.ts'
import { oneOf, Usage } from './options.ts'
import { type BodyForm, template } from './template.ts'

type GeneratorChoice = 'wrk' | 'node'

interface LoadOptions {
  readonly url: string
  readonly events: number
  readonly connections: number
  readonly seconds: number
  /** Distinct between runs on the same pool: part of every id. */
  readonly producer: number
  readonly form: BodyForm
  readonly generator: GeneratorChoice
}

export interface LoadResult {
  /** Answered with success. */
  readonly requests: number
  readonly seconds: number
  readonly errors: Errors
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly cpuSeconds: number
  readonly generator: GeneratorChoice
}

/**
 * The generator that `--generator` names, else the one that takes less of the cores that it shares
 * with the server: Node for full batches (a quarter of wrk's CPU), wrk for single events (a third
 * of Node's), where wrk is installed.
 */
export function chooseGenerators(wanted: string | undefined): Generators {
  const choice = oneOf('generator', wanted, ['wrk', 'node'])
  if (choice === 'node') return { batches: 'node', singles: 'node', words: 'Node, as asked for' }
  const isThere = spawnSync('which', ['wrk']).status === 0
  if (choice === 'wrk') {
    if (!isThere) throw new Usage('--generator wrk: it is not installed (apt-get install wrk)')
    return {
      batches: 'wrk',
      singles: 'wrk',
      words: 'wrk, as asked for; PostgreSQL and the paced part by Node',
    }
  }
  if (isThere) return { batches: 'node', singles: 'wrk', words: 'Node for batches, wrk for single events' }
  const costs = 'not wrk (apt-get install wrk), which takes a third of the cores with single events'
  return { batches: 'node', singles: 'node', words: `Node, ${costs}: figures of that part are lower` }
}

/** The generator of each part of `path`. */
export interface Generators {
  readonly batches: GeneratorChoice
  readonly singles: GeneratorChoice
  readonly words: string
}

/** Runs the load to its end. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  if (options.generator === 'wrk') return await runWrk(options)
  return await runNode({ kind: 'http', url: options.url }, options)
}

/** Runs a closed loop with the generator in Node. */
export async function runNode(target: Target, options: Omit<LoadOptions, 'url'>): Promise<LoadResult> {
  const { events, connections, seconds, producer, form } = options
  const done: GeneratorDone = await generate({ target, events, connections, seconds, producer, form })
  const { requests, errors, sent, cpuSeconds } = done
  return { requests, errors, ...sent, seconds: done.seconds, cpuSeconds, generator: 'node' }
}

async function runWrk(options: LoadOptions): Promise<LoadResult> {
  const folder = benchFolder('weir-load-')
  try {
    const file = join(folder, 'template')
    writeFileSync(file, template(options.events, options.form))
    const { origin, pathname, search } = new URL(options.url)
    const script = luaScript(folder)
    // wrk takes whole seconds.
    const seconds = Math.max(1, Math.ceil(options.seconds))
    const command = `TIMEFORMAT='CPU %U %S'; time wrk -t1 -c${options.connections} -d${seconds}s --timeout 30s -s ${script} ${origin}`
    const output = await shell(command, {
      WEIR_BENCH_TEMPLATE: file,
      WEIR_BENCH_PATH: pathname + search,
      WEIR_BENCH_PRODUCER: String(options.producer),
    })
    return resultOf(output)
  } finally {
    removeFolder(folder)
  }
}

function resultOf(output: string): LoadResult {
  const result = JSON.parse(/RESULT (\{.*\})/.exec(output)?.[1] ?? 'null') as Record<string, number> | null
  if (result === null) throw new Error(`wrk did not run to its end:\n${output}`)
  const cpu = /CPU ([\d.]+) ([\d.]+)/.exec(output)
  const of = (name: string) => result[name] ?? 0
  return {
    // wrk counts answers of any status as requests.
    requests: of('requests') - of('errorsStatus'),
    seconds: of('durationUs') / 1e6,
    errors: {
      connect: of('errorsConnect'),
      read: of('errorsRead'),
      write: of('errorsWrite'),
      status: of('errorsStatus'),
      timeout: of('errorsTimeout'),
    },
    p50Ms: of('p50Us') / 1000,
    p99Ms: of('p99Us') / 1000,
    maxMs: of('maxUs') / 1000,
    cpuSeconds: Number(cpu?.[1] ?? 0) + Number(cpu?.[2] ?? 0),
    generator: 'wrk',
  }
}

/** Copies the script from the sources, because tsc does not copy it to dist/. */
function luaScript(folder: string): string {
  const source = [new URL('./load.lua', import.meta.url), new URL('../../bench/load.lua', import.meta.url)]
    .map(url => fileURLToPath(url))
    .find(path => existsSync(path))
  if (source === undefined) throw new Error('bench/load.lua is missing')
  copyFileSync(source, join(folder, 'load.lua'))
  return join(folder, 'load.lua')
}

/** Runs a shell in a process group of its own: ending the shell alone would leave wrk running. */
function shell(command: string, env: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-c', command], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    tracked(child, { isGroup: true })
    let output = ''
    child.stdout.on('data', data => (output += String(data)))
    child.stderr.on('data', data => (output += String(data)))
    child.on('error', reject)
    child.on('close', () => resolve(output))
  })
}
