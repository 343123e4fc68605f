/**
 * Parses and checks a GraphQL document. Each check comes before the recursive work that it bounds.
 * Brackets and tokens are counted before parsing. Fragments, fields and their nesting, with
 * fragments spread, are counted before validation.
 */

import type {
  DefinitionNode,
  DocumentNode,
  FragmentDefinitionNode,
  GraphQLSchema,
  SelectionSetNode,
} from 'graphql'
import { CR, LF } from '../../parse/characters.ts'
import { must } from '../../util/errors.ts'
import { GRAPHQL_FRAGMENTS_MAX, GRAPHQL_NESTING_MAX, GRAPHQL_TOKENS_MAX, KiB } from '../../util/limits.ts'
import { badRequest, takePositions } from './graphql-errors.ts'
import { type GraphQLError, graphql, Kind, TokenKind } from './library.ts'

/** Fields of a document after fragments are spread. Validation compares fields in pairs. */
const GRAPHQL_FIELDS_MAX = 2_000
/** Nesting of the fields of a document. */
const GRAPHQL_DEPTH_MAX = 24
/** Lines of a document, those in its strings included. */
const GRAPHQL_LINES_MAX = 20_000
/** Characters of a name in a document. An unknown one is compared with all known names. */
const GRAPHQL_NAME_CHARACTERS_MAX = 1_024
/** Fields of all operations, with their fragments spread: validation walks them all. */
const GRAPHQL_SPREAD_FIELDS_MAX = 10_000
/** Fragments that are spread, and variables in them. GRAPHQL_FRAGMENTS_MAX make 20,000. */
const GRAPHQL_SPREADS_MAX = 25_000
/** Pairs of fields of one name, which validation compares in 0.4 µs. 100 `id` make 4,950. */
const GRAPHQL_PAIRS_MAX = 10_000
/** Validated documents in the cache. The least recently used goes first. */
const GRAPHQL_DOCUMENTS_CACHED = 128
/** Characters of a document in that cache; longer ones are not cached. */
const GRAPHQL_CACHED_CHARACTERS_MAX = 32 * KiB

const VALIDATION_ERRORS_MAX = 20

type ReadDocument = DocumentNode | readonly GraphQLError[]

export function documentReader(schema: GraphQLSchema): (text: string) => ReadDocument {
  const cache = new Map<string, DocumentNode>() // the least recently used first
  return text => {
    const known = cache.get(text)
    if (known === undefined && text.length > GRAPHQL_CACHED_CHARACTERS_MAX) return readDocument(text, schema)
    const read = known ?? readDocument(text, schema)
    if (!('kind' in read)) return read
    cache.delete(text)
    cache.set(text, read)
    if (cache.size > GRAPHQL_DOCUMENTS_CACHED) cache.delete(must(cache.keys().next().value, 'the oldest'))
    return read
  }
}

function readDocument(text: string, schema: GraphQLSchema): ReadDocument {
  try {
    checkTokens(text)
    const document = graphql.parse(text)
    checkSize(document)
    takePositions(document)
    const errors = graphql.validate(schema, document, undefined, { maxErrors: VALIDATION_ERRORS_MAX })
    return errors.length > 0 ? errors : document
  } catch (error) {
    if (error instanceof graphql.GraphQLError) return [error]
    throw error
  }
}

