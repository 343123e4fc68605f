/**
 * Random changes of all kinds on a real catalog and on a model, with restarts and kills between
 * them. After each restart the documents equal the model. Two clients that change the same objects
 * at once get what one of the two orders gives.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { openStore } from '../../src/catalog/lmdb/catalog-store.ts'
import { ofOneProcess, type StoreClient } from '../../src/catalog/lmdb/store-client.ts'
import { casesOf, casesWithin, newSeed, randomFrom } from '../util/random.ts'
import {
  applyToModel,
  checkModel,
  copyOf,
  emptyModel,
  idsAtStart,
  type Model,
  modelOf,
  withIds,
} from './catalog-model.ts'
import {
  type Operation,
  type Outcome,
  PAIRS,
  randomOperation,
  randomPair,
  runOperation,
} from './catalog-operations.ts'
import { type Folder, makeFolder } from './folder.ts'
import { inOrder, populate } from './two-clients.ts'

const CHILD = fileURLToPath(new URL('./model_child.js', import.meta.url))
const SEED = newSeed()
/** Sequences of changes, with a restart after each. WEIR_TEST_SEQUENCES sets another number. */
const RESTARTS = Number(process.env['WEIR_TEST_SEQUENCES'] ?? 280)
const LEAST = process.env['WEIR_TEST_SEQUENCES'] === undefined ? 60 : RESTARTS
/** Sequences that a kill ends. */
const KILLS = casesOf(12, 20)
const CHANGES_MAX = 12
/** Rounds of all PAIRS. */
const PAIR_ROUNDS = 5
/** One of so many sequences has the catalog's thread, whose start is most of a restart's cost. */
const SEQUENCES_PER_THREAD = 8
/** Then a new folder begins, so that small catalogs are met too. */
const SEQUENCES_PER_FOLDER = 20

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

test(`${LEAST} to ${RESTARTS} sequences of changes match the model after a restart, seed ${SEED}`, async () => {
  const random = randomFrom(SEED)
  let model = emptyModel()
  let ours: ReadonlySet<string> | undefined
  let done = 0
  const budget = { what: 'sequences of changes', seed: SEED, seconds: 3, least: LEAST, most: RESTARTS }
  const count = await casesWithin(budget, async sequence => {
    if (sequence % SEQUENCES_PER_FOLDER === 0) {
      await folder.remove()
      folder = makeFolder()
      model = emptyModel()
      ours = undefined
    }
    const isOnThread = sequence % SEQUENCES_PER_THREAD === 0
    const { catalog } = await folder.open(isOnThread ? {} : { store: storeHere(folder.paths.catalog) })
    ours ??= idsAtStart(catalog)
    checkModel(catalog, model, ours)
    const changes = Math.ceil(random() * CHANGES_MAX)
    for (let change = 0; change < changes; change++) {
      const operation = randomOperation(model, random)
      applyToModel(model, operation, await runOperation(catalog, operation))
      done += 1
    }
    checkModel(catalog, model, ours)
    await folder.stop()
  })
  expect(done).toBeGreaterThan(count)
}, 600_000)

/** The store on the test's own thread: the same LMDB, documents and seals. */
async function storeHere(path: string): Promise<StoreClient> {
  const store = await openStore(path)
  return ofOneProcess({
    entries: store.entries,
    apply: async change => store.apply(change),
    refusal: () => undefined,
    stop: () => store.close(),
  })
}

test(`${KILLS} kills leave each change done or not done, seed ${SEED}`, async () => {
  const random = randomFrom(SEED + 1)
  const model = emptyModel()
  const first = await folder.open()
  const ours = idsAtStart(first.catalog)
  await folder.stop()
  let unanswered = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const child = await startChild(folder.root)
    const answered = Math.floor(random() * CHANGES_MAX)
    for (let change = 0; change < answered; change++) {
      const operation = randomOperation(model, random)
      applyToModel(model, operation, await child.run(operation))
    }
    const last = randomOperation(model, random)
    const answer = await child.runAndKill(last, random() * 3)
    const { catalog } = await folder.open()
    if (answer === undefined) {
      unanswered += 1
      settle(catalog, model, last, ours)
    } else applyToModel(model, last, answer)
    checkModel(catalog, model, ours)
    await folder.stop()
  }
  expect(unanswered).toBeGreaterThan(0)
}, 120_000)

