/**
 * The checksum of all documents. LMDB's pages have none, and a flipped bit in a document may read
 * as another name, column or policy. It is the field `sum` of the stored `meta`: FORMAT.md.
 *
 * Each change writes it anew, with the number of the transaction. A version of Weir that does not
 * know it leaves it as it is when it changes a document: the transaction is then another one, and
 * nothing is compared until the next change.
 */
import { crc32 } from '../../util/crc32.ts'
import { Damaged } from '../../util/errors.ts'
import type { Change, Entry } from '../documents/catalog-types.ts'

const META = 'meta'

interface Sum {
  readonly txn: number
  /** Exclusive or of the CRC-32s of all documents, `meta` without this field included. */
  readonly crc: number
}

type Meta = Readonly<Record<string, unknown>> & { readonly sum?: Sum }

export class DocumentSums {
  readonly #crcs: Map<string, number>
  #crc: number
  #meta: Meta | undefined

  private constructor(documents: readonly Entry[]) {
    this.#crcs = new Map(documents.map(entry => [entry[0], crcOf(entry)]))
    this.#crc = [...this.#crcs.values()].reduce(xor, 0)
    this.#meta = metaOf(documents)
  }

  /**
   * Returns the documents without their checksum. @param txn the last transaction of the file
   * @throws Damaged naming `path`
   */
  static check(
    stored: readonly Entry[],
    txn: number,
    path: string,
  ): { readonly documents: readonly Entry[]; readonly sums: DocumentSums } {
    const sum = metaOf(stored)?.sum
    const documents = stored.map(withoutSum)
    const sums = new DocumentSums(documents)
    if (sum?.txn === txn && sum.crc !== sums.#crc)
      throw new Damaged(path, 0, 'its documents do not match their checksum')
    return { documents, sums }
  }

  withSum({ puts, removes }: Change, txn: number): Change {
    const meta = metaOf(puts) ?? (removes.includes(META) ? undefined : this.#meta)
    if (meta === undefined) return { puts, removes }
    const sum: Sum = { txn, crc: this.#crcAfter(this.#crcsOf({ puts, removes })) }
    return { puts: [...puts.filter(([key]) => key !== META), [META, { ...meta, sum }]], removes }
  }

  made({ puts, removes }: Change): void {
    const changed = this.#crcsOf({ puts, removes })
    this.#crc = this.#crcAfter(changed)
    for (const [key, crc] of changed)
      if (crc === undefined) this.#crcs.delete(key)
      else this.#crcs.set(key, crc)
    this.#meta = metaOf(puts) ?? (removes.includes(META) ? undefined : this.#meta)
  }

  /** The sums of what a change names. The last one counts where it names a document twice. */
  #crcsOf({ puts, removes }: Change): ReadonlyMap<string, number | undefined> {
    const changed = new Map<string, number | undefined>(removes.map(key => [key, undefined]))
    for (const entry of puts) changed.set(entry[0], crcOf(entry))
    return changed
  }

  /** It costs what the change holds: 20,000 pools have 60,000 documents. */
  #crcAfter(changed: ReadonlyMap<string, number | undefined>): number {
    let crc = this.#crc
    for (const [key, after] of changed) crc = xor(xor(crc, this.#crcs.get(key) ?? 0), after ?? 0)
    return crc
  }
}

function metaOf(documents: readonly Entry[]): Meta | undefined {
  return documents.find(([key]) => key === META)?.[1] as Meta | undefined
}

function withoutSum(entry: Entry): Entry {
  if (entry[0] !== META) return entry
  const { sum: _, ...meta } = entry[1] as Meta
  return [META, meta]
}

function crcOf(entry: Entry): number {
  return crc32(Buffer.from(JSON.stringify(entry)))
}

function xor(a: number, b: number): number {
  return (a ^ b) >>> 0
}
