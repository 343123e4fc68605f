/**
 * Question: how soon is the console there, does its grid scroll, and what do ten open consoles cost
 * ingest?
 *
 *   walks        clicks and seconds of a new user, and of somebody whose event was refused
 *   first page   bytes as sent, first paint and first contents, in Chromium on this machine
 *   scrolling    time from frame to frame while the wheel goes over 100,000 rows
 *   consoles     full batches and single events with ten consoles open, against none, in turn
 *
 * Ten consoles are ten clients that ask what an open overview asks, every two seconds: ten browsers
 * would take the cores themselves.
 */
import type { Browser, Page } from 'playwright-core'
import { CHROMIUM, openPage, openSignedIn, signIn, startBrowser } from '../test/browser/browser.ts'
import { adminOf, fetchToken, type TestServer } from '../test/util/server.ts'
import { walks } from './console-walks.ts'
import { BATCH_EVENTS } from './events.ts'
import { type LoadResult, runLoad } from './load.ts'
import { median, print, quantileOf, row, short, sleep } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, startWeir } from './weir.ts'

interface ConsoleOptions {
  readonly seconds?: string | undefined
  readonly pairs?: string | undefined
  readonly rows?: string | undefined
}

const CONSOLES = 10
const POLL_MS = 2_000
const CONNECTIONS = 64
const SCROLL_SECONDS = 10
const WHEEL_MS = 16
const GOALS = { bytes: 150_000, paintMs: 1_000, frameMs: 1_000 / 60, ratio: 0.97 }

/** Runs each load for `seconds` (10), in `pairs` (3), and scrolls over `rows` (100,000). */
export async function benchConsole(options: ConsoleOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 10)
  const pairs = numberOf('pairs', options.pairs, 3)
  const rows = numberOf('rows', options.rows, 100_000)
  print(`console: ${rows} rows, ${CONSOLES} consoles, ${seconds} s, ${pairs} pairs`)
  const server = await startWeir()
  try {
    if (CHROMIUM === undefined) print('no Chromium: the pages are left out')
    else await pages(server, rows)
    await consoles(server, seconds, pairs)
  } finally {
    await server.stop()
  }
}

async function pages(server: TestServer, rows: number): Promise<void> {
  const browser = await startBrowser()
  try {
    await walks(browser)
    await firstPage(browser, server)
    await scrolling(browser, server, rows)
  } finally {
    await browser.close()
  }
}

async function firstPage(browser: Browser, server: TestServer): Promise<void> {
  const paints: number[] = []
  for (let round = 0; round < 5; round += 1) {
    const { page } = await openPage(browser)
    let bytes = 0
    page.on('response', answer => {
      void answer
        .request()
        .sizes()
        .then(({ responseBodySize, responseHeadersSize }) => {
          bytes += responseBodySize + responseHeadersSize
        })
    })
    await page.goto(server.base)
    await page.getByLabel('Application id').waitFor()
    const [paint, contents] = (await page.evaluate(
      'performance.getEntriesByType("paint").map(entry => entry.startTime)',
    )) as number[]
    paints.push(contents ?? paint ?? Number.NaN)
    if (round === 0) print(row('first page', `${short(bytes)}B, goal ${short(GOALS.bytes)}B`))
    await page.context().close()
  }
  print(row('first contents painted', `${median(paints).toFixed(0)} ms, goal ${GOALS.paintMs} ms`))
  const { page } = await openPage(browser)
  await page.goto(server.base)
  await signIn(page, adminOf(server.dataDir))
  const began = performance.now()
  await page.reload()
  await page.getByText('Busiest').waitFor()
  print(
    row('overview, signed in', `${(performance.now() - began).toFixed(0)} ms from the reload to its tables`),
  )
  await page.context().close()
}

