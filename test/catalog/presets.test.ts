/**
 * The presets: the catalog accepts their columns and keys, and each stores the requests that its
 * sender publishes, under a key that a retry brings again.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { checkPool } from '../../src/catalog/change/rules.ts'
import type { PoolInput } from '../../src/catalog/documents/catalog-types.ts'
import type { Preset, PresetColumn } from '../../src/catalog/presets/preset.ts'
import { PRESET_NAMES, PRESETS, type PresetName, presetSteps } from '../../src/catalog/presets.ts'
import { isStored, type Request, storeRow, valueAt } from '../parse/infer/stored.ts'
import { EXAMPLES, type Example } from './preset-examples.ts'

/** The pool of a source with this preset, as the API would create it. */
function poolOf({ columns, timestamp, uniqueId, orderBy, eventsPath }: Preset): PoolInput {
  return {
    columns,
    timestamp,
    uniqueId,
    eventsPath,
    ...(orderBy === null ? {} : { tableSettings: { orderBy } }),
  }
}

/** The key's columns; none where every event is a record of its own. */
function keyOf({ timestamp, uniqueId, orderBy }: Preset): readonly string[] {
  if (orderBy !== null) return orderBy
  return uniqueId === null ? [] : [timestamp ?? '_service_received_at', uniqueId]
}

/** Columns as the schema of the pool has them: key, time and id are required. */
function columnsOf(preset: Preset): readonly PresetColumn[] {
  const names = new Set([...keyOf(preset), preset.timestamp, preset.uniqueId])
  return preset.columns.map(column => (names.has(column.name) ? { ...column, nullable: false } : column))
}

/** The events of an example: what stands at eventsPath, and the elements of an array. */
function eventsOf({ eventsPath }: Preset, { headers, body }: Example): readonly Request[] {
  const events = eventsPath === null ? body : valueAt(eventsPath, { event: body })
  return (Array.isArray(events) ? events : [events]).map(event => ({ event, headers }))
}

function keyValues(preset: Preset, request: Request): string {
  const byName = new Map(preset.columns.map(column => [column.name, column]))
  return JSON.stringify(keyOf(preset).map(name => valueAt(byName.get(name)!.jsonProperty, request)))
}

describe.each(PRESET_NAMES)('%s', name => {
  const preset: Preset = PRESETS[name]
  const examples = EXAMPLES[name]

  test('the catalog accepts its columns and its key', () => {
    const checked = checkPool(poolOf(preset))
    expect(checked).not.toHaveProperty('badRequest')
  })

  test('every published event fills every column that is not nullable', () => {
    const columns = columnsOf(preset)
    let events = 0
    for (const example of examples)
      for (const request of eventsOf(preset, example)) {
        const row = storeRow(columns, request)
        expect(isStored(row, columns), String(row)).toBe(true)
        events++
      }
    expect(events).toBeGreaterThan(0)
  })

  test('every column of the key, and every other one that is not nullable, is read', () => {
    for (const column of columnsOf(preset).filter(each => !each.nullable)) {
      for (const example of examples)
        for (const { event, headers } of eventsOf(preset, example)) {
          const rest = Object.entries(headers ?? {}).filter(
            ([key]) => `$header.${key}` !== column.jsonProperty,
          )
          const without = without1(event, column.jsonProperty)
          const row = storeRow(columnsOf(preset), { event: without, headers: Object.fromEntries(rest) })
          expect(isStored(row, preset.columns), column.name).toBe(false)
        }
    }
  })

  test('events differ in the key, and a retry does not', () => {
    if (keyOf(preset).length === 0) return
    expect(keyOf(preset)).not.toContain('_service_received_at')
    const seen = new Set<string>()
    for (const example of examples) {
      const { headers, body, retry } = example
      const first = eventsOf(preset, example)
      for (const request of first) {
        expect(seen).not.toContain(keyValues(preset, request))
        seen.add(keyValues(preset, request))
      }
      const changed = Array.isArray(body)
        ? body.map(event => ({ ...event, ...retry?.body }))
        : { ...(body as object), ...retry?.body }
      const again = eventsOf(preset, { headers: { ...headers, ...retry?.headers }, body: changed })
      expect(again.map(request => keyValues(preset, request))).toEqual(
        first.map(request => keyValues(preset, request)),
      )
    }
  })

  test('a header is part of the key only where a request holds one event', () => {
    const byName = new Map(preset.columns.map(column => [column.name, column]))
    const hasHeader = keyOf(preset).some(key => byName.get(key)?.jsonProperty.startsWith('$header.'))
    const hasSeveral = preset.eventsPath !== null || examples.some(({ body }) => Array.isArray(body))
    expect(hasHeader && hasSeveral).toBe(false)
  })

  test('its properties are forms that Weir reads', () => {
    for (const { jsonProperty } of preset.columns)
      expect(jsonProperty).toMatch(
        /^(\$header\.[a-z][a-z0-9-]*|(\$\.)?[A-Za-z][\w-]*(\[0\])?(\.[A-Za-z][\w-]*(\[0\])?)*)$/,
      )
  })

  test('its signature is complete', () => {
    const { signature, secret } = preset
    expect(signature === null).toBe(secret === null)
    if (signature === null) return
    expect(signature.scheme === 'GENERIC_HMAC').toBe(signature.generic !== null)
    if (signature.generic === null) return
    const { header, signed, timestampHeader } = signature.generic
    expect(header).toMatch(/^[a-z][a-z0-9-]+$/)
    expect(signed).toContain('{body}')
    expect(signed.includes('{timestamp}')).toBe(timestampHeader !== null)
  })

  test('its steps name the URL, and the secret where the operator makes it', () => {
    const text = preset.steps.join('\n')
    expect(text).toContain('{url}')
    expect(text.includes('{secret}')).toBe(preset.secret === 'OWN')
    const shown = presetSteps(preset, 'https://weir.example/v1/WH1', '$& {url}').join('\n')
    expect(shown).toContain('https://weir.example/v1/WH1')
    if (preset.secret === 'OWN') expect(shown).toContain('$& {url}')
    else expect(shown).not.toMatch(/\{(url|secret)\}/)
    expect(preset.title).not.toBe('')
    expect(preset.delivery).toMatch(/^[A-Z].*\.$/)
  })
})

