/** Requests of one field of the schema, and the types of their answers. */
import { ask } from './request.ts'
import type { Schema } from './schema.ts'

/** Names with spaces between them, or by name: `_` has the names of fields without a selection. */
type Selection = string | { readonly [name: string]: Selection }

type Names<Text> = Text extends `${infer First} ${infer Rest}` ? First | Names<Rest> : Text
type Fragments<S> = {
  [K in keyof S]: K extends `... on ${infer Name extends keyof Schema}`
    ? Partial<Chosen<Schema[Name], S[K]>>
    : never
}[keyof S]
/** A field may have arguments: `busiest(first: 10)`. */
type NameOf<Field> = Field extends `${infer Name}(${string}` ? Name : Field
type Fields<T, S> = S extends string
  ? { readonly [K in Names<S>]: K extends keyof T ? T[K] : unknown }
  : {
      readonly [K in keyof S as NameOf<K> & keyof T]: Chosen<T[NameOf<K> & keyof T], S[K]>
    } & ('_' extends keyof S ? Fields<T, S['_']> : unknown) &
      ([Fragments<S>] extends [never] ? unknown : Fragments<S>)

/** What a selection gets of values of a type. A fragment's fields may be absent. */
export type Chosen<T, S> = T extends readonly (infer Item)[]
  ? readonly Chosen<Item, S>[]
  : T extends object
    ? Fields<T, S>
    : T

/** A field that finds nothing answers an error, although the schema lets it be null. */
type Answer<Root, Field, S> = Chosen<NonNullable<Root[NameOf<Field> & keyof Root]>, S>

export function textOf(selection: Selection): string {
  if (typeof selection === 'string') return selection
  return Object.entries(selection)
    .map(([name, inner]) => (name === '_' ? textOf(inner) : `${name} { ${textOf(inner)} }`))
    .join(' ')
}

/**
 * Asks for one field, with its arguments as the schema declares them: `dataPool(id: ID!)`. Throws
 * ApiError.
 * @param selection "" for a field without one
 */
export function query<const Field extends string, const S extends Selection>(
  field: Field,
  selection: S,
  values: Readonly<Record<string, unknown>> = {},
  signal?: AbortSignal,
): Promise<Answer<Schema['Query'], Field, S>> {
  return askOne('query', field, selection, values, signal) as never
}

/** As `query`, of a mutation. */
export function mutate<const Field extends string, const S extends Selection>(
  field: Field,
  selection: S,
  values: Readonly<Record<string, unknown>>,
): Promise<Answer<Schema['Mutation'], Field, S>> {
  return askOne('mutation', field, selection, values) as never
}

async function askOne(
  kind: 'query' | 'mutation',
  field: string,
  selection: Selection,
  values: Readonly<Record<string, unknown>>,
  signal?: AbortSignal,
): Promise<unknown> {
  const [name = '', declared = ''] = field.split(/[()]/)
  const head = declared === '' ? '' : `(${declared.replaceAll(/\w+:/g, '$$$&')})`
  const given = declared === '' ? '' : `(${declared.replaceAll(/(\w+): [^,]+/g, '$1: $$$1')})`
  const inner = selection === '' ? '' : `{ ${textOf(selection)} }`
  const text = `${kind} ${head} { ${name}${given} ${inner} }`
  return (await ask<Readonly<Record<string, unknown>>>(text, values, signal))[name]
}
