/**
 * The bytes of the ZooKeeper protocol, which ClickHouse Keeper speaks too: big-endian numbers, and
 * lengths before texts, buffers and lists. Source: zookeeper.jute of Apache ZooKeeper 3.8.
 *
 *   frame    i32 bytes, then a request or a reply
 *   request  i32 xid, i32 operation, its fields
 *   reply    i32 xid, i64 zxid, i32 error, the fields of its result
 */
import { Unavailable } from '../../util/errors.ts'

/** The numbers of the operations. */
export const OPERATION = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getChildren: 8,
  sync: 9,
  check: 13,
  multi: 14,
  auth: 100,
  closeSession: -11,
} as const

/** The xids of frames that answer no request of a caller. */
export const XID = { notification: -1, auth: -4 } as const

/** Errors that a caller tells apart. */
export const KEEPER_ERROR = {
  runtimeInconsistency: -2,
  /** Errors above it are the server's. */
  ofRequests: -100,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  notEmpty: -111,
} as const

/** What a node says of itself, without its times. */
export interface Stat {
  /** The zxid of the change that made the node. */
  readonly createdZxid: bigint
  /** The zxid of the change that made its data. */
  readonly changedZxid: bigint
  /** It rises by one with each change of the data. */
  readonly version: number
  /** It rises with each child that comes, and with most that go. */
  readonly childrenVersion: number
  /** The session that it ends with; 0n for a node that stays. */
  readonly ephemeralOwner: bigint
}

/** Writes the fields of one frame. */
export class JuteWriter {
  #parts: Buffer[] = []

  int(value: number): this {
    const bytes = Buffer.allocUnsafe(4)
    bytes.writeInt32BE(value)
    this.#parts.push(bytes)
    return this
  }

  long(value: bigint): this {
    const bytes = Buffer.allocUnsafe(8)
    bytes.writeBigInt64BE(value)
    this.#parts.push(bytes)
    return this
  }

  boolean(value: boolean): this {
    this.#parts.push(Buffer.from([value ? 1 : 0]))
    return this
  }

  buffer(value: Uint8Array): this {
    this.int(value.byteLength)
    this.#parts.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    return this
  }

  text(value: string): this {
    return this.buffer(Buffer.from(value))
  }

  /** The frame: the fields so far, with their length before them. */
  frame(): Buffer {
    const length = Buffer.allocUnsafe(4)
    length.writeInt32BE(this.#parts.reduce((sum, part) => sum + part.byteLength, 0))
    return Buffer.concat([length, ...this.#parts])
  }
}

/** A frame that ends before its fields do: the other side is no Keeper. */
export class BrokenFrame extends Unavailable {
  constructor(what: string) {
    super('keeper_broken', `Keeper: ${what}`)
  }
}

/** Reads the fields of one frame. Throws BrokenFrame. */
export class JuteReader {
  readonly #bytes: Buffer
  #at = 0

  /** @param bytes a frame without its length */
  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#skip(4))
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.#skip(8))
  }

  boolean(): boolean {
    return this.#bytes[this.#skip(1)] !== 0
  }

  /** A copy: the frame's memory is not held by what a caller keeps. Absent data is empty. */
  buffer(): Buffer {
    const length = Math.max(0, this.int())
    const from = this.#skip(length)
    return Buffer.from(this.#bytes.subarray(from, from + length))
  }

  text(): string {
    return this.buffer().toString()
  }

  texts(): string[] {
    const count = Math.max(0, this.int())
    // A text takes four bytes at least.
    if (count > this.#bytes.byteLength / 4) throw new BrokenFrame('a list is longer than its frame')
    return Array.from({ length: count }, () => this.text())
  }

  stat(): Stat {
    const createdZxid = this.long()
    const changedZxid = this.long()
    this.#skip(16) // created and changed at
    const version = this.int()
    const childrenVersion = this.int()
    this.#skip(4) // version of rights
    const ephemeralOwner = this.long()
    this.#skip(16) // bytes of data, number of children, zxid of the last change of those
    return { createdZxid, changedZxid, version, childrenVersion, ephemeralOwner }
  }

  #skip(bytes: number): number {
    const from = this.#at
    this.#at += bytes
    if (bytes < 0 || this.#at > this.#bytes.byteLength) throw new BrokenFrame('a frame is too short')
    return from
  }
}

/** A change of one node, alone or as a part of a multi. */
export type Write =
  | {
      readonly kind: 'create'
      readonly path: string
      readonly data: Uint8Array
      readonly isEphemeral?: boolean
    }
  | { readonly kind: 'setData'; readonly path: string; readonly data: Uint8Array; readonly version?: number }
  | { readonly kind: 'delete'; readonly path: string; readonly version?: number }
  | { readonly kind: 'check'; readonly path: string; readonly version: number }

/** Any version of a node. */
export const ANY = -1
const EPHEMERAL = 1
const ALL_RIGHTS = 31

/** Who may do what with a node that this client makes. */
export type Rights = 'everyone' | 'creator'

/** The fields of a write. With `creator` only the digest that made a node may touch it. */
export function writeFields(writer: JuteWriter, write: Write, rights: Rights): JuteWriter {
  writer.text(write.path)
  switch (write.kind) {
    case 'create':
      writer.buffer(write.data).int(1).int(ALL_RIGHTS)
      if (rights === 'creator') writer.text('auth').text('')
      else writer.text('world').text('anyone')
      return writer.int(write.isEphemeral === true ? EPHEMERAL : 0)
    case 'setData':
      return writer.buffer(write.data).int(write.version ?? ANY)
    case 'delete':
    case 'check':
      return writer.int(write.version ?? ANY)
  }
}

/** The fields of a multi: each write behind a header, then a header that ends them. */
export function multiFields(writer: JuteWriter, writes: readonly Write[], rights: Rights): JuteWriter {
  for (const write of writes) {
    writer.int(OPERATION[write.kind]).boolean(false).int(ANY)
    writeFields(writer, write, rights)
  }
  return writer.int(-1).boolean(true).int(-1)
}

/** The error that made a multi change nothing; 0 where it was made. */
export function multiError(reader: JuteReader): number {
  for (let failed = 0; ; ) {
    const operation = reader.int()
    const isEnd = reader.boolean()
    reader.int()
    if (isEnd) return failed
    switch (operation) {
      case OPERATION.create:
        reader.text()
        break
      case OPERATION.setData:
        reader.stat()
        break
      case OPERATION.delete:
      case OPERATION.check:
        break
      case -1: {
        // The write that failed has its error. Those before it have 0, those behind it another one.
        const error = reader.int()
        if (error !== 0 && error !== KEEPER_ERROR.runtimeInconsistency) return error
        failed = KEEPER_ERROR.runtimeInconsistency
        break
      }
      default:
        throw new BrokenFrame(`a multi has no operation ${operation}`)
    }
  }
}
