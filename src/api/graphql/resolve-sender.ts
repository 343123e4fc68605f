/** Resolvers of presets, and of columns proposed from samples. They change nothing. */
import { PRESET_NAMES, PRESETS } from '../../catalog/presets.ts'
import { inferColumns } from '../../parse/infer/infer.ts'
import { readSamples } from '../../parse/infer/samples.ts'
import { badRequest } from './graphql-errors.ts'
import type { Resolvers } from './schema-types.ts'

export const senderQueries = {
  inferColumns: (_, { samples }, { budget }) => {
    const bytes = Buffer.from(samples)
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
