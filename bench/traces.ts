/**
 * Question: what does tracing cost a request: off, at 1 % and at 100 %, beside another build?
 *
 * Single events from a closed loop. Each figure is the server's CPU time a request. The collector
 * runs in this process, takes every batch and answers at once. `--server` names the folder of
 * another build, such as one without tracing.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { closedLoop, requestHead } from './connection.ts'
import { BENCH_SEED, benchEvent, createRandom } from './events.ts'
import { benchFolder } from './leftovers.ts'
import { cpuSeconds, median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface TracesOptions {
  readonly seconds?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
  readonly server?: string | undefined
}

/** Distinct requests. They come again, and update their records. */
const REQUESTS = 2_000
const OFF = 'off'

/** Runs each kind for `seconds` (8) in `pairs` (3) rounds, the order alternating. */
export async function benchTraces(options: TracesOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 8)
  const rounds = numberOf('pairs', options.pairs, 3)
  const connections = numberOf('connections', options.connections, 64)
  const collector = createServer((request, response) => request.resume().on('end', () => response.end()))
  await once(collector.listen(0, '127.0.0.1'), 'listening')
  const on = (ratio: string) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: ratio,
  })
  const other = options.server && join(options.server, 'dist/src/app/main.js')
  const kinds = [
    { name: OFF },
    ...(other ? [{ name: 'the other build', main: other }] : []),
    { name: '1 %', env: on('0.01') },
    { name: '100 %', env: on('1') },
  ]
  print(`traces: 1 event a request, ${connections} connections, ${seconds} s each, ${rounds} rounds`)
  const micros = new Map(kinds.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round += 1)
    for (const { name, ...more } of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const server = await startWeir({ dataDir: join(benchFolder('weir-traces-'), 'data'), ...more })
      const { url } = await keyedPool(server)
      const random = createRandom(BENCH_SEED)
      const requests = Array.from({ length: REQUESTS }, (_, index) => {
        const body = benchEvent(index, random)
        return Buffer.from(requestHead('POST', url, Buffer.byteLength(body)) + body)
      })
      await closedLoop(url, requests, 1, connections) // kernels and code are warm
      const before = cpuSeconds(server.child.pid as number)
      const { length: answered } = await closedLoop(url, requests, seconds, connections)
      const each = ((cpuSeconds(server.child.pid as number) - before) * 1e6) / answered
      micros.get(name)?.push(each)
      const spans = (await scrape(server.base)).lines('weir_trace_spans_total')
      const counted = spans.map(([outcome, count]) => `${outcome.split('"')[1]} ${short(count)}`).join(', ')
      print(row(name, `${short(answered / seconds)} req/s, ${each.toFixed(1)} µs a request ${counted}`))
      await server.stop()
    }
  collector.close()
  const off = micros.get(OFF) ?? []
  for (const [name, all] of micros) {
    const ratios = all.map((one, round) => one / (off[round] ?? Number.NaN))
    print(row(name, `${median(all).toFixed(1)} µs a request, ${median(ratios).toFixed(2)} × off`))
  }
}
