/**
 * A document's text becomes a checked document. Everything recursive comes after the checks that bound it:
 * brackets and tokens before parsing, fragments, fields and nesting (fragments spread) before validation.
 */
import type { DocumentNode, FragmentDefinitionNode, GraphQLSchema, SelectionSetNode } from 'graphql'
import {
  GRAPHQL_DEPTH_MAX,
  GRAPHQL_DOCUMENTS_KEPT,
  GRAPHQL_FIELDS_MAX,
  GRAPHQL_FRAGMENTS_MAX,
  GRAPHQL_KEPT_CHARACTERS_MAX,
  GRAPHQL_NESTING_MAX,
  GRAPHQL_TOKENS_MAX,
} from '../limits.ts'
import { must } from '../util/assert.ts'
import { badRequest } from './errors.ts'
import { GraphQLError, Kind, Lexer, parse, Source, TokenKind, validate } from './library.ts'

const VALIDATION_ERRORS_MAX = 20

/** The document, or the errors to answer. */
type ReadDocument = DocumentNode | readonly GraphQLError[]

/** `readDocument` for one schema, with the last good documents kept. */
export function documentReader(schema: GraphQLSchema): (text: string) => ReadDocument {
  const kept = new Map<string, DocumentNode>() // in order of use, oldest first
  return text => {
    const known = kept.get(text)
    if (known === undefined && text.length > GRAPHQL_KEPT_CHARACTERS_MAX) return readDocument(text, schema)
    const read = known ?? readDocument(text, schema)
    if (!('kind' in read)) return read
    kept.delete(text)
    kept.set(text, read)
    if (kept.size > GRAPHQL_DOCUMENTS_KEPT) kept.delete(must(kept.keys().next().value, 'the oldest'))
    return read
  }
}

/** Parses and checks one document. */
function readDocument(text: string, schema: GraphQLSchema): ReadDocument {
  try {
    checkTokens(text)
    const document = parse(text)
    checkSize(document)
    const errors = validate(schema, document, undefined, { maxErrors: VALIDATION_ERRORS_MAX })
    return errors.length > 0 ? errors : document
  } catch (error) {
    if (error instanceof GraphQLError) return [error]
    throw error
  }
}

function checkTokens(text: string): void {
  const lexer = new Lexer(new Source(text))
  let open = 0
  for (let tokens = 0; ; tokens++) {
    const { kind } = lexer.advance()
    if (kind === TokenKind.EOF) return
    if (kind === TokenKind.BRACE_L || kind === TokenKind.BRACKET_L || kind === TokenKind.PAREN_L) open += 1
    else if (kind === TokenKind.BRACE_R || kind === TokenKind.BRACKET_R || kind === TokenKind.PAREN_R)
      open -= 1
    if (open > GRAPHQL_NESTING_MAX)
      throw badRequest(`The document opens more than ${GRAPHQL_NESTING_MAX} brackets.`)
    if (tokens >= GRAPHQL_TOKENS_MAX)
      throw badRequest(`The document has more than ${GRAPHQL_TOKENS_MAX} tokens.`)
  }
}

interface Size {
  readonly fields: number
  readonly depth: number
}

function checkSize(document: DocumentNode): void {
  const fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION).length
  if (fragments > GRAPHQL_FRAGMENTS_MAX)
    throw badRequest(`The document has more than ${GRAPHQL_FRAGMENTS_MAX} fragments.`)
  const measure = measurer(document)
  let fields = 0
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION && definition.kind !== Kind.FRAGMENT_DEFINITION)
      continue
    const size = measure(definition.selectionSet)
    if (definition.kind === Kind.OPERATION_DEFINITION) fields += size.fields
    else fields = Math.max(fields, size.fields)
    if (fields > GRAPHQL_FIELDS_MAX)
      throw badRequest(`The document asks for more than ${GRAPHQL_FIELDS_MAX} fields.`)
    if (size.depth > GRAPHQL_DEPTH_MAX)
      throw badRequest(`The document nests deeper than ${GRAPHQL_DEPTH_MAX} fields.`)
  }
}

/** How many fields a selection of a document asks for, fragments spread. Selections are measured once. */
export function fieldCounter(document: DocumentNode): (set: SelectionSetNode) => number {
  const measure = measurer(document)
  const counted = new Map<SelectionSetNode, number>()
  return set => {
    const fields = counted.get(set) ?? measure(set).fields
    counted.set(set, fields)
    return fields
  }
}

/** Sizes with fragments spread; each fragment is measured once, so many spreads of spreads cost nothing. */
function measurer(document: DocumentNode): (set: SelectionSetNode) => Size {
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const definition of document.definitions)
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition)
  const measured = new Map<string, Size>()
  const measureFragment = (name: string): Size => {
    const known = measured.get(name)
    if (known !== undefined) return known
    measured.set(name, { fields: 0, depth: 0 }) // a cycle counts as nothing: validation refuses it
    const fragment = fragments.get(name)
    const size = fragment === undefined ? { fields: 0, depth: 0 } : measure(fragment.selectionSet)
    measured.set(name, size)
    return size
  }
  const measure = (set: SelectionSetNode): Size => {
    let fields = 0
    let depth = 0
    for (const selection of set.selections) {
      const isField = selection.kind === Kind.FIELD
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? measureFragment(selection.name.value)
          : selection.selectionSet === undefined
            ? { fields: 0, depth: 0 }
            : measure(selection.selectionSet)
      fields += inner.fields + (isField ? 1 : 0)
      depth = Math.max(depth, inner.depth + (isField ? 1 : 0))
    }
    return { fields, depth }
  }
  return measure
}
