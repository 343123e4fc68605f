/** Who sees what in the console: sign-in, sign-out, scopes, and links that lead elsewhere. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { adminOf, type Credentials, type TestServer } from '../util/server.ts'
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

async function makeApplication(to: TestServer, uniqueName: string, scope: string): Promise<Credentials> {
  const { data } = await to.graphql<{
    readonly createApplication: {
      readonly application: { readonly clientId: string; readonly secret: string }
    }
  }>(`mutation { createApplication(input: { uniqueName: "${uniqueName}", scopes: [${scope}] }) {
        ... on ApplicationResponse { application { clientId secret } } } }`)
  const { clientId, secret } = data.createApplication.application
  return { clientId, clientSecret: secret }
}

/** Lets the page forget its token by a refused request. */
async function refuseToken(page: Page, { base }: TestServer): Promise<void> {
  await page.route(`${base}/graphql`, route => route.fulfill({ status: 401, body: '{}' }), { times: 1 })
}

async function endSession(page: Page, server: TestServer): Promise<void> {
  await refuseToken(page, server)
  await page.context().clearCookies()
}

function focusedLabel(page: Page): Promise<string> {
  return page.evaluate<string>('document.activeElement.labels?.[0]?.textContent ?? ""')
}

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

test('a session that ends keeps what was typed, and the sign-in goes on with it', async () => {
  const { page } = await openSignedIn(browser, server, '/new-source')
  await page.getByRole('tab', { name: 'Empty' }).click()
  await page.getByLabel('Name of column').fill('a')
  await page.getByLabel('Property of column').fill('a')
  await page.getByLabel('Name', { exact: true }).fill('kept-draft')
  await endSession(page, server)
  await page.getByRole('button', { name: 'Create source' }).click()
  const dialog = page.getByRole('dialog', { name: 'The session ended' })
  await dialog.waitFor()
  expect(await page.getByRole('heading', { name: 'New source' }).isVisible()).toBe(false)
  expect(await focusedLabel(page)).toBe('Secret')
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  expect(await dialog.isVisible()).toBe(true)
  await dialog.getByLabel('Secret').fill(adminOf(server.dataDir).clientSecret)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'kept-draft' }).waitFor()
})

test('another application that signs in after the end does not go on with the page', async () => {
  const { page } = await openSignedIn(browser, server, '/new-source')
  await page.getByLabel('Sample events').fill('{"draft": 1}')
  await endSession(page, server)
  await page.getByRole('button', { name: 'Propose columns' }).click()
  const dialog = page.getByRole('dialog', { name: 'The session ended' })
  await dialog.waitFor()
  const asked: string[] = []
  page.on('request', request => asked.push(request.postData() ?? ''))
  const other = await makeApplication(server, 'other', 'ADMIN')
  await dialog.getByLabel('Application id').fill(other.clientId)
  await dialog.getByLabel('Secret').fill(other.clientSecret)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'New source' }).waitFor()
  expect(await page.getByLabel('Sample events').inputValue()).toBe('')
  expect(asked.filter(body => body.includes('inferColumns'))).toEqual([])
})

test('another application that signed in with this browser sends nothing of the page', async () => {
  const { page } = await openSignedIn(browser, server, '/new-source')
  await page.getByLabel('Sample events').fill('{"draft": 1}')
  const { clientId, clientSecret } = await makeApplication(server, 'planted', 'ADMIN')
  const planted = await page.context().request.post(`${server.base}/session`, {
    data: { clientId, clientSecret },
    headers: { origin: server.base },
  })
  expect(planted.status()).toBe(200)
  await refuseToken(page, server)
  const asked: string[] = []
  page.on('request', request => asked.push(request.postData() ?? ''))
  await page.getByRole('button', { name: 'Propose columns' }).click()
  await page.getByText('planted', { exact: true }).waitFor()
  // The one that was refused.
  expect(asked.filter(body => body.includes('inferColumns'))).toHaveLength(1)
})

test('a sign-in in one tab goes on in the others', async () => {
  const { page } = await openSignedIn(browser, server, '/new-source')
  await page.getByLabel('Sample events').fill('{"kept": 1}')
  const second = await page.context().newPage()
  await second.goto(`${server.base}/sources`)
  await second.getByRole('link', { name: 'orders', exact: true }).waitFor()
  await endSession(page, server)
  await page.getByRole('button', { name: 'Propose columns' }).click()
  await page.getByRole('dialog', { name: 'The session ended' }).waitFor()
  await refuseToken(second, server)
  const again = second.getByRole('dialog', { name: 'The session ended' })
  await again.getByLabel('Secret').fill(adminOf(server.dataDir).clientSecret)
  await again.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('Read 1 event').waitFor()
  expect(await page.getByLabel('Sample events').inputValue()).toBe('{"kept": 1}')
})

test('a sign-out in one tab is one in all', async () => {
  const { page } = await openSignedIn(browser, server, '/sources')
  const second = await page.context().newPage()
  await second.goto(`${server.base}/events/orders`)
  await second.locator('.grid-row').first().waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await second.getByLabel('Application id').waitFor()
  expect(await second.content()).not.toContain('ord_')
})

test.each([
  '//evil.example/',
  '/\\evil.example',
  'https://evil.example/',
  'javascript:alert(1)',
  '/sign-in?to=/sign-in',
  '/.//evil.example',
  '/%2e//evil.example',
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
  const { page } = await openPage(browser)
  await page.goto(server.base)
  await signIn(page, await makeApplication(server, 'reader', 'DATA_POOL_QUERY'))
  await page.getByRole('heading', { name: 'Events' }).waitFor()
  expect(await page.getByRole('navigation').getByRole('link').allInnerTexts()).toEqual(['Events', 'Rejected'])
  await page.goto(`${server.base}/sources`)
  await page.getByText('has no scope for this page').waitFor()
  await page.goto(`${server.base}/events/orders`)
  await page.locator('.grid-row').first().click()
  await page.getByRole('dialog').getByText('"SKU-0"').waitFor()
  expect(await page.getByRole('button', { name: 'Add as column' }).count()).toBe(0)
})

test('nothing of the browser’s storage holds a secret', async () => {
  const { page } = await openSignedIn(browser, server, '/')
  await page.getByRole('button', { name: /^Theme/ }).click()
  const stored = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  expect(stored).toBe('[{"weir-theme":"light"},{},""]')
})