/** The event without the property at the end of a path. */
function without1(event: unknown, jsonProperty: string): unknown {
  const copy = structuredClone(event)
  let inside = copy as Record<string, unknown>
  const steps = jsonProperty.split('.')
  for (const step of steps.slice(0, -1)) {
    if (typeof inside !== 'object' || inside === null) return copy
    inside = inside[step] as Record<string, unknown>
  }
  if (typeof inside === 'object' && inside !== null) delete inside[steps.at(-1)!]
  return copy
}

interface GithubEvent {
  readonly name: string
  readonly examples: readonly object[]
}

test('GITHUB stores every example that GitHub publishes', () => {
  const module = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
    readonly default?: readonly GithubEvent[]
  } & readonly GithubEvent[]
  const columns = columnsOf(PRESETS.GITHUB)
  let stored = 0
  for (const { name, examples } of module.default ?? module)
    for (const event of examples) {
      const headers = { 'x-github-delivery': `d-${stored}`, 'x-github-event': name }
      const row = storeRow(columns, { event, headers })
      expect(isStored(row, columns), `${name}: ${row}`).toBe(true)
      stored++
    }
  expect(stored).toBeGreaterThan(300)
})

test('the senders of the issue have a preset', () => {
  const senders =
    'TWILIO SENDGRID MAILGUN SEGMENT INTERCOM TYPEFORM CALENDLY HUBSPOT PAYPAL PAGERDUTY SENTRY DATADOG JIRA LINEAR ' +
    'NOTION VERCEL CLERK OPENAI GITHUB STRIPE SHOPIFY SLACK GITLAB ZOOM META PADDLE DISCORD TWITCH STANDARD_WEBHOOKS SVIX'
  expect(PRESET_NAMES).toEqual(expect.arrayContaining(senders.split(' ')))
  expect(new Set(PRESET_NAMES.map(name => PRESETS[name satisfies PresetName].title)).size).toBe(
    PRESET_NAMES.length,
  )
})

test('the page of senders has a row for every preset', () => {
  const page = readFileSync(new URL('../../../docs/senders.md', import.meta.url), 'utf8')
  const rows = page.split('\n').filter(line => line.startsWith('|') && line.split('|').length === 7)
  const named = new Set(rows.flatMap(row => [...row.matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name)))
  expect(PRESET_NAMES.filter(name => !named.has(name))).toEqual([])
  expect(rows.length).toBeGreaterThan(25)
})
