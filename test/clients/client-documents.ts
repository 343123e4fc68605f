/** The documents of existing clients, from the .graphql files beside this one. */
import { readdirSync, readFileSync } from 'node:fs'
import type * as Graphql from 'graphql'
import { must } from '../../src/util/errors.ts'
import { loadPackage } from '../../src/util/load-package.ts'

const { Kind, parse, print, visit } = loadPackage('graphql') as typeof Graphql

const FOLDER = new URL('../../../test/clients/documents/', import.meta.url)

interface Operation {
  /** Its name; without one, the name of its first field. */
  readonly name: string
  /** The operation with the fragments that it spreads, as a client sends it. */
  readonly text: string
}

/** The files, one for each client. */
export function documentFiles(): string[] {
  return readdirSync(FOLDER).sort()
}

/** Every operation of a file. */
export function operationsOf(file: string): Operation[] {
  const { definitions } = parse(readFileSync(new URL(file, FOLDER), 'utf8'))
  const fragments = new Map(
    definitions.flatMap(each =>
      each.kind === Kind.FRAGMENT_DEFINITION ? [[each.name.value, each] as const] : [],
    ),
  )
  return definitions.flatMap(each => {
    if (each.kind !== Kind.OPERATION_DEFINITION) return []
    const spread = [...spreadBy(each, fragments, new Set())].map(name => must(fragments.get(name), name))
    const [field] = each.selectionSet.selections
    const name = each.name?.value ?? (field?.kind === Kind.FIELD ? field.name.value : '')
    return [{ name, text: [each, ...spread].map(print).join('\n') }]
  })
}

function spreadBy(
  node: Graphql.ASTNode,
  fragments: ReadonlyMap<string, Graphql.ASTNode>,
  seen: Set<string>,
): Set<string> {
  visit(node, {
    FragmentSpread({ name: { value } }) {
      if (seen.has(value)) return
      seen.add(value)
      spreadBy(must(fragments.get(value), `the fragment ${value}`), fragments, seen)
    },
  })
  return seen
}
