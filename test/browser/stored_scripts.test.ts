/** What senders wrote is shown as text: a stored script runs nowhere. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, startServer, type TestServer } from '../util/server.ts'
import { openSignedIn, startBrowser } from './browser.ts'

const SCRIPTS = [
  '<img src=x onerror="window.ran=1">',
  '<script>window.ran=1</script>',
  '"><svg onload=window.ran=1>',
  'javascript:window.ran=1',
  '{{constructor.constructor("window.ran=1")()}}',
  '<iframe srcdoc="<script>parent.ran=1</script>">',
  '</pre><details open ontoggle=window.ran=1>',
  '<a href="javascript:window.ran=1" autofocus onfocus=window.ran=1>',
  '<style>*{background:url(http://evil.example)}</style>',
]

let browser: Browser
let server: TestServer
beforeAll(async () => {
  browser = await startBrowser()
  server = await startServer()
})
afterAll(async () => {
  await browser.close()
  await server.stop()
})

test.each(SCRIPTS)('%s', async script => {
  const name = `pool ${script}`
  const { url } = await server.createPool({
    uniqueName: name,
    columns: [
      { name: 'a', jsonProperty: script, type: 'STRING', nullable: true },
      { name: 'n', jsonProperty: 'n', type: 'DOUBLE', nullable: true },
    ],
  })
  const event = { [script]: script, n: 1, list: [script, { [script]: script }], ['__proto__']: script }
  expect((await send(url, event)).status).toBe(200)
  await send(url, { ...event, n: script })
  await send(url, `${script} is no JSON`)
  await fetch(`${url}?${encodeURIComponent(script)}=1`, {
    method: 'POST',
    headers: { 'content-type': script.replaceAll(/[^\x20-\x7e]/g, '') },
    body: script,
  })
  const { page, wrong } = await openSignedIn(browser, server, '/')
  const pool = encodeURIComponent(name)
  await page.getByText(name).first().waitFor()
  await page.goto(`${server.base}/sources`)
  await page.getByRole('link', { name }).first().click()
  await page.getByText('Waiting for an event').waitFor()
  await send(url, event)
  await page.getByText('It works').waitFor()
  for (const language of ['JavaScript', 'Python', 'Terraform'])
    await page.getByRole('tab', { name: language }).click()
  for (const tab of ['Columns', 'Activity', 'Settings']) await page.getByRole('tab', { name: tab }).click()
  await page.goto(`${server.base}/events/${pool}`)
  await page.locator('.grid-row').first().click()
  await page.getByRole('dialog').waitFor()
  await page.evaluate('document.querySelectorAll("details").forEach(part => { part.open = true })')
  await page.goto(
    `${server.base}/events/${pool}?search=${encodeURIComponent(script)}&filters=${encodeURIComponent(JSON.stringify([{ column: script, operator: 'EQUALS', value: script }]))}`,
  )
  await page.getByRole('alert').waitFor()
  await page.goto(`${server.base}/rejected/${pool}`)
  await page.getByText('By reason').waitFor()
  for (const link of await page.getByRole('region', { name: 'Reasons' }).getByRole('link').all()) {
    await link.click()
    await page
      .locator('.events > li')
      .first()
      .waitFor()
      .catch(async error => {
        throw new Error(`${error}\n${page.url()}\n${await page.locator('main').innerText()}`)
      })
  }
  await page.getByRole('button', { name: 'Take in again' }).first().click()
  await page.getByRole('dialog').waitFor()
  expect(await page.evaluate('window.ran')).toBe(undefined)
  expect(await page.locator('#app script, #app iframe, #app style, #app img, #app svg').count()).toBe(0)
  expect(wrong).toEqual([])
  await page.context().close()
})
