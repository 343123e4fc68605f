/**
 * The context of a request's resolvers: the other stages as functions, the caller, and the
 * request's costs.
 *
 *   W-11  All of GraphQL but the queries themselves runs on the main thread, and a short document
 *         can ask 500 columns for 2,000 names each, or for a thousand counters.
 *
 * Each list and object is charged before its fields are resolved: its length times the fields asked
 * of each item. Inner lists and objects are charged as they come, never twice. Introspection is
 * charged too: its types are the package's own and shared by all schemas. Lists of which much is
 * asked are resolved in slices (cpu-share.ts).
 */
import type {
  GraphQLError,
  GraphQLField,
  GraphQLOutputType,
  GraphQLResolveInfo,
  GraphQLSchema,
} from 'graphql'
import type { Identity, Tokens } from '../../catalog/access/token.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { Pool, Scope } from '../../catalog/documents/model.ts'
import type { Activity } from '../../database/activity.ts'
import type { Jobs } from '../../jobs/run-jobs.ts'
import { type Answered, ask, planQuestion, type QuestionDeps } from '../../query/ask.ts'
import {
  checkFilterSql,
  checkFilters,
  checkMetricExpression,
  checkRowChanges,
} from '../../query/check-texts.ts'
import type { PlannedStatement } from '../../query/statement-copies.ts'
import { GRAPHQL_VALUES_MAX, KiB } from '../../util/limits.ts'
import type { Shares } from '../../util/shares.ts'
import type { TraceSpan } from '../../util/tracing.ts'
import { hasScope } from '../pool-reader.ts'
import { inSlices, type Slices } from './cpu-share.ts'
import type { FieldCounter } from './document.ts'
import { badRequest, failure, type GraphqlCode, lacksScope, wholeRequest } from './graphql-errors.ts'
import { graphql } from './library.ts'
import type { StateOfServer } from './parents.ts'

/** Values of an answer about the schema, which has 23,000. Twenty requests held 200 MB. */
const GRAPHQL_SCHEMA_VALUES_MAX = 30_000
/** Metric queries of a request. Dashboards send about 25. */
const GRAPHQL_QUERIES_MAX = 200
/** Mutations of a request. Each waits for a sync of the catalog: 100 take 0.1 to 0.3 s. */
export const GRAPHQL_MUTATIONS_MAX = 100
/** Characters of the inputs of all metric queries of a request: planning takes 12 ms. */
const GRAPHQL_INPUT_CHARACTERS_MAX = 512 * KiB
/** Bytes of the samples of all inferColumns of a request: reading them takes some 13 ms. */
export const GRAPHQL_SAMPLES_BYTES_MAX = 128 * KiB
/** Bytes of a value of a question's rows, besides its characters. */
const GRAPHQL_VALUE_BYTES = 32
/** List items that GraphQL inspects per value charged. */
const GRAPHQL_INSPECTED_PER_VALUE = 16
/** Values (0.5 ms) after which the next list is resolved item by item. */
const GRAPHQL_UNCUT_VALUES = 256
/** Texts of a list, such as a time series, that take as long as one value: 0.1 µs each. */
const GRAPHQL_TEXTS_PER_VALUE = 8

/** One mutation that ran: who did what to which object, and how it ended. */
export interface AuditEntry {
  readonly mutation: string
  readonly applicationId: string
  /** Its id, or the id or name that was asked for; null for a creation that failed. */
  readonly object: string | null
  /** The other object of an assignment, of a move, or of a deletion that takes two along. */
  readonly target?: string
  /** `absent`: there was nothing to delete. */
  readonly outcome: 'done' | 'absent' | GraphqlCode
}

/** The functions of the query stage that resolvers call. Tests put others in their place. */
export const QUERY_STAGE = {
  ask,
  planQuestion,
  checkFilters,
  checkFilterSql,
  checkMetricExpression,
  checkRowChanges,
}

/** Rows that are not deleted, and their bytes. */
interface PoolSize {
  readonly rows: number
  readonly bytes: number
}

