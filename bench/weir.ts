/**
 * Starts the real server for a question, on a folder that the bench removes, and reads its /metrics
 * and its data folder.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type StartOptions, startServer, type TestPool, type TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS } from './events.ts'
import { benchFolder, tracked } from './leftovers.ts'

/** Starts Weir and waits until it is ready. It keeps no answers, unless `options` say so. */
export async function startWeir(options: StartOptions = {}): Promise<TestServer> {
  const dataDir = options.dataDir ?? join(benchFolder('weir-bench-'), 'data')
  const env = { WEIR_ANSWER_CACHE_MIB: '0', ...options.env }
  const server = await startServer({ ...options, env, dataDir })
  tracked(server.child)
  return server
}

/** A pool of the six bench columns with a key. */
export function keyedPool(server: TestServer): Promise<TestPool> {
  return server.createPool({
    columns: [...BENCH_COLUMNS],
    timestamp: 'time',
    uniqueId: 'id',
    tenant: 'tenant',
  })
}

/** One reading of /metrics. */
export class Scrape {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** The value of a name with its labels; 0 where the page has none. */
  value(name: string): number {
    const at = this.#text.indexOf(`\n${name} `)
    if (at < 0) return 0
    const from = at + name.length + 2
    const end = this.#text.indexOf('\n', from)
    return Number(this.#text.slice(from, end < 0 ? undefined : end))
  }

  /** The sum over all lines of a name, whatever their labels. */
  sum(name: string, label = ''): number {
    let sum = 0
    for (const [, labels, value] of this.#text.matchAll(new RegExp(`^${name}(\\{[^}]*\\})? (\\S+)$`, 'gm')))
      if ((labels ?? '').includes(label)) sum += Number(value)
    return sum
  }

  /** Lines that begin with a prefix, as [name with labels, value]. */
  lines(prefix: string): [string, number][] {
    const lines = this.#text.matchAll(new RegExp(`^(${prefix}\\S*) (\\S+)$`, 'gm'))
    return [...lines].map(([, name, value]) => [name ?? '', Number(value)])
  }

  /**
   * The quantile of a histogram since `before`, in seconds, linear within its bucket; NaN where it
   * counted nothing.
   */
  quantile(histogram: string, quantile: number, before: Scrape): number {
    const buckets = (of: Scrape) =>
      new Map(of.lines(`${histogram}_bucket`).map(([name, count]) => [/le="([^"]+)"/.exec(name)?.[1], count]))
    const old = buckets(before)
    const counts = [...buckets(this)].map(([le, count]) => [
      Number(le?.replace('+', '')),
      count - (old.get(le) ?? 0),
    ])
    const wanted = quantile * (counts.at(-1)?.[1] ?? 0)
    let [from, below] = [0, 0]
    for (const [to, count] of counts as [number, number][]) {
      if (count > 0 && count >= wanted)
        return Number.isFinite(to)
          ? from + ((to - from) * (wanted - below)) / Math.max(1, count - below)
          : from
      ;[from, below] = [to, count]
    }
    return Number.NaN
  }
}

/** Reads the page. */
export async function scrape(base: string): Promise<Scrape> {
  return new Scrape(`\n${await (await fetch(`${base}/metrics`)).text()}`)
}

/** Number of files below a folder. Files that are removed meanwhile may count or not. */
export async function countFiles(folder: string): Promise<number> {
  // find fails where a file was removed meanwhile; its output still counts.
  const run = promisify(execFile)('find', [folder, '-type', 'f', '-printf', '.'], {
    maxBuffer: 64 * 1024 * 1024,
  })
  const { stdout } = await run.catch(error => error as { stdout: string })
  return stdout.length
}
