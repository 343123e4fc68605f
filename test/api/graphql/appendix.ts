/** Reads appendix-a.txt: the schema that existing clients are written against. */
import { readFileSync } from 'node:fs'
import { must } from '../../../src/util/errors.ts'

/** A type: its kind, and its members (fields, values or types) as one line each. */
export interface Expected {
  readonly kind: 'type' | 'input' | 'enum' | 'union' | 'interface'
  readonly members: readonly string[]
}

const TEXT = new URL('../../../../test/api/graphql/appendix-a.txt', import.meta.url)
const PAGE = 'first: Int, after: String, last: Int, before: String'

/** Every type of the appendix by name, with connections, edges and common fields written out. */
export function readAppendix(): ReadonlyMap<string, Expected> {
  const types = new Map<string, Expected & { members: string[] }>()
  let members: string[] = []
  for (const line of readFileSync(TEXT, 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    if (line.startsWith(' ')) {
      members.push(...line.split(/;(?![^(]*\))/).flatMap(part => part.trim() || []))
      continue
    }
    const [kind, name] = line.split(' ')
    members = []
    types.set(must(name, 'a name'), { kind: kind as Expected['kind'], members })
  }
  const common = must(types.get('Common'), 'Common').members
  for (const type of types.values()) {
    const at = type.members.indexOf('Common')
    if (at >= 0) type.members.splice(at, 1, ...common)
  }
  for (const type of [...types.values()]) for (const member of type.members) addConnection(types, member)
  return new Map(
    [...types].map(([name, { kind, members: all }]) => [name, { kind, members: all.map(written).sort() }]),
  )
}

function addConnection(types: Map<string, Expected & { members: string[] }>, member: string): void {
  const [, node] = /: (\w+)Connection!?$/.exec(member) ?? []
  if (node === undefined || types.has(`${node}Connection`)) return
  const more = node === 'Column' || node === 'Table' ? ['cachedAt: DateTime!'] : []
  const members = [`edges: [${node}Edge!]!`, `nodes: [${node}!]!`, 'pageInfo: PageInfo!', ...more]
  types.set(`${node}Connection`, { kind: 'type', members })
  types.set(`${node}Edge`, { kind: 'type', members: ['cursor: String!', `node: ${node}!`] })
}

/** A member with its pages written out. */
function written(member: string): string {
  return member.replace('(page)', `(${PAGE})`).replace(', page)', `, ${PAGE})`)
}