function checkTokens(text: string): void {
  if (hasMoreLines(text, GRAPHQL_LINES_MAX))
    throw badRequest(`The document has more than ${GRAPHQL_LINES_MAX} lines.`)
  const lexer = new graphql.Lexer(new graphql.Source(text))
  let open = 0
  for (let tokens = 0; ; tokens++) {
    const { kind, start, end } = lexer.advance()
    if (kind === TokenKind.EOF) return
    if (kind === TokenKind.NAME && end - start > GRAPHQL_NAME_CHARACTERS_MAX)
      throw badRequest(`The document has a name of more than ${GRAPHQL_NAME_CHARACTERS_MAX} characters.`)
    if (kind === TokenKind.BRACE_L || kind === TokenKind.BRACKET_L || kind === TokenKind.PAREN_L) open += 1
    else if (kind === TokenKind.BRACE_R || kind === TokenKind.BRACKET_R || kind === TokenKind.PAREN_R)
      open -= 1
    if (open > GRAPHQL_NESTING_MAX)
      throw badRequest(`The document opens more than ${GRAPHQL_NESTING_MAX} brackets.`)
    if (tokens >= GRAPHQL_TOKENS_MAX)
      throw badRequest(`The document has more than ${GRAPHQL_TOKENS_MAX} tokens.`)
  }
}

/** Lines are counted before the lexer makes a string of each: 300,000 of them took 150 ms. */
function hasMoreLines(text: string, max: number): boolean {
  let lines = 1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === LF || code === CR) lines += 1
  }
  return lines > max
}

interface Size {
  readonly fields: number
  readonly spreads: number
  readonly depth: number
}

function checkSize(document: DocumentNode): void {
  const fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION)
  if (fragments.length > GRAPHQL_FRAGMENTS_MAX)
    throw badRequest(`The document has more than ${GRAPHQL_FRAGMENTS_MAX} fragments.`)
  const variables = fragments.reduce((sum, fragment) => sum + variablesIn(fragment), 0)
  const measure = measurer(document)
  let fields = 0
  let spread = 0
  let walked = 0
  for (const definition of selectingIn(document)) {
    const size = measure(definition.selectionSet)
    if (definition.kind === Kind.OPERATION_DEFINITION) fields += size.fields
    else fields = Math.max(fields, size.fields)
    spread += size.fields
    walked += size.spreads + (definition.kind === Kind.OPERATION_DEFINITION ? variables : 0)
    if (fields > GRAPHQL_FIELDS_MAX)
      throw badRequest(`The document asks for more than ${GRAPHQL_FIELDS_MAX} fields.`)
    if (size.depth > GRAPHQL_DEPTH_MAX)
      throw badRequest(`The document nests deeper than ${GRAPHQL_DEPTH_MAX} fields.`)
    if (spread > GRAPHQL_SPREAD_FIELDS_MAX)
      throw badRequest(`The fragments of the document have more than ${GRAPHQL_SPREAD_FIELDS_MAX} fields.`)
    if (walked > GRAPHQL_SPREADS_MAX)
      throw badRequest('The document has too many operations or fields that spread its fragments.')
  }
  checkPairs(document)
}

/** The operations and fragments. */
function selectingIn({ definitions }: DocumentNode) {
  return definitions.filter(one => 'selectionSet' in one)
}

/** The uses of variables in a fragment. Validation visits each use for each operation. */
function variablesIn({ loc }: DefinitionNode): number {
  let variables = 0
  for (
    let token = loc?.startToken;
    token !== undefined && token !== loc?.endToken;
    token = token.next ?? undefined
  )
    if (token.kind === TokenKind.DOLLAR) variables += 1
  return variables
}

/**
 * Counts the pairs of fields that validation compares: each two fields of one name at one place,
 * and the fields below them. 600 fields of one name held the main thread for 70 ms. This walks no
 * more fields than checkSize counted, unless the fragments spread each other, which validation
 * refuses.
 */
function checkPairs(document: DocumentNode): void {
  const fragments = fragmentsOf(document)
  let pairs = 0
  let walked = 0
  for (const definition of selectingIn(document)) {
    let level: (readonly SelectionSetNode[])[] = [[definition.selectionSet]]
    while (level.length > 0) {
      const next: (readonly SelectionSetNode[])[] = []
      for (const sets of level)
        for (const { count, inner } of sameNames(sets, fragments)) {
          walked += count
          pairs += (count * (count - 1)) / 2
          if (inner.length > 0) next.push(inner)
        }
      if (pairs > GRAPHQL_PAIRS_MAX)
        throw badRequest(`The document asks too often for fields of one name: ${pairs} pairs of them.`)
      if (walked > GRAPHQL_SPREAD_FIELDS_MAX) throw badRequest('Fragments of the document spread each other.')
      level = next
    }
  }
}