export interface GraphqlDeps {
  readonly catalog: Catalog
  readonly jobs: Pick<Jobs, 'created'>
  readonly verify: Tokens['verify']
  /** The public URL of a webhook id. The API shows it and does not store it. */
  webhookUrl(webhookId: string): string
  sizeOf(pool: Pool): PoolSize | Promise<PoolSize>
  /** A number below which are the sequences of all acknowledged records, and no later one. */
  boundary(): Promise<number>
  readonly query: typeof QUERY_STAGE
  readonly reading: QuestionDeps
  readonly activity: Pick<Activity, 'of' | 'busiest'>
  serverStatus(): Promise<StateOfServer>
  audit(entry: AuditEntry): void
}

export interface Context {
  readonly deps: GraphqlDeps
  readonly caller: Identity
  readonly budget: Budget
  readonly slices: Slices
  readonly held: HeldBytes
  readonly gone: AbortSignal | undefined
  readonly span: TraceSpan | undefined
  /** Gets the whole answer of each question. */
  readonly onAnswered: ((answered: Answered) => void) | undefined
  /** Gets a statement that may run, and copies its rows: the answer has none. */
  readonly onStatement: ((planned: PlannedStatement) => void) | undefined
}

/**
 * Throws FORBIDDEN unless the caller has one of `scopes`; the message names the last. The
 * application must have it still: a request makes many changes, and may wait between them. Throws
 * AccessEnded where the caller's next request would be refused.
 */
export function requireScope(
  { caller, deps }: Context,
  action: string,
  ...scopes: readonly [Scope, ...Scope[]]
): void {
  caller.verifyAgain()
  if (scopes.some(scope => hasScope(caller, scope, deps.catalog.read))) return
  throw lacksScope(caller.applicationId, action, scopes.at(-1) ?? '')
}

/**
 * The estimated memory of a request until its answer and its last question, of the share of its
 * application. The answer of a client that has gone is given up before its questions end.
 */
export class HeldBytes {
  readonly #room: Shares
  readonly #application: string
  #bytes = 0
  #running = 0
  #isReleased = false

  constructor(room: Shares, application: string) {
    this.#room = room
    this.#application = application
  }

