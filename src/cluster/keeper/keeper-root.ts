/** The root of the catalog in Keeper: what all nodes of a cluster agree on. */
import { CannotRun } from '../../util/errors.ts'

export const FORMAT = 1

/** What all nodes must agree on, such as the number of shards. It never changes. */
export type Layout = Readonly<Record<string, string | number>>

export interface Root {
  readonly format: number
  /** Of the catalog: it rises by one with each change. */
  readonly version: number
  /** The oldest change that is kept. */
  readonly oldest: number
  readonly layout: Layout
  /** Added to the zxids of row versions: those of an earlier Keeper stay below (versions.ts). */
  readonly zxidOffset: number
}

/** Throws CannotRun where this node cannot be one of the cluster. */
export function checkRoot({ format, layout }: Root, ours: Layout): void {
  if (format !== FORMAT)
    throw new CannotRun(
      `the catalog in Keeper has format ${format}; this version of Weir reads format ${FORMAT}`,
    )
  for (const [name, found] of Object.entries(ours))
    if (layout[name] !== found)
      throw new CannotRun(
        `the cluster was made with ${name} ${layout[name]}, and this node finds ${found}: rows would be looked for where they are not`,
      )
}

export function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}
