/** The main job of each page, as a person does it, in a real browser against a real server. */
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, type TestServer } from '../util/server.ts'
import { openSignedIn, order, serverWithOrders, startBrowser } from './browser.ts'

let browser: Browser
let server: TestServer
let url: string
beforeAll(async () => {
  browser = await startBrowser()
  const made = await serverWithOrders()
  server = made.server
  url = made.url
})
afterAll(async () => {
  await browser.close()
  await server.stop()
})

async function at(path: string, doIt: (page: Page) => Promise<void>): Promise<void> {
  const { page, wrong } = await openSignedIn(browser, server, path)
  await doIt(page)
  expect(wrong).toEqual([])
  await page.context().close()
}

const rows = (page: Page) => page.locator('.grid-row')

/** As a field for a time takes it, in the zone of the tests' browser. */
function berlin(ms: number): string {
  return new Date(ms).toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' }).replace(' ', 'T')
}

async function sendText(to: string, body: string): Promise<void> {
  const answer = await fetch(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  expect(answer.status).toBe(200)
}

async function acceptOf(name: string): Promise<readonly string[]> {
  const { data } = await server.graphql<{
    readonly dataSourceByName: { readonly connectionSettings: { readonly accept: readonly string[] } }
  }>(
    `{ dataSourceByName(uniqueName: "${name}") { connectionSettings { ... on WebhookConnectionSettings { accept } } } }`,
  )
  return data.dataSourceByName.connectionSettings.accept
}

test('Overview: all is well, and what comes in', () =>
  at('/', async page => {
    await page.getByText('Ready', { exact: true }).waitFor()
    await page
      .getByRole('region', { name: 'Busiest sources' })
      .getByRole('link', { name: 'orders' })
      .waitFor()
    const accepted = page
      .locator('.tiles > div', { has: page.getByText('Accepted', { exact: true }) })
      .locator('dd')
    const before = await accepted.innerText()
    await send(url, order(2_000))
    await expect.poll(() => accepted.innerText()).not.toBe(before)
    await page
      .getByRole('region', { name: 'Busiest sources' })
      .getByRole('link', { name: '1', exact: true })
      .click()
    await page.getByRole('heading', { name: 'Rejected events of orders' }).waitFor()
  }))

test('New source: from a sample to the first event, then an event that it refuses', () =>
  at('/sources', async page => {
    await page.getByRole('link', { name: 'New source' }).click()
    const sample = { id: 'sig_1', at: '2026-11-26T08:00:00Z', amount: 3.5 }
    await page.getByLabel('Sample events').fill(JSON.stringify(sample))
    await page.getByRole('tab', { name: 'Empty' }).click()
    await page.getByRole('tab', { name: 'From a sample event' }).click()
    await page.getByRole('button', { name: 'Propose columns' }).click()
    await page.getByLabel('Name of column amount').fill('total')
    await page.getByLabel('Name', { exact: true }).fill('signals')
    await page.getByRole('button', { name: 'Create source' }).click()
    await page.getByRole('heading', { name: 'signals' }).waitFor()
    const webhook = await page.locator('figure', { hasText: 'URL' }).locator('pre').first().innerText()
    expect(await page.locator('figure', { hasText: 'Copy curl' }).locator('pre').innerText()).toContain(
      webhook,
    )
    await page.getByText('Waiting for an event').waitFor()
    expect((await send(webhook, sample)).status).toBe(200)
    await page.getByText('It works').waitFor()
    await page.getByText('"sig_1"').waitFor()
    await send(webhook, { ...sample, amount: 'three' })
    await page.getByText('An event was refused meanwhile').waitFor()
  }))

test('New source: a name that is taken keeps what was typed', () =>
  at('/new-source', async page => {
    await page.getByRole('tab', { name: 'Empty' }).click()
    await page.getByLabel('Name of column').fill('a')
    await page.getByLabel('Property of column').fill('a')
    await page.getByLabel('Name', { exact: true }).fill('orders')
    await page.getByRole('button', { name: 'Create source' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').innerText()).toContain('orders')
    expect(await page.getByLabel('Property of column a').inputValue()).toBe('a')
    await page.getByLabel('Name', { exact: true }).fill('empty-one')
    await page.getByRole('button', { name: 'Create source' }).click()
    await page.getByRole('heading', { name: 'empty-one' }).waitFor()
  }))

test('New source: a known sender, with its secret and what to enter there', () =>
  at('/new-source', async page => {
    await page.getByRole('tab', { name: 'A known sender' }).click()
    await page.getByLabel('Sender', { exact: true }).selectOption('STRIPE')
    await page.getByLabel('Name', { exact: true }).fill('stripe-events')
    await page.getByLabel('Secret that Stripe shows').fill('whsec_0123456789abcdef0123456789abcdef')
    await page.getByRole('button', { name: 'Create source' }).click()
    await page.getByRole('heading', { name: 'At Stripe' }).waitFor()
    expect(await page.content()).not.toContain('whsec_0123456789abcdef')
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('whsec_0123456789abcdef0123456789abcdef').waitFor()
  }))

test('Source: settings are kept, a column is added, and a delete needs its name', () =>
  at('/sources', async page => {
    await server.createPool({ uniqueName: 'short', columns: [] })
    await page.getByLabel('Search').fill('short')
    await page.getByRole('link', { name: 'short', exact: true }).click()
    await page.getByRole('tab', { name: 'Settings' }).click()
    await page.getByLabel('Description').fill('for a while')
    await page.getByLabel('Days that records are kept').fill('30')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove records older than 30 days' }).click()
    await page.getByText('Saved.').waitFor()
    await page.reload()
    await expect.poll(() => page.getByLabel('Description').inputValue()).toBe('for a while')
    expect(await page.getByLabel('Days that records are kept').inputValue()).toBe('30')
    await page.getByRole('tab', { name: 'Columns' }).click()
    await page.getByRole('button', { name: 'Add a column' }).click()
    await page.getByLabel('Property of the event').fill('user.name')
    await page.getByLabel('Column', { exact: true }).fill('user_name')
    await page.getByRole('button', { name: 'Add column' }).click()
    await page.getByText('The column user_name is there.').waitFor()
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('rowheader', { name: 'user_name' }).waitFor()
    await page.getByRole('tab', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Delete this source' }).click()
    const remove = page.getByRole('dialog').getByRole('button', { name: 'Delete' })
    expect(await remove.isDisabled()).toBe(true)
    await page.getByLabel('Type short to confirm').fill('short')
    await remove.click()
    await page.getByRole('heading', { name: 'Sources' }).waitFor()
    await expect.poll(() => page.getByRole('link', { name: 'short', exact: true }).count()).toBe(0)
  }))

test('Events: filters, sort and columns stand in the address, and a row opens with the keyboard', () =>
  at('/events/orders', async page => {
    await rows(page).first().waitFor()
    await page.getByLabel('Column', { exact: true }).selectOption('country')
    await page.getByLabel('Value').fill('FR')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.getByText('100 events').waitFor()
    await page.getByRole('columnheader', { name: 'price' }).getByRole('button').click()
    await expect.poll(() => rows(page).first().innerText()).toContain('74.5')
    await page.goto(page.url())
    await page.getByText('100 events').waitFor()
    await expect.poll(() => rows(page).first().innerText()).toContain('74.5')
    await page.getByRole('grid').focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('ord_295').first().waitFor()
    await page.keyboard.press('Escape')
    await expect.poll(() => dialog.count()).toBe(0)
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download' }).click()
    expect((await saved).suggestedFilename()).toBe('orders.csv')
  }))

test('Events: from and until bound the grid and the download alike', () =>
  at('/events/orders', async page => {
    await rows(page).first().waitFor()
    await page.getByLabel('Time range').selectOption('custom')
    // order(10) to order(19) were created 10 to 19 minutes ago; the page is in Berlin.
    await page.getByLabel('From').fill(berlin(Date.now() - 19.5 * 60_000))
    await page.getByLabel('Until').fill(berlin(Date.now() - 9.5 * 60_000))
    await page.getByLabel('Until').press('Enter')
    await page.getByText('10 events').waitFor()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download' }).click()
    const lines = readFileSync(await (await saved).path(), 'utf8')
      .trim()
      .split('\n')
    expect(lines).toHaveLength(11)
    await page.reload()
    await page.getByText('10 events').waitFor()
    expect(await page.getByLabel('From').inputValue()).toMatch(/^\d{4}-\d\d-\d\dT/)
  }))

test('Events: names with commas, and numbers above 2^53, are shown as they are', () =>
  at('/', async page => {
    const column = (name: string) => ({ name, jsonProperty: name, type: 'STRING', nullable: true })
    const { url } = await server.createPool({
      uniqueName: 'odd',
      columns: [column('a, b'), column('[c'), column('d')],
    })
    await sendText(url, '{"a, b": "first", "[c": "second", "d": "third", "n": 9007199254740993, "e": 1e300}')
    await page.goto(`${server.base}/events/odd`)
    await rows(page).getByText('first', { exact: true }).waitFor()
    await page.getByText('Columns (').click()
    await page.getByRole('checkbox', { name: 'd', exact: true }).uncheck()
    await expect.poll(() => rows(page).getByText('third', { exact: true }).count()).toBe(0)
    await page.reload()
    await rows(page).getByText('second', { exact: true }).waitFor()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download' }).click()
    expect(readFileSync(await (await saved).path(), 'utf8')).toContain('"a, b"')
    await rows(page).first().click()
    await page.getByRole('dialog').getByText('9007199254740993').waitFor()
    await page.getByRole('dialog').getByText('1e300').waitFor()
    await page.goto(`${server.base}/events/odd?tab=live`)
    await page.getByText('Connected').waitFor()
    await send(url, { 'a, b': 'live' })
    await rows(page).getByText('live', { exact: true }).waitFor()
  }))

test('Source: forms that are chosen one after the other are all kept', () =>
  at('/sources', async page => {
    await server.createPool({ uniqueName: 'forms', columns: [] })
    await page.getByLabel('Search').fill('forms')
    await page.getByRole('link', { name: 'forms', exact: true }).click()
    await page.getByRole('tab', { name: 'Settings' }).click()
    for (const name of [/^Forms/, /^PUT/, /^Pages/]) await page.getByRole('checkbox', { name }).check()
    await expect.poll(async () => (await acceptOf('forms')).toSorted()).toEqual(['BROWSER', 'FORM', 'PUT'])
    const schemes = await page.getByLabel('Scheme').locator('option').allInnerTexts()
    expect(schemes).toContain('STANDARD_WEBHOOKS')
    expect(schemes).not.toContain('GENERIC_HMAC')
  }))

test('a dialog gives the keyboard back, and a new page begins at its begin', () =>
  at('/sources', async page => {
    const focused = () => page.evaluate<string>('document.activeElement.textContent.slice(0, 20)')
    await page.getByRole('link', { name: 'orders', exact: true }).click()
    await page.getByRole('heading', { name: 'orders' }).waitFor()
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('main')
    await page.getByRole('tab', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Delete this source' }).click()
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await expect.poll(focused).toBe('Delete this source')
    await page.getByRole('tab', { name: 'Columns' }).click()
    await page.getByRole('button', { name: 'Add a column' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await expect.poll(focused).toBe('Add a column')
  }))

test('Events: live, with a pause', () =>
  at('/events/orders?tab=live', async page => {
    await page.getByText('Connected').waitFor()
    await send(url, { ...order(0), id: 'live-1' })
    await rows(page).getByText('live-1').first().waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await send(url, { ...order(0), id: 'live-2' })
    await page.getByText('1 event came meanwhile').waitFor()
    expect(await rows(page).getByText('live-2', { exact: true }).count()).toBe(0)
    await page.getByRole('button', { name: 'Go on' }).click()
    await rows(page).getByText('live-2', { exact: true }).waitFor()
  }))

test('Rejected: from "where is my event" to stored', () =>
  at('/', async page => {
    await page.getByRole('navigation').getByRole('link', { name: 'Rejected' }).click()
    await page
      .getByRole('row', { name: /wrong_type.*orders/ })
      .getByRole('link', { name: 'wrong_type' })
      .click()
    await page.locator('.marked', { hasText: '"12.5"' }).waitFor()
    await page.getByRole('button', { name: 'Take in again' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Where').selectOption('coerce')
    await dialog.getByLabel('Name of the new source').fill('orders-2')
    await dialog.getByRole('button', { name: 'Take in again' }).click()
    await dialog.getByText('1 accepted, 0 refused again').waitFor()
    await dialog.getByRole('link', { name: 'See the events' }).click()
    await rows(page).getByText('ord_1000').first().waitFor()
    await expect.poll(() => rows(page).count()).toBe(1)
  }))
