/**
 * `console`, walks: clicks and seconds from a start to one's own event on the page, and from "where
 * is my event" to stored. The seconds are those of the pages and the server: a person reads and
 * types besides.
 */
import { spawnSync } from 'node:child_process'
import type { Browser, Locator, Page } from 'playwright-core'
import { openPage } from '../test/browser/browser.ts'
import { send } from '../test/util/server.ts'
import { print, row } from './measure.ts'
import { startWeir } from './weir.ts'

const SAMPLE = { id: 'evt_1', created_at: '2026-11-26T08:00:00Z', price: 12.5, country: 'DE' }

/** What a person does, counted. */
class Hand {
  clicks = 0
  fields = 0
  readonly #beganMs: number

  constructor(beganMs: number) {
    this.#beganMs = beganMs
  }

  async click(what: Locator): Promise<void> {
    this.clicks += 1
    await what.click()
  }

  async fill(field: Locator, text: string): Promise<void> {
    this.fields += 1
    await field.fill(text)
  }

  async choose(field: Locator, value: string): Promise<void> {
    this.clicks += 1
    await field.selectOption(value)
  }

  report(name: string): void {
    const seconds = (performance.now() - this.#beganMs) / 1000
    print(row(name, `${this.clicks} clicks, ${this.fields} fields, ${seconds.toFixed(1)} s`))
  }
}

/** Walks both ways on a server of its own. Set-up was done before. */
export async function walks(browser: Browser): Promise<void> {
  const beganMs = performance.now()
  const server = await startWeir()
  try {
    const { page } = await openPage(browser)
    const link = /(http\S+#code=\S+) /.exec(server.output())?.[1]
    if (link === undefined) throw new Error(`the first start printed no link:\n${server.output()}`)
    const url = await firstEvent(page, link, new Hand(beganMs))
    await whereIsMyEvent(page, url)
    await page.context().close()
  } finally {
    await server.stop()
  }
}

async function firstEvent(page: Page, link: string, hand: Hand): Promise<string> {
  hand.clicks += 1 // the link in the terminal
  await page.goto(link)
  await hand.click(page.getByRole('link', { name: 'New source' }))
  await hand.fill(page.getByLabel('Sample events'), JSON.stringify(SAMPLE))
  await hand.click(page.getByRole('button', { name: 'Propose columns' }))
  await hand.fill(page.getByLabel('Name', { exact: true }), 'walk')
  await hand.click(page.getByRole('button', { name: 'Create source' }))
  await page.getByText('Waiting for an event').waitFor()
  hand.clicks += 1 // Copy, then a paste into the terminal
  const snippet = await page.locator('figure', { hasText: 'Copy curl' }).locator('pre').textContent()
  const posted = spawnSync('bash', ['-c', snippet ?? 'false'])
  if (posted.status !== 0) throw new Error(`the snippet failed: ${posted.stderr}`)
  await page.getByText('It works').waitFor()
  hand.report('walk: first start → own event on the page')
  return (await page.locator('figure', { hasText: 'URL' }).locator('pre').first().textContent()) ?? ''
}

async function whereIsMyEvent(page: Page, url: string): Promise<void> {
  await send(url, { ...SAMPLE, id: 'evt_2', price: '12.5' })
  const hand = new Hand(performance.now())
  await hand.click(page.getByRole('navigation').getByRole('link', { name: 'Rejected' }))
  await hand.click(page.getByRole('link', { name: 'wrong_type' }))
  await page.locator('.marked', { hasText: '"12.5"' }).waitFor()
  hand.report('walk: “where is my event” → why')
  await hand.click(page.getByRole('button', { name: 'Take in again' }))
  const dialog = page.getByRole('dialog')
  await hand.choose(dialog.getByLabel('Where'), 'coerce')
  await hand.click(dialog.getByRole('button', { name: 'Take in again' }))
  await dialog.getByText('1 accepted, 0 refused again').waitFor()
  await hand.click(dialog.getByRole('link', { name: 'See the events' }))
  await page.locator('.grid-row').first().waitFor()
  hand.report('walk: … → stored, and seen')
}
