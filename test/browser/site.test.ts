/**
 * The documentation that `npm run docs` built, below a path, in a browser and as files. Without a
 * built site there is nothing to test: CI builds it before.
 */
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import axe from 'axe-core'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openPage, startBrowser } from './browser.ts'

const SITE = fileURLToPath(new URL('../../../docs/site', import.meta.url))
const PATH = '/manual/weir/'
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}
/** What a page looks like where nothing is special. */
const TABLES_AND_CODE = 'how-to/receive-stripe.html'
/** A task of a user in words of their own, and the page that says how. */
const TASKS: readonly (readonly [query: string, title: string])[] = [
  ['stripe', 'Receive Stripe'],
  ['upsert', 'Update a record'],
  ['gdpr', "Delete a person's data"],
  ['multi-tenant', 'Give each customer their own numbers'],
  ['grafana', 'Make a dashboard'],
  ['backfill csv', 'Load old data'],
  ['rotate secret', 'Protect a webhook'],
  ['createDeletionJob', 'Delete a record'],
  ['why was my event rejected', 'Find rejected events'],
  ['backup', 'Run it in production'],
  ['getting started', 'Getting started'],
  ['quickstart', 'Getting started'],
  ['sql last week', 'Ask with SQL'],
  ['correct a record', 'Update a record'],
]

let browser: Browser
let server: Server
let base: string
beforeAll(async () => {
  browser = await startBrowser()
  server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://site').pathname
    const file = join(SITE, path.slice(PATH.length))
    if (!path.startsWith(PATH) || !existsSync(file)) return void response.writeHead(404).end()
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
    response.end(readFileSync(file))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`
})
afterAll(async () => {
  server.close()
  await browser.close()
})

describe.skipIf(!existsSync(SITE))('the site', () => {
  test.each(TASKS)('the search for "%s" leads to "%s"', async (query, title) => {
    const { page, wrong } = await openPage(browser)
    await page.goto(`${base}http.html`)
    await page.keyboard.press('/')
    await page.getByRole('combobox').fill(query)
    await page.getByRole('option').first().waitFor()
    const found = await page.getByRole('option').allInnerTexts()
    expect([query, found.slice(0, 3).some(text => text.includes(title))]).toEqual([query, true])
    await page.keyboard.press('Enter')
    await page.waitForURL(url => !url.pathname.endsWith('/http.html'))
    expect(wrong).toEqual([])
  })

  test('the search works on a page that was opened as a file', async () => {
    const { page, wrong } = await openPage(browser)
    await page.goto(pathToFileURL(join(SITE, 'how-to/README.html')).href)
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('combobox').fill('openapi')
    await page.getByRole('option').first().click()
    await page.locator('h1').waitFor()
    expect(page.url()).toMatch(/^file:.*\.html/)
    expect(wrong).toEqual([])
  })

  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 360],
    ['dark', 360],
  ] as const)(
    'in %s at %i pixels it has no serious fault, and nothing sticks out',
    async (colorScheme, width) => {
      const { page, wrong } = await openPage(browser, { colorScheme, viewport: { width, height: 800 } })
      for (const path of ['index.html', TABLES_AND_CODE, 'contract.html', 'src/util/limits.ts.html']) {
        await page.goto(base + path)
        const overhang = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect([path, overhang]).toEqual([path, 0])
        await page.evaluate(axe.source)
        const serious = (await page.evaluate(
          `axe.run().then(({ violations }) => violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => id + ': ' + nodes[0].html))`,
        )) as string[]
        expect([path, serious]).toEqual([path, []])
      }
      expect(wrong).toEqual([])
    },
  )

  test('the theme that was chosen stays on the next page', async () => {
    const { page } = await openPage(browser, { colorScheme: 'light' })
    await page.goto(base + TABLES_AND_CODE)
    await page.getByRole('button', { name: 'Dark' }).click()
    await page.locator('article').getByRole('link', { name: 'senders' }).click()
    await page.getByRole('button', { name: 'Light' }).waitFor()
    expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
  })

  test('on a narrow screen the list of pages opens and leads on', async () => {
    const { page } = await openPage(browser, { viewport: { width: 360, height: 800 } })
    await page.goto(base + TABLES_AND_CODE)
    expect(await page.getByRole('navigation', { name: 'Pages', exact: true }).isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Pages' }).click()
    await page.getByRole('link', { name: 'Load old data' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Load old data' }).waitFor()
  })
})
