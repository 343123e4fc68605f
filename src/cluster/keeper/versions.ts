/**
 * Versions of rows: 64-bit numbers that rise over all nodes of a cluster, in the order in which
 * requests follow one another. No clock is asked.
 *
 *   version   48 bits: zxid of one write to Keeper + offset    16 bits: row of that write
 *
 * A write is sent after the requests that it serves were parsed, and before they are answered. So a
 * request that begins after another's answer has the higher versions, on whichever nodes they are.
 * Requests that come while a write is away share the next one.
 */
import { ROW_BITS } from '../../query/clickhouse/rows.ts'
import { assert, Unavailable } from '../../util/errors.ts'
import { KEEPER_ERROR } from './jute.ts'
import { isRefused, type KeeperClient } from './keeper-client.ts'

/** Rows that one write serves. The last number is free for jobs. */
export const ROWS_MAX = 2 ** Number(ROW_BITS) - 1
const ZXID_BITS = 48n
const NOTHING = new Uint8Array(0)

interface Waiting {
  readonly rows: number
  resolve(first: bigint): void
  reject(error: unknown): void
}

export class Versions {
  readonly #keeper: KeeperClient
  readonly #path: string
  readonly #zxidOffset: bigint
  #waiting: Waiting[] = []
  #isWriting = false

  /** @param path of the node that is written; its parent is there */
  constructor(keeper: KeeperClient, path: string, zxidOffset: number) {
    this.#keeper = keeper
    this.#path = path
    this.#zxidOffset = BigInt(zxidOffset)
  }

  /** Makes the node. */
  async open(): Promise<void> {
    try {
      await this.#keeper.write({ kind: 'create', path: this.#path, data: NOTHING })
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.nodeExists)) throw error
    }
  }

  /**
   * A number of at most 53 bits, which no other call gets. Versions that were taken before the call
   * are below it, when they are shifted right by 16 bits, and later ones above. Rejects with
   * Unavailable.
   */
  async boundary(): Promise<number> {
    return Number(await this.#base())
  }

  /** The first of `rows` versions that follow one another. Rejects with Unavailable. */
  take(rows: number): Promise<bigint> {
    assert(rows > 0 && rows <= ROWS_MAX, 'a batch has at most as many rows as a version counts')
    return new Promise((resolve, reject) => {
      this.#waiting.push({ rows, resolve, reject })
      if (!this.#isWriting) void this.#write()
    })
  }

  async #write(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const served = this.#fitting()
      try {
        let first = (await this.#base()) << ROW_BITS
        for (const { rows, resolve } of served) {
          resolve(first)
          first += BigInt(rows)
        }
      } catch (error) {
        for (const { reject } of served) reject(error)
      }
    }
    this.#isWriting = false
  }

  async #base(): Promise<bigint> {
    const { zxid } = await this.#keeper.write({ kind: 'setData', path: this.#path, data: NOTHING })
    return baseOf(zxid + this.#zxidOffset)
  }

  /** The first that wait, as many as one write serves. */
  #fitting(): Waiting[] {
    let rows = 0
    const over = this.#waiting.findIndex(waiting => {
      rows += waiting.rows
      return rows > ROWS_MAX
    })
    return this.#waiting.splice(0, over < 0 ? this.#waiting.length : over)
  }
}

/**
 * The version of the rows that a job changes. It is above those of all rows that the job may
 * change, below those that are taken after the job's boundary, and no row of a request has it.
 */
export function versionOfJob(boundary: number): bigint {
  return (BigInt(boundary) << ROW_BITS) - 1n
}

/** The version of the first row that a write to Keeper serves. Throws Unavailable. */
export function versionOfZxid(zxid: bigint): bigint {
  return baseOf(zxid) << ROW_BITS
}

function baseOf(zxid: bigint): bigint {
  if (zxid < 1n << ZXID_BITS) return zxid
  throw new Unavailable('keeper_exhausted', 'Keeper has had more changes than a version of a row counts')
}
