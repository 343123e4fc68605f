/** Resolvers of presets, and of columns proposed from samples or a pool. They change nothing. */
import { PRESET_NAMES, PRESETS } from '../../catalog/presets.ts'
import { PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { inferColumns } from '../../parse/infer/infer.ts'
import { readSamples } from '../../parse/infer/samples.ts'
import { eventsIn } from '../../parse/sender/events-in.ts'
import { dataGrid } from '../../query/plan/data-grid.ts'
import { isGiven } from '../../query/plan/question.ts'
import type { Context } from './context.ts'
import { badRequest } from './graphql-errors.ts'
import { answerQuestion } from './resolve-question.ts'
import type { Resolvers } from './schema-types.ts'

type InferInput = Parameters<Resolvers['Query']['inferColumns']>[1]

/** Events of a pool that are read as samples. */
const LAST_EVENTS = 100

/** The last events of a pool as NDJSON, the newest first, within what is left of the budget. */
async function lastEvents(dataPool: InferInput['dataPool'], context: Context): Promise<Buffer> {
  const input = {
    dataPool,
    columns: [RECEIVED_AT, PAYLOAD],
    orderByColumn: 1,
    sort: 'DESC',
    first: LAST_EVENTS,
  }
  const { rows } = await answerQuestion(dataGrid, input, context)
  const { pools } = context.deps.catalog.read
  const { keepEnvelope = false, eventsPath = '' } = pools.find(dataPool?.id ?? dataPool?.name ?? '') ?? {}
  const inEnvelope = { columns: [], key: null, eventsPath }
  const lines: string[] = []
  let bytes = 0
  for (const [, payload] of rows) {
    // Columns name what stands in the event, not in the body around it.
    const found = keepEnvelope ? eventsIn(Buffer.from(payload ?? ''), inEnvelope) : undefined
    const event = found !== undefined && 'document' in found ? String(found.document) : payload
    // A payload may be printed over several lines; between texts a line break is a space.
    const line = `${event?.replaceAll(/[\r\n]/g, ' ')}\n`
    bytes += Buffer.byteLength(line)
    if (bytes > context.budget.sampleBytesLeft) break
    lines.push(line)
  }
  if (lines.length === 0)
    throw badRequest(
      rows.length === 0
        ? 'The Data Pool has no events.'
        : `The newest event of the Data Pool has more than the ${context.budget.sampleBytesLeft} bytes that are left: use "weir sources infer".`,
    )
  return Buffer.from(lines.join(''))
}

export const senderQueries = {
  inferColumns: async (_, { samples, dataPool }, context) => {
    const { budget } = context
    if (isGiven(samples) === isGiven(dataPool)) throw badRequest('Give either "samples" or "dataPool".')
    const bytes = isGiven(samples) ? Buffer.from(samples) : await lastEvents(dataPool, context)
    budget.samples(bytes.length)
    const events = readSamples(bytes)
    const proposal = 'problem' in events ? events : inferColumns(events)
    if ('problem' in proposal) throw badRequest(proposal.problem.message)
    return proposal
  },
  webhookPresets: () =>
    PRESET_NAMES.map(name => {
      const { signature, secret, ...preset } = PRESETS[name]
      return { name, scheme: signature?.scheme ?? null, needsSecret: secret === 'SHOWN', ...preset }
    }),
} satisfies Partial<Resolvers['Query']>
