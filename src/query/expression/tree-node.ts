/** Reading of untyped JSON: the fields of a node, each checked as it is taken. */
import { isObject } from '../../util/json.ts'
import { Refused } from './values.ts'

/** A part of DuckDB's tree. */
export type Node = Readonly<Record<string, unknown>>

export function isNode(value: unknown): value is Node {
  return isObject(value)
}

/** Throws Refused if the node has any other field. */
export function onlyFields(node: Node, names: readonly string[]): void {
  const unknown = Object.keys(node).find(key => !names.includes(key))
  if (unknown !== undefined) throw new Refused('this is not one expression of the supported syntax')
}

export function nodeOf(node: Node, field: string): Node {
  const value = node[field]
  if (isNode(value)) return value
  throw new Refused('this is not one expression of the supported syntax')
}

/** The nodes of a list; an absent list is empty. */
export function nodesOf(node: unknown, field: string): readonly Node[] {
  const list = isNode(node) ? (node[field] ?? []) : undefined
  if (Array.isArray(list) && list.every(isNode)) return list
  throw new Refused('this is not one expression of the supported syntax')
}

export function textOf(node: Node, field: string): string {
  const value = node[field]
  if (typeof value === 'string') return value
  throw new Refused('this is not one expression of the supported syntax')
}
