/** Debian's Chromium, a server with events, and pages of somebody who is signed in. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { adminOf, type Credentials, send, startServer, type TestServer } from '../util/server.ts'

/** Where one is. Undefined on a machine without it. */
export const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  path => existsSync(path),
)

/** Rejects where there is no Chromium. */
export async function startBrowser(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error('no Chromium: apt-get install chromium')
  // As root, Chromium has no sandbox.
  return await chromium.launch({
    executablePath: CHROMIUM,
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  })
}

/** A page that shows nothing by then hangs; a busy machine needs a tenth of it. */
const PAGE_MS_MAX = 20_000

/** A page, and what went wrong in it: errors of scripts, and what its policy forbade. */
export interface Watched {
  readonly page: Page
  readonly wrong: readonly string[]
}

export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Watched> {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Berlin', ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(PAGE_MS_MAX)
  const wrong: string[] = []
  page.on('pageerror', error => wrong.push(error.message))
  page.on('console', message => {
    if (message.type() === 'error' && !message.text().includes('401')) wrong.push(message.text())
  })
  page.on('dialog', dialog => {
    wrong.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', request => {
    const { hostname } = new URL(request.url())
    if (hostname !== '127.0.0.1' && hostname !== '') wrong.push(`request to ${request.url()}`)
  })
  return { page, wrong }
}

/** Signs in at the page that is shown. */
export async function signIn(page: Page, { clientId, clientSecret }: Credentials): Promise<void> {
  await page.getByLabel('Application id').fill(clientId)
  await page.getByLabel('Secret').fill(clientSecret)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/** A page of `path`, signed in as the first application. */
export async function openSignedIn(
  browser: Browser,
  server: TestServer,
  path: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const watched = await openPage(browser, options)
  await watched.page.goto(server.base + path)
  await signIn(watched.page, adminOf(server.dataDir))
  return watched
}

const column = (name: string, type: string, nullable = true, jsonProperty = name) => ({
  name,
  jsonProperty,
  type,
  nullable,
})

/** A server with a pool `orders`, with events in it and some that it refused. */
export async function serverWithOrders(): Promise<{ readonly server: TestServer; readonly url: string }> {
  const server = await startServer()
  const { url } = await server.createPool({
    uniqueName: 'orders',
    columns: [
      column('id', 'STRING', false),
      column('created_at', 'TIMESTAMP', false),
      column('price', 'DOUBLE', true, 'item.price'),
      column('country', 'STRING'),
    ],
    timestamp: 'created_at',
    uniqueId: 'id',
  })
  await send(
    url,
    Array.from({ length: 300 }, (_, index) => order(index)),
  )
  await send(url, { ...order(1_000), item: { price: '12.5' } })
  return { server, url }
}

export function order(index: number) {
  return {
    id: `ord_${index}`,
    created_at: new Date(Date.now() - index * 60_000).toISOString(),
    item: { price: index / 4, sku: `SKU-${index % 7}` },
    country: ['DE', 'FR', 'US'][index % 3],
  }
}