interface SameName {
  count: number
  readonly inner: SelectionSetNode[]
}

/** The fields side by side in the answer, by their name there. A fragment is spread once. */
function sameNames(
  sets: readonly SelectionSetNode[],
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): Iterable<SameName> {
  const byName = new Map<string, SameName>()
  const seen = new Set<string>()
  const open = [...sets]
  for (let set = open.pop(); set !== undefined; set = open.pop())
    for (const selection of set.selections) {
      if (selection.kind === Kind.INLINE_FRAGMENT) open.push(selection.selectionSet)
      else if (selection.kind === Kind.FRAGMENT_SPREAD) {
        const fragment = fragments.get(selection.name.value)
        if (fragment === undefined || seen.has(selection.name.value)) continue
        seen.add(selection.name.value)
        open.push(fragment.selectionSet)
      } else {
        const name = (selection.alias ?? selection.name).value
        const same = byName.get(name) ?? { count: 0, inner: [] }
        same.count += 1
        if (selection.selectionSet !== undefined) same.inner.push(selection.selectionSet)
        byName.set(name, same)
      }
    }
  return byName.values()
}

/** The fields that a selection itself asks for, with its fragments but without inner selections. */
export type FieldCounter = (set: SelectionSetNode) => number

export function fieldCounter(document: DocumentNode): FieldCounter {
  const fragments = fragmentsOf(document)
  const counted = new Map<SelectionSetNode, number>()
  const count = (set: SelectionSetNode): number => {
    const known = counted.get(set)
    if (known !== undefined) return known
    let fields = 0
    for (const selection of set.selections) {
      if (selection.kind === Kind.FIELD) fields += 1
      else if (selection.kind === Kind.INLINE_FRAGMENT) fields += count(selection.selectionSet)
      else {
        const fragment = fragments.get(selection.name.value)
        if (fragment !== undefined) fields += count(fragment.selectionSet)
      }
    }
    counted.set(set, fields)
    return fields
  }
  return count
}

function fragmentsOf(document: DocumentNode): ReadonlyMap<string, FragmentDefinitionNode> {
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const definition of document.definitions)
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition)
  return fragments
}

const NOTHING: Size = { fields: 0, spreads: 0, depth: 0 }

/** Measures selections with their fragments spread. Each fragment is measured once. */
function measurer(document: DocumentNode): (set: SelectionSetNode) => Size {
  const fragments = fragmentsOf(document)
  const measured = new Map<string, Size>()
  const measureFragment = (name: string): Size => {
    const known = measured.get(name)
    if (known !== undefined) return known
    measured.set(name, NOTHING) // a cycle has no size; validation refuses it
    const fragment = fragments.get(name)
    const size = fragment === undefined ? NOTHING : measure(fragment.selectionSet)
    measured.set(name, size)
    return size
  }
  const measure = (set: SelectionSetNode): Size => {
    let fields = 0
    let spreads = 0
    let depth = 0
    for (const selection of set.selections) {
      const isField = selection.kind === Kind.FIELD
      const isSpread = selection.kind === Kind.FRAGMENT_SPREAD
      const inner = isSpread
        ? measureFragment(selection.name.value)
        : selection.selectionSet === undefined
          ? NOTHING
          : measure(selection.selectionSet)
      fields += inner.fields + (isField ? 1 : 0)
      spreads += inner.spreads + (isSpread ? 1 : 0)
      depth = Math.max(depth, inner.depth + (isField ? 1 : 0))
    }
    return { fields, spreads, depth }
  }
  return measure
}