async function scrolling(browser: Browser, server: TestServer, rows: number): Promise<void> {
  const pool = await keyedPool(server)
  const seconds = 1
  let sent = 0
  for (let producer = 1; sent < rows; producer += 1) {
    const { requests } = await runLoad({
      url: pool.url,
      events: BATCH_EVENTS,
      connections: 1,
      seconds,
      producer,
      form: 'array',
      generator: 'node',
    })
    sent += requests * BATCH_EVENTS
  }
  const { page } = await openSignedIn(browser, server, `/events/${pool.poolId}`)
  await page.locator('.grid-row').first().waitFor()
  const loadedMs = await untilLoaded(page, rows)
  await page.evaluate('document.querySelector(".grid").scrollTop = 0')
  await page.locator('.grid').hover()
  await page.evaluate(
    'window.frames_ = []; let last = performance.now(); (function next(now) { window.frames_.push(now - last); last = now; requestAnimationFrame(next) })(last)',
  )
  const until = performance.now() + SCROLL_SECONDS * 1000
  while (performance.now() < until) {
    await page.mouse.wheel(0, 2_400)
    await sleep(WHEEL_MS)
  }
  const frames = (await page.evaluate('window.frames_.slice(1)')) as number[]
  const late = frames.filter(ms => ms > GOALS.frameMs * 1.5).length
  print(
    row(
      `scrolling, ${rows} rows`,
      `${(frames.length / SCROLL_SECONDS).toFixed(0)} frames/s, frame p50 ${quantileOf(frames, 0.5).toFixed(1)} ms, p99 ${quantileOf(frames, 0.99).toFixed(1)} ms, ${late} of ${frames.length} late; loaded in ${(loadedMs / 1000).toFixed(1)} s`,
    ),
  )
  await page.context().close()
}

/** As in the style sheet. */
const ROW_PX = 32
const LOAD_MS_MAX = 300_000

/** Scrolls to the end again and again, until so many rows are there. */
async function untilLoaded(page: Page, rows: number): Promise<number> {
  const began = performance.now()
  for (;;) {
    const height = await page.evaluate<number>(
      '(() => { const grid = document.querySelector(".grid"); grid.scrollTop = grid.scrollHeight; return grid.scrollHeight })()',
    )
    const ms = performance.now() - began
    if (height / ROW_PX >= rows) return ms
    if (ms > LOAD_MS_MAX) throw new Error(`after ${ms} ms the grid has ${height / ROW_PX} rows`)
    await sleep(20)
  }
}

async function consoles(server: TestServer, seconds: number, pairs: number): Promise<void> {
  let producer = 1_000
  for (const [name, events] of [
    ['full batches', BATCH_EVENTS],
    ['single events', 1],
  ] as const) {
    const ratios: number[] = []
    for (let pair = 0; pair < pairs; pair += 1) {
      const rates: Record<string, number> = {}
      for (const isOpen of pair % 2 === 0 ? [false, true] : [true, false]) {
        const pool = await keyedPool(server)
        const stop = isOpen ? openConsoles(server) : async () => {}
        producer += 1
        const load = await runLoad({
          url: pool.url,
          events,
          connections: CONNECTIONS,
          seconds,
          producer,
          form: 'array',
          generator: 'node',
        })
        await stop()
        rates[String(isOpen)] = rateOf(load, events)
      }
      ratios.push(rates['true']! / rates['false']!)
      print(
        row(
          `${name} ${pair + 1}`,
          `${short(rates['false']!)} events/s, ${short(rates['true']!)} with consoles`,
        ),
      )
    }
    const ratio = median(ratios)
    const isMet = ratio >= GOALS.ratio
    print(row(`${name}, ratio`, `${ratio.toFixed(2)} ×, goal ${GOALS.ratio}: ${isMet ? 'met' : 'MISSED'}`))
  }
}

function rateOf({ requests, seconds }: LoadResult, events: number): number {
  return (requests * events) / seconds
}

const OVERVIEW = JSON.stringify({
  query: `{ serverStatus { version startedAt isReady reason accepted rejected acceptedBySecond rejectedBySecond syncMs
    unflushedRecords flushLagMs segments segmentBytes diskBytes diskFreeBytes memoryBytes
    busiest(first: 10) { dataPool { id uniqueName isBuiltIn } activity { accepted rejected lastAcceptedAt } } }
    unfinishedJobs { id kind status progress createdAt dataPool { uniqueName } } }`,
})

/** Asks as so many open overviews do. Returns the end of it. */
function openConsoles(server: TestServer): () => Promise<void> {
  let isOver = false
  const one = async (index: number) => {
    await sleep((index * POLL_MS) / CONSOLES)
    const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
    while (!isOver) {
      const headers = { authorization, 'content-type': 'application/json' }
      const answer = await fetch(`${server.base}/graphql`, { method: 'POST', headers, body: OVERVIEW })
      await answer.text()
      await sleep(POLL_MS)
    }
  }
  const all = Array.from({ length: CONSOLES }, (_, index) => one(index))
  return async () => {
    isOver = true
    await Promise.all(all)
  }
}
