/** Two changes at the same time, whoever comes first. */
import type { Catalog } from '../../src/catalog/catalog.ts'
import { applyToModel, copyOf, type Model } from './catalog-model.ts'
import { type Operation, type Outcome, runOperation } from './catalog-operations.ts'

/**
 * The model after both changes, `first` before the other one; undefined where the outcomes differ.
 */
export function inOrder(
  model: Model,
  pair: readonly Operation[],
  outcomes: readonly Outcome[],
  first: number,
) {
  const after = copyOf(model)
  try {
    for (const index of [first, 1 - first]) applyToModel(after, pair[index]!, outcomes[index]!)
    return after
  } catch {
    return undefined
  }
}

/** Makes objects until there is a live one of each kind, so that two changes can meet in it. */
export async function populate(catalog: Catalog, model: Model, random: () => number): Promise<void> {
  const make = async (...operation: Operation) =>
    applyToModel(model, operation, await runOperation(catalog, operation))
  const anyPool = () => [...model.pools.keys()].at(Math.floor(random() * model.pools.size)) ?? ''
  if (model.sources.size < 3) await make('http', '')
  if (model.pools.size < 2) await make('webhook', '')
  if (model.metrics.size < 2) await make('metric', anyPool(), '', '1')
  if (model.policies.size < 2) await make('policy', anyPool(), '')
  if (model.applications.size < 2) await make('application', '', 'P1_SMALL')
  const isLive = ({ pool, status }: { pool: string; status: string }) =>
    model.pools.has(pool) && status !== 'SUCCEEDED'
  if ([...model.jobs.values()].some(isLive)) return
  await make('add-column', anyPool(), `column_${model.jobs.size}`, 'STRING')
}