test(`two clients change the same objects at once in ${PAIRS.length} ways, seed ${SEED}`, async () => {
  const { catalog } = await folder.open()
  const ours = idsAtStart(catalog)
  const model = emptyModel()
  const random = randomFrom(SEED + 2)
  const orders = [0, 0]
  for (let round = 0; round < PAIR_ROUNDS; round++)
    for (const kinds of PAIRS) {
      await populate(catalog, model, random)
      const pair = randomPair(kinds, model, random)
      const outcomes = await Promise.all(
        pair.map(async operation => {
          // Whichever comes first: the second client may overtake the first one.
          for (let ticks = Math.floor(random() * 4); ticks > 0; ticks--) await Promise.resolve()
          return runOperation(catalog, operation)
        }),
      )
      const after = [0, 1].map(first => inOrder(model, pair, outcomes, first))
      const seen = modelOf(catalog, ours)
      const order = after.findIndex(one => one !== undefined && isDeepStrictEqual(one, seen))
      expect(order, `${JSON.stringify(pair)} ended as ${JSON.stringify(outcomes)}`).toBeGreaterThanOrEqual(0)
      if (after[1 - order] === undefined) orders[order]! += 1
      Object.assign(model, after[order])
      checkModel(catalog, model, ours)
    }
  // Both orders were met where they differ.
  expect(Math.min(...orders)).toBeGreaterThan(0)
})

interface Child {
  run(operation: Operation): Promise<Outcome>
  /** The answer that came before the kill, undefined where none did. */
  runAndKill(operation: Operation, afterMs: number): Promise<Outcome | undefined>
}

async function startChild(root: string): Promise<Child> {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [CHILD, root])
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => (await lines.next()) as IteratorResult<string, undefined>
  expect((await next()).value).toBe('opened')
  const send = (operation: Operation) => child.stdin.write(`${JSON.stringify(operation)}\n`)
  return {
    async run(operation) {
      send(operation)
      return JSON.parse((await next()).value ?? '') as Outcome
    },
    async runAndKill(operation, afterMs) {
      send(operation)
      setTimeout(() => child.kill('SIGKILL'), afterMs)
      const { value } = await next()
      await exited
      return value === undefined ? undefined : (JSON.parse(value) as Outcome)
    },
  }
}

/** Applies a change without an answer to the model, if the catalog made it. */
function settle(catalog: Catalog, model: Model, operation: Operation, ours: ReadonlySet<string>): void {
  const seen = modelOf(catalog, ours)
  try {
    expect(seen).toEqual(model)
    return
  } catch {
    // The change was made: the model must get there by it.
  }
  const after = copyOf(model)
  applyToModel(after, operation, outcomeSeen(model, seen, withIds(model, operation)))
  expect(seen).toEqual(after)
  Object.assign(model, after)
}

/** What a change must have answered that took the catalog from `model` to `seen`. */
function outcomeSeen(model: Model, seen: Model, [kind, a = '', b = '']: Operation): Outcome {
  if (kind === 'rotate-key') return [seen.signingKeys[0]!, '']
  const maps = ['sources', 'pools', 'metrics', 'policies', 'applications', 'jobs'] as const
  const made = maps.flatMap(map => [...seen[map].keys()].filter(id => !model[map].has(id)))
  if (kind === 'webhook') return [made[0]!, made[1]!]
  const find = (map: ReadonlyMap<string, { name: string }>) =>
    [...map].find(([, { name }]) => name === b)?.[0] ?? ''
  const deleted = maps.flatMap(map => [...model[map].keys()].filter(id => !seen[map].has(id)))
  // A webhook's pool takes its source with it, which stands first among the deleted.
  const gone = kind === 'delete-pool' ? deleted.find(one => model.pools.has(one)) : deleted[0]
  const id = made[0] ?? (a !== '' ? a : (gone ?? find(model.applications)))
  return [id, seen.applications.get(id)?.secret ?? '']
}
