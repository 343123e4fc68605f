/**
 * `npm run dashboard`: a page of @propeldata/ui-kit over events in Weir.
 *
 * Starts Weir on a temporary folder, posts sample orders, bundles the page, and serves it until
 * Ctrl-C. The page asks Weir itself; only its token comes from here, so that the secret of the
 * application stays out of the browser.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin, preview } from 'vite'
import { whenInterrupted } from '../../src/tools/interrupts.ts'
import { createPool, fetchToken, graphqlOf, post, spawnServer } from '../own-server.ts'
import { COLUMNS, sampleOrders } from './orders.ts'

const BATCH_EVENTS_MAX = 500
const POOL = 'orders'
/** What the page may do. A token of these scopes reads pools and changes nothing. */
const SCOPES = 'data_pool:query metric:query'
const PAGE = fileURLToPath(new URL('../../../examples/dashboard/page/', import.meta.url))

const print = (line: string) => void process.stdout.write(`${line}\n`)

/** Makes the pool and the metric of the page, and posts the orders. */
async function feed(base: string, dataDir: string): Promise<void> {
  const graphql = graphqlOf(base, await fetchToken(base, dataDir))
  const keys = { timestamp: 'ordered_at', uniqueId: 'order_id' }
  const { poolId, url } = await createPool(graphql, POOL, { columns: COLUMNS, ...keys })
  await graphql(
    'mutation ($input: CreateCustomMetricInput) { createCustomMetric(input: $input) { metric { id } } }',
    {
      input: { dataPool: poolId, uniqueName: 'revenue', expression: 'SUM(price * quantity)' },
    },
  )
  const orders = sampleOrders(Date.now())
  for (let at = 0; at < orders.length; at += BATCH_EVENTS_MAX)
    await post(url, JSON.stringify(orders.slice(at, at + BATCH_EVENTS_MAX)))
  print(`posted ${orders.length} orders to ${url}`)
}

/** Bundles the page into a folder, and serves it and its tokens. Resolves to its address. */
async function servePage(base: string, dataDir: string, outDir: string): Promise<string> {
  const common = { root: PAGE, configFile: false, logLevel: 'error' } as const
  await build({
    ...common,
    define: { API_URL: JSON.stringify(`${base}/graphql`), POOL: JSON.stringify(POOL) },
    build: { outDir, emptyOutDir: true, chunkSizeWarningLimit: 4_000 },
  })
  const tokens: Plugin = {
    name: 'tokens',
    configurePreviewServer: ({ middlewares }) => {
      middlewares.use('/token', (_request, response, next) => {
        fetchToken(base, dataDir, SCOPES).then(token => response.end(token), next)
      })
    },
  }
  const server = await preview({
    ...common,
    build: { outDir },
    plugins: [tokens],
    preview: { host: '127.0.0.1' },
  })
  return server.resolvedUrls?.local[0] ?? ''
}

const folder = mkdtempSync(join(tmpdir(), 'weir-dashboard-'))
const dataDir = join(folder, 'data')
const weir = spawnServer(dataDir)
whenInterrupted(async () => {
  await weir.stop()
  rmSync(folder, { recursive: true, force: true })
})
const base = await weir.base
await feed(base, dataDir)
print(`dashboard: ${await servePage(base, dataDir, join(folder, 'page'))} (Ctrl-C ends it)`)
