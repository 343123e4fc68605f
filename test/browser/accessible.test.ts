/** Every page for everybody: axe finds nothing serious, in light and dark, wide and narrow. */
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, type TestServer } from '../util/server.ts'
import { openPage, openSignedIn, serverWithOrders, startBrowser } from './browser.ts'

interface Found {
  readonly impact: string
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

let browser: Browser
let server: TestServer
let url: string
let sourceId: string
beforeAll(async () => {
  browser = await startBrowser()
  const made = await serverWithOrders()
  server = made.server
  url = made.url
  const { data } = await server.graphql<{ readonly dataSourceByName: { readonly id: string } }>(
    '{ dataSourceByName(uniqueName: "orders") { id } }',
  )
  sourceId = data.dataSourceByName.id
})
afterAll(async () => {
  await browser.close()
  await server.stop()
})

/** What hinders somebody. The page's policy lets no script in but by the debugger. */
async function seriousOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const found = (await page.evaluate(
    'axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }).then(({ violations }) => violations)',
  )) as readonly Found[]
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes[0]!.html}: ${nodes[0]!.failureSummary}`)
}

/** A path, and what is done there before the look. */
const PAGES: readonly (readonly [path: () => string, ready: (page: Page) => Promise<unknown>])[] = [
  [() => '/', page => page.getByText('Busiest').waitFor()],
  [() => '/sources', page => page.getByRole('rowheader', { name: 'orders' }).waitFor()],
  [
    () => '/new-source',
    async page => {
      await page.getByRole('button', { name: 'Take this example' }).click()
      await page.getByRole('button', { name: 'Propose columns' }).click()
      await page.getByText('Columns and key').waitFor()
    },
  ],
  [
    () => `/sources/${sourceId}`,
    async page => {
      await page.getByText('Waiting for an event').waitFor()
      await send(url, { id: 'axe', created_at: new Date().toISOString() })
      await page.getByText('It works').waitFor()
    },
  ],
  [
    () => `/sources/${sourceId}?tab=columns`,
    page => page.getByRole('rowheader', { name: 'price' }).waitFor(),
  ],
  [() => `/sources/${sourceId}?tab=activity`, page => page.getByText('Last event').waitFor()],
  [
    () => `/sources/${sourceId}?tab=settings`,
    async page => {
      await page.getByRole('button', { name: 'Delete this source' }).click()
      await page.getByRole('dialog').waitFor()
    },
  ],
  [() => '/events/orders', page => page.locator('.grid-row').first().waitFor()],
  [
    () => '/events/orders?range=7d',
    async page => {
      await page.locator('.grid-row').first().click()
      await page.getByRole('dialog').waitFor()
    },
  ],
  [() => '/events/orders?tab=live', page => page.getByText('Connected').waitFor()],
  [
    () => '/rejected',
    async page => {
      await page.getByRole('link', { name: 'wrong_type' }).click()
      await page.locator('.tree').first().waitFor()
    },
  ],
]

const LOOKS = [
  { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { colorScheme: 'dark', viewport: { width: 360, height: 740 } },
] as const

test.each(LOOKS)('axe finds nothing serious on any page: %j', async look => {
  const { page, wrong } = await openPage(browser, look)
  await page.goto(`${server.base}/sign-in`)
  await page.getByLabel('Application id').waitFor()
  expect(await seriousOf(page), 'sign-in').toEqual([])
  await page.context().close()
  const signed = await openSignedIn(browser, server, '/', look)
  for (const [path, ready] of PAGES) {
    await signed.page.goto(server.base + path())
    await ready(signed.page)
    expect.soft(await seriousOf(signed.page), path()).toEqual([])
    const wider = await signed.page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect.soft(wider, `${path()} scrolls sideways`).toBeLessThanOrEqual(0)
  }
  expect([...wrong, ...signed.wrong]).toEqual([])
})
