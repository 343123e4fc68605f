/**
 * A pool with the proposed columns accepts the samples: random events, and the requests that
 * vendors publish.
 */
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkPool } from '../../../src/catalog/change/rules.ts'
import { COLUMNS_PROPOSED_MAX, inferColumns, type Proposal } from '../../../src/parse/infer/infer.ts'
import { EXAMPLES } from '../../catalog/preset-examples.ts'
import { JsonMaker } from '../../fuzz/json.ts'
import { Random } from '../../fuzz/random.ts'
import { newSeed, TEST_RUNS } from '../../util/random.ts'
import { parseAll, readErrors, readOutcomes, schemaOf } from '../reading.ts'
import { propose } from './propose.ts'
import { isStored, storeRow } from './stored.ts'

/** The catalog accepts the proposal, and nothing in it is out of bounds. */
function expectValid({ columns, uniqueId, timestamp, orderBy, leftOut }: Proposal): void {
  const tableSettings = orderBy === null ? {} : { tableSettings: { orderBy } }
  const pool = { columns, uniqueId: uniqueId.column, timestamp: timestamp.column, ...tableSettings }
  expect(checkPool(pool)).not.toHaveProperty('badRequest')
  expect(columns.length).toBeLessThanOrEqual(COLUMNS_PROPOSED_MAX)
  expect(leftOut.length).toBeLessThanOrEqual(100)
  for (const { reason } of [...columns, uniqueId, timestamp, ...leftOut])
    expect(reason).toMatch(/^["A-Z].*\.$/s)
}

const IS_PATH = /^[^[\]$]*$/

/** The errors of the kernel for the bodies, by the columns whose values it finds by itself. */
function kernelErrors({ columns }: Proposal, bodies: readonly string[]): readonly string[] {
  const plain = columns.filter(({ jsonProperty, coerce }) => !coerce && IS_PATH.test(jsonProperty))
  const schema = schemaOf(plain.map(column => ({ ...column, required: !column.nullable })))
  const parsed = parseAll(
    schema,
    bodies.map(body => ({ body })),
  )
  expect(readOutcomes(parsed).map(({ document }) => document)).toEqual(bodies.map(() => 'ok'))
  return readErrors(parsed).map(error => `${error} ${plain[Number(error.split('@')[1])]?.jsonProperty}`)
}

test('random events are accepted by the columns that they give', () => {
  const seed = newSeed()
  const random = new Random(seed)
  const maker = new JsonMaker(random, 0)
  for (let run = 0; run < 60 * TEST_RUNS; run++) {
    const bodies = Array.from({ length: 1 + random.below(30) }, () => maker.object(0))
    const result = inferColumns(bodies.map(body => ({ body })))
    if ('problem' in result) throw new Error(`seed ${seed}: ${result.problem.message}`)
    expectValid(result)
    expect(kernelErrors(result, bodies), `seed ${seed}, run ${run}`).toEqual([])
    expect(inferColumns(bodies.map(body => ({ body })))).toEqual(result)
  }
})

test('any JSON objects and any headers give a valid proposal', () => {
  const header = fc.dictionary(fc.string(), fc.string())
  const sample = fc.record({
    body: fc
      .dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: false })
      .map(value => JSON.stringify(value)),
    headers: header,
  })
  fc.assert(
    fc.property(fc.array(sample, { minLength: 1, maxLength: 20 }), samples => {
      const result = inferColumns(samples)
      if ('problem' in result) return result.problem.code === 'unpaired_surrogate'
      expectValid(result)
      expect(
        kernelErrors(
          result,
          samples.map(({ body }) => body),
        ),
      ).toEqual([])
      return true
    }),
    { numRuns: 40 * TEST_RUNS },
  )
})

interface GithubEvent {
  readonly name: string
  readonly examples: readonly object[]
}

const module = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
  readonly default?: readonly GithubEvent[]
} & readonly GithubEvent[]
const GITHUB = module.default ?? module

describe('the examples of GitHub', () => {
  const withHeaders = ({ name, examples }: GithubEvent) =>
    examples.map((event, i) => ({
      body: JSON.stringify(event),
      headers: {
        'X-GitHub-Delivery': `${name}-${i}`,
        'X-GitHub-Event': name,
        'X-GitHub-Hook-ID': '292430182',
      },
    }))

  test('of each event', () => {
    for (const event of GITHUB) {
      const samples = withHeaders(event)
      const proposal = propose(...samples)
      expectValid(proposal)
      expect(
        kernelErrors(
          proposal,
          samples.map(({ body }) => body),
        ),
        event.name,
      ).toEqual([])
      expect(proposal.uniqueId.column).toBe('github_delivery')
    }
  })

  test('of all events together', () => {
    const samples = GITHUB.flatMap(withHeaders)
    const proposal = propose(...samples)
    expectValid(proposal)
    expect(
      kernelErrors(
        proposal,
        samples.map(({ body }) => body),
      ),
    ).toEqual([])
    const properties = proposal.columns.map(({ jsonProperty }) => jsonProperty)
    expect(properties).toEqual(
      expect.arrayContaining(['$header.x-github-event', 'action', 'sender.login', 'repository.full_name']),
    )
    expect(properties.filter(property => property.endsWith('_url'))).toEqual([])
  })
})

describe.each(Object.entries(EXAMPLES))('the examples of %s', (_name, examples) => {
  test('are accepted', () => {
    const samples = examples.map(({ body, headers }) => ({ body: JSON.stringify(body), headers }))
    const proposal = propose(...samples)
    expectValid(proposal)
    for (const { body, headers } of examples)
      for (const event of Array.isArray(body) ? body : [body]) {
        const row = storeRow(proposal.columns, { event, headers })
        expect(isStored(row, proposal.columns), String(row)).toBe(true)
      }
  })
})

describe('the keys of vendors are found', () => {
  const cases: readonly [name: keyof typeof EXAMPLES, uniqueId: string | null, timestamp: string | null][] = [
    ['STRIPE', 'id', 'created'],
    ['SHOPIFY', 'shopify_webhook_id', 'shopify_triggered_at'],
    ['SLACK', 'event_id', 'event_time'],
    ['GITLAB', 'idempotency_key', null],
    ['LINEAR', 'linear_delivery', 'createdAt'],
    ['SEGMENT', 'messageId', 'timestamp'],
    ['SENDGRID', 'sg_event_id', 'timestamp'],
    ['PADDLE', 'event_id', 'occurred_at'],
    ['PAGERDUTY', 'event_id', 'event_occurred_at'],
    ['TRELLO', 'action_id', 'action_date'],
    ['TWILIO', 'i_twilio_idempotency_token', null],
    ['TYPEFORM', 'event_id', 'form_response_submitted_at'],
    ['VERCEL', 'id', 'createdAt'],
    ['NOTION', 'id', 'timestamp'],
    ['OPENAI', 'webhook_id', 'created_at'],
    ['CLOUDEVENTS_BINARY', 'ce_id', 'ce_time'],
    ['DROPBOX', null, null],
    ['MAILGUN', 'event_data_id', 'event_data_timestamp'],
  ]
  test.each(cases)('%s: %s, %s', (name, uniqueId, timestamp) => {
    const samples = EXAMPLES[name].map(({ body, headers }) => ({ body: JSON.stringify(body), headers }))
    const proposal = propose(...samples)
    expect([proposal.uniqueId.column, proposal.timestamp.column]).toEqual([uniqueId, timestamp])
  })
})
