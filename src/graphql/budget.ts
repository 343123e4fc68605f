/**
 * What one request may cost (W-11: all of GraphQL but the queries themselves runs on the main thread). A short document can ask
 * 500 columns for 2,000 names each, or for a thousand counters. So each list is charged before its items are looked at: its length times
 * the fields asked of each; lists inside are charged as they come. Introspection too: its types are the package's own, shared by all schemas.
 */
import type { GraphQLField, GraphQLResolveInfo, GraphQLSchema, SelectionSetNode } from 'graphql'
import { GRAPHQL_INPUT_CHARACTERS_MAX, GRAPHQL_QUERIES_MAX, GRAPHQL_VALUES_MAX } from '../limits.ts'
import { badRequest } from './errors.ts'
import { defaultFieldResolver, getNullableType, isListType, isObjectType } from './library.ts'

/** The costs of one request so far. */
export class Budget {
  #values = 0
  #queries = 0
  #inputCharacters = 0
  readonly #fieldsOf: (set: SelectionSetNode) => number

  /** @param fieldsOf how many fields a selection of the request's document asks for, fragments spread */
  constructor(fieldsOf: (set: SelectionSetNode) => number) {
    this.#fieldsOf = fieldsOf
  }

  /** Charges a metric query, before its input is looked at: many queries may share one large variable. Throws BAD_REQUEST. */
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

  /** Charges items of a list that was looked through. Throws BAD_REQUEST. */
  items(count: number): void {
    this.#values += count
    if (this.#values > GRAPHQL_VALUES_MAX)
      throw badRequest(`The answer has more than ${GRAPHQL_VALUES_MAX} values: ask for fewer, or by page.`)
  }

  /** Charges a list whose items are about to be resolved. Throws BAD_REQUEST. */
  list(length: number, { fieldNodes }: GraphQLResolveInfo): void {
    let fields = 0
    for (const { selectionSet } of fieldNodes)
      fields += selectionSet === undefined ? 1 : this.#fieldsOf(selectionSet)
    this.items(length * fields)
  }
}

const metered = new WeakSet<GraphQLField<unknown, unknown>>()

/** Makes every list of the schema charge the `budget` of the context, where there is one. */
export function meterLists(schema: GraphQLSchema): void {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue
    for (const field of Object.values(type.getFields())) {
      if (!isListType(getNullableType(field.type)) || metered.has(field)) continue
      metered.add(field)
      const resolve = field.resolve ?? defaultFieldResolver
      field.resolve = (source, args, context: { readonly budget?: Budget } | undefined, info) => {
        const value: unknown = resolve(source, args, context, info)
        if (Array.isArray(value)) context?.budget?.list(value.length, info)
        return value
      }
    }
  }
}