  /**
   * False where there is no room, and after the release: the first error of a field that may not be
   * null ends a document, while questions beside it still run.
   */
  tryAdd(bytes: number): boolean {
    if (this.#isReleased || !this.#room.tryTake(this.#application, bytes)) return false
    this.#bytes += bytes
    return true
  }

  /** Adds rows of a question, which stay until the whole answer is written. Throws UNAVAILABLE. */
  rows(rows: Answered['rows']): void {
    let bytes = 0
    for (const row of rows) for (const text of row) bytes += (text?.length ?? 0) + GRAPHQL_VALUE_BYTES
    if (!this.tryAdd(bytes))
      throw failure('UNAVAILABLE', 'The requests of the application hold too many rows: send fewer at once.')
  }

  /** Settles as the work of a question does, whose memory is held until then. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#running += 1
    try {
      return await work
    } finally {
      this.#running -= 1
      this.#giveBack()
    }
  }

  release(): void {
    this.#isReleased = true
    this.#giveBack()
  }

  #giveBack(): void {
    if (!this.#isReleased || this.#running > 0) return
    this.#room.give(this.#application, this.#bytes)
    this.#bytes = 0
  }
}

export class Budget {
  #values = 0
  #schemaValues = 0
  #queries = 0
  #mutations = 0
  #inputCharacters = 0
  #sampleBytes = 0
  /** One error for all the lists that come too late. Tens of thousands of them took 200 MB. */
  #tooLarge: GraphQLError | undefined
  #valuesInTurn = 0
  readonly #fieldsOf: FieldCounter

  constructor(fieldsOf: FieldCounter) {
    this.#fieldsOf = fieldsOf
  }

  /** Charges a question before its input is read: many may share one large variable. */
  query(input: object): void {
    this.#queries += 1
    if (this.#queries > GRAPHQL_QUERIES_MAX)
      throw badRequest(`A request takes at most ${GRAPHQL_QUERIES_MAX} metric queries.`)
    if (this.#inputCharacters <= GRAPHQL_INPUT_CHARACTERS_MAX)
      this.#inputCharacters += JSON.stringify(input).length
    if (this.#inputCharacters > GRAPHQL_INPUT_CHARACTERS_MAX)
      throw badRequest(
        `The metric queries of a request have more than ${GRAPHQL_INPUT_CHARACTERS_MAX} characters.`,
      )
  }

  get sampleBytesLeft(): number {
    return Math.max(0, GRAPHQL_SAMPLES_BYTES_MAX - this.#sampleBytes)
  }

  /** Charges samples before they are read. Throws BAD_REQUEST. */
  samples(bytes: number): void {
    this.#sampleBytes += bytes
    if (this.#sampleBytes > GRAPHQL_SAMPLES_BYTES_MAX)
      throw badRequest(
        `The samples of a request have more than ${GRAPHQL_SAMPLES_BYTES_MAX} bytes: give fewer, or use "weir sources infer", which takes more.`,
      )
  }

  /** Charges a mutation: each waits for a sync. Throws BAD_REQUEST. */
  mutation(): void {
    this.#mutations += 1
    if (this.#mutations > GRAPHQL_MUTATIONS_MAX)
      throw badRequest(`A request makes at most ${GRAPHQL_MUTATIONS_MAX} changes.`)
  }

  /** Charges the items of a list of which a part is answered. Throws BAD_REQUEST. */
  items(count: number): void {
    this.#charge(Math.ceil(count / GRAPHQL_INSPECTED_PER_VALUE))
  }

  /**
   * Charges objects before their fields are resolved, and returns their work: the number of their
   * values, or of lists of texts less.
   */
  objects(count: number, { fieldNodes, parentType, returnType }: GraphQLResolveInfo): number {
    let fields = 0
    for (const { selectionSet } of fieldNodes)
      fields += selectionSet === undefined ? 1 : this.#fieldsOf(selectionSet)
    if (parentType.name.startsWith('__')) this.#schemaValues += count * fields
    const work = isTextList(returnType)
      ? Math.ceil((count * fields) / GRAPHQL_TEXTS_PER_VALUE)
      : count * fields
    this.#charge(count * fields, work)
    return work
  }

  /** True if the next list must wait: many values were resolved since it was last true. */
  isTurnDue(): boolean {
    if (this.#valuesInTurn < GRAPHQL_UNCUT_VALUES) return false
    this.#valuesInTurn = 0
    return true
  }

  #charge(values: number, work = values): void {
    this.#valuesInTurn += work
    this.#values += values
    if (this.#schemaValues > GRAPHQL_SCHEMA_VALUES_MAX)
      this.#tooLarge ??= wholeRequest(
        `The answer has more than ${GRAPHQL_SCHEMA_VALUES_MAX} values of the schema.`,
      )
    if (this.#values > GRAPHQL_VALUES_MAX)
      this.#tooLarge ??= wholeRequest(
        `The answer has more than ${GRAPHQL_VALUES_MAX} values: ask for fewer, or by page.`,
      )
    if (this.#tooLarge !== undefined) throw this.#tooLarge
  }
}

function isTextList(type: GraphQLOutputType): boolean {
  const list = graphql.getNullableType(type)
  return graphql.isListType(list) && graphql.getNullableType(list.ofType) === graphql.GraphQLString
}

const metered = new WeakSet<GraphQLField<unknown, unknown>>()

/** Makes every list and object of the schema charge the context's `budget`, if there is one. */
export function meterLists(schema: GraphQLSchema): void {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!graphql.isObjectType(type)) continue
    for (const field of Object.values(type.getFields())) {
      const isList = graphql.isListType(graphql.getNullableType(field.type))
      if ((!isList && graphql.isLeafType(graphql.getNamedType(field.type))) || metered.has(field)) continue
      metered.add(field)
      const resolve = field.resolve ?? graphql.defaultFieldResolver
      field.resolve = (source, args, context: Partial<Context> | undefined, info) => {
        if (!isList) context?.budget?.objects(1, info)
        const value: unknown = resolve(source, args, context, info)
        return isList && Array.isArray(value) && context?.budget !== undefined
          ? charged(value, context as Context, info)
          : value
      }
    }
  }
}

function charged(list: readonly unknown[], { budget, slices }: Context, info: GraphQLResolveInfo): unknown {
  // graphql listens to an item when its turn comes. One that failed before would end the process.
  for (const item of list) if (item instanceof Promise) item.catch(() => {})
  const work = budget.objects(list.length, info)
  if (!budget.isTurnDue()) return list
  // The lists of a request are completed one after another.
  return work > GRAPHQL_UNCUT_VALUES ? inSlices(list, slices) : slices.inListOrder().then(() => list)
}
