/**
 * Writes screenshots of every page to docs/console, in light and dark, wide and narrow, with
 * events: to be looked at after a change of the pages. `npm run screenshots`.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { send, type TestServer } from '../util/server.ts'
import { openPage, openSignedIn, order, serverWithOrders, startBrowser } from './browser.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/console/', import.meta.url))
const WIDE = { width: 1280, height: 860 }
const NARROW = { width: 360, height: 740 }
const LOOKS = [
  { name: 'light', colorScheme: 'light', viewport: WIDE },
  { name: 'dark', colorScheme: 'dark', viewport: WIDE },
  { name: 'narrow', colorScheme: 'light', viewport: NARROW },
  { name: 'narrow-dark', colorScheme: 'dark', viewport: NARROW },
] as const

type Look = (typeof LOOKS)[number]

async function main(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true })
  const { server, url } = await serverWithOrders()
  const browser = await startBrowser()
  try {
    for (const name of ['payments', 'sign-ups', 'support']) {
      const { url } = await server.createPool({
        uniqueName: name,
        columns: [{ name: 'id', jsonProperty: 'id', type: 'STRING', nullable: true }],
      })
      await send(url, [{ id: '1' }, { id: '2' }])
    }
    const { data } = await server.graphql<{ readonly dataSourceByName: { readonly id: string } }>(
      '{ dataSourceByName(uniqueName: "orders") { id } }',
    )
    const { page } = await openPage(browser, LOOKS[0])
    await page.goto(server.base)
    await page.getByLabel('Application id').waitFor()
    await page.screenshot({ path: join(FOLDER, 'sign-in-light.jpg'), quality: 70 })
    for (const look of LOOKS) await pagesOf(look, browser, server, url, data.dataSourceByName.id)
  } finally {
    await browser.close()
    await server.stop()
  }
}

async function pagesOf(
  look: Look,
  browser: Browser,
  server: TestServer,
  url: string,
  source: string,
): Promise<void> {
  const { page } = await openSignedIn(browser, server, '/', look)
  const shot = async (name: string, path: string, ready: (page: Page) => Promise<unknown>) => {
    await page.goto(server.base + path)
    await ready(page)
    await page.waitForTimeout(400) // charts and fonts are drawn
    await page.screenshot({ path: join(FOLDER, `${name}-${look.name}.jpg`), quality: 70 })
  }
  await shot('overview', '/', page => page.getByText('Busiest').waitFor())
  await shot('sources', '/sources', page => page.getByRole('rowheader', { name: 'orders' }).waitFor())
  await shot('new-source', '/new-source', async page => {
    await page.getByRole('button', { name: 'Take this example' }).click()
    await page.getByRole('button', { name: 'Propose columns' }).click()
    await page.getByText('Columns and key').waitFor()
  })
  await shot('source', `/sources/${source}`, async page => {
    await page.getByText('Waiting for an event').waitFor()
    await send(url, order(1))
    await page.getByText('It works').waitFor()
  })
  await shot('source-settings', `/sources/${source}?tab=settings`, page =>
    page.getByText('General').waitFor(),
  )
  await shot('events', '/events/orders', page => page.locator('.grid-row').first().waitFor())
  await shot('event', '/events/orders', async page => {
    await page.locator('.grid-row').nth(2).click()
    await page.getByRole('dialog').waitFor()
  })
  await shot('live', '/events/orders?tab=live', async page => {
    await page.getByText('Connected').waitFor()
    await send(url, [order(3), order(2), order(1)])
    await page.locator('.grid-row').first().waitFor()
  })
  await shot('rejected', '/rejected', async page => {
    await page.getByRole('link', { name: 'wrong_type' }).click()
    await page.locator('.tree').first().waitFor()
  })
  await page.context().close()
}

await main()
