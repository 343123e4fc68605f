/** Who sees what in the console: sign-in, sign-out, scopes, and links that lead elsewhere. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { adminOf, type TestServer } from '../util/server.ts'
import { openPage, openSignedIn, serverWithOrders, signIn, startBrowser } from './browser.ts'

let browser: Browser
let server: TestServer
beforeAll(async () => {
  browser = await startBrowser()
  server = (await serverWithOrders()).server
})
afterAll(async () => {
  await browser.close()
  await server.stop()
})

test('a link to a page leads there after the sign-in, and a reload stays signed in', async () => {
  const { page, wrong } = await openSignedIn(browser, server, '/events/orders?range=7d')
  await page.getByRole('heading', { name: 'Events of orders' }).waitFor()
  expect(page.url()).toContain('/events/orders?range=7d')
  await page.reload()
  await page.getByRole('heading', { name: 'Events of orders' }).waitFor()
  expect(wrong).toEqual([])
})

test('a wrong secret says so, and keeps the id', async () => {
  const { page } = await openPage(browser)
  await page.goto(server.base)
  await page.getByLabel('Application id').fill(adminOf(server.dataDir).clientId)
  await page.getByLabel('Secret').fill('wrong'.repeat(8))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
  expect(await page.getByLabel('Application id').inputValue()).toBe(adminOf(server.dataDir).clientId)
})

test('after a sign-out neither the page nor the button back shows anything', async () => {
  const { page } = await openSignedIn(browser, server, '/sources')
  await page.getByRole('link', { name: 'orders', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Application id').waitFor()
  await page.goBack()
  expect(await page.content()).not.toContain('orders')
  await page.goto(`${server.base}/sources`)
  await page.getByLabel('Application id').waitFor()
})

test.each([
  '//evil.example/',
  '/\\evil.example',
  'https://evil.example/',
  'javascript:alert(1)',
  '/sign-in?to=/sign-in',
])('a sign-in with to=%s leads to the overview', async to => {
  const { page, wrong } = await openPage(browser)
  await page.goto(`${server.base}/sign-in?to=${encodeURIComponent(to)}`)
  await signIn(page, adminOf(server.dataDir))
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  expect(new URL(page.url()).origin).toBe(server.base)
  expect(wrong).toEqual([])
})

test('the link of the first start signs in once, and leaves no code behind', async () => {
  const link = /(http\S+#code=\S+) /.exec(server.output())![1]!
  const { page } = await openPage(browser)
  await page.goto(link)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  expect(page.url()).not.toContain('code')
  const other = await openPage(browser)
  await other.page.goto(link)
  await other.page.getByText('this link was used').waitFor()
})

test('an application sees the pages of its scopes alone', async () => {
  const { data } = await server.graphql<{
    readonly createApplication: {
      readonly application: { readonly clientId: string; readonly secret: string }
    }
  }>(`mutation { createApplication(input: { uniqueName: "reader", scopes: [DATA_POOL_QUERY] }) {
        ... on ApplicationResponse { application { clientId secret } } } }`)
  const { clientId, secret } = data.createApplication.application
  const { page } = await openPage(browser)
  await page.goto(server.base)
  await signIn(page, { clientId, clientSecret: secret })
  await page.getByRole('heading', { name: 'Events' }).waitFor()
  expect(await page.getByRole('navigation').getByRole('link').allInnerTexts()).toEqual(['Events', 'Rejected'])
  await page.goto(`${server.base}/sources`)
  await page.getByText('has no scope for this page').waitFor()
  await page.goto(`${server.base}/events/orders`)
  await page.locator('.grid-row').first().waitFor()
})

test('nothing of the browser’s storage holds a secret', async () => {
  const { page } = await openSignedIn(browser, server, '/')
  await page.getByRole('button', { name: /^Theme/ }).click()
  const stored = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  expect(stored).toBe('[{"weir-theme":"light"},{},""]')
})
