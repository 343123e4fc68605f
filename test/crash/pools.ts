/** The pools that the load writes to, and how their events and deletes are spelled. */
import type { Random } from '../util/random.ts'
import { below } from '../util/random.ts'
import type { PoolSpec } from '../util/server.ts'
import { FORM, IN_HEADERS, LINES, SECRET, type Sender, SIGNED } from './senders.ts'

/** A kind of pool. */
export interface PoolKind {
  readonly spec: PoolSpec
  /** Rows have a key: they can be replaced and deleted. */
  readonly isKeyed: boolean
  /**
   * True where retention may remove the row of key number `n`; undefined in a pool without
   * retention.
   */
  readonly isOld?: (n: number) => boolean
  /** Absent for plain JSON. */
  readonly sender?: Sender
  /** The key properties of key number `n` of a client, spelled in one of several ways. */
  keyOf(client: string, n: number, random: Random): Record<string, unknown>
}

const column = (name: string, type: string) => ({ name, jsonProperty: name, type, nullable: false })
const CLIENT = column('client', 'STRING')
const STAMP = column('stamp', 'INT64')
const DAY_MS = 86_400_000
const FIRST_DAY_MS = Date.UTC(2026, 0, 1)

/** The pool with retention, which retention.ts changes during the load. */
export const KEEPS_DAYS = 'keeps-days'

function isOld(n: number): boolean {
  return n % 2 === 1
}

/** One instant in one of the spellings that clients use. */
function spellTime(ms: number, random: Random): string | number {
  const iso = new Date(ms).toISOString()
  const spellings = [iso, ms, ms / 1000, iso.replace('T', ' ').slice(0, 19), iso.replace('Z', '+00:00')]
  return spellings[below(random, spellings.length)]!
}

export const POOL_KINDS: readonly PoolKind[] = [
  {
    spec: {
      uniqueName: 'by-time',
      columns: [column('ts', 'TIMESTAMP'), column('id', 'STRING'), CLIENT, STAMP],
      timestamp: 'ts',
      uniqueId: 'id',
      tenant: 'client',
    },
    isKeyed: true,
    keyOf: (client, n, random) => ({
      ts: spellTime(FIRST_DAY_MS + (n % 5) * DAY_MS + 1000, random),
      id: `${client}-${n - (n % 2)}`, // two rows share an id and differ in their time
    }),
  },
  {
    spec: {
      uniqueName: 'by-day',
      columns: [column('day', 'DATE'), column('id', 'INT64'), CLIENT, STAMP],
      timestamp: 'day',
      uniqueId: 'id',
    },
    isKeyed: true,
    keyOf: (client, n) => ({
      day: new Date(FIRST_DAY_MS + (n % 5) * DAY_MS).toISOString().slice(0, 10),
      id: numberOf(client) * 1_000_000 + n,
    }),
  },
  {
    // Stamps rise, so the highest one is the last one: versions change nothing that the load knows.
    spec: {
      uniqueName: 'highest-stamp',
      columns: [column('id', 'STRING'), CLIENT, STAMP],
      tableSettings: {
        engine: { replacingMergeTree: { ver: 'stamp' } },
        orderBy: ['client', 'id'],
      },
    },
    isKeyed: true,
    keyOf: (client, n) => ({ client, id: `id ${n}` }),
  },
  {
    spec: { uniqueName: 'no-key', columns: [CLIENT, STAMP] },
    isKeyed: false,
    keyOf: () => ({}),
  },
  {
    // Few ids: events of one request share them, and only their arrival keeps them apart.
    spec: { uniqueName: 'by-arrival', columns: [column('id', 'STRING'), CLIENT, STAMP], uniqueId: 'id' },
    isKeyed: false,
    keyOf: (_, n) => ({ id: `id ${n % 3}` }),
  },
  {
    spec: {
      uniqueName: 'by-id-and-arrival',
      columns: [column('id', 'STRING'), CLIENT, STAMP],
      tableSettings: { orderBy: ['id', '_service_received_at', 'client'] },
    },
    isKeyed: false,
    keyOf: (_, n) => ({ id: `${'long '.repeat(50 * (n % 2))}${n % 3}` }),
  },
  {
    spec: {
      uniqueName: KEEPS_DAYS,
      columns: [column('ts', 'TIMESTAMP'), column('id', 'INT64'), CLIENT, STAMP],
      timestamp: 'ts',
      uniqueId: 'id',
    },
    isKeyed: true,
    isOld,
    keyOf: (client, n) => ({
      ts: `${isOld(n) ? 2001 : 2101}-0${1 + (n % 9)}-01`, // future rows stay, whenever this runs
      id: numberOf(client) * 1_000_000 + n,
    }),
  },
  {
    spec: {
      uniqueName: 'in-headers',
      columns: [column('id', 'INT64'), { ...CLIENT, jsonProperty: '$header.x-client' }, STAMP],
      tableSettings: { orderBy: ['client', 'id'] },
    },
    isKeyed: true,
    sender: IN_HEADERS,
    keyOf: (client, n) => ({ id: n, '$header.x-client': client }),
  },
  {
    spec: {
      uniqueName: 'lines',
      columns: [column('id', 'INT64'), { ...CLIENT, jsonProperty: '$query.client' }, STAMP],
      tableSettings: { orderBy: ['client', 'id'] },
    },
    isKeyed: true,
    sender: LINES,
    keyOf: (client, n) => ({ id: n, '$query.client': client }),
  },
  {
    spec: {
      uniqueName: 'forms',
      columns: [{ ...column('id', 'INT64'), coerce: true }, CLIENT, { ...STAMP, coerce: true }],
      tableSettings: { orderBy: ['client', 'id'] },
      accept: ['FORM'],
    },
    isKeyed: true,
    sender: FORM,
    keyOf: (client, n) => ({ id: n, client }),
  },
  {
    spec: {
      uniqueName: 'signed',
      columns: [column('id', 'INT64'), CLIENT, STAMP],
      tableSettings: { orderBy: ['client', 'id'] },
      eventsPath: 'data.items',
      signature: {
        scheme: 'GENERIC_HMAC',
        secrets: [SECRET],
        header: 'x-signature',
        signed: '{method}.{body}',
      },
    },
    isKeyed: true,
    sender: SIGNED,
    keyOf: (client, n) => ({ id: n, client }),
  },
]

/**
 * The value of the column `client` of rows that retention may remove: no sum of stamps counts them.
 */
export const oldName = (client: string): string => `${client} old`

/** Pools that are created and deleted during the load. */
export const SHORT_LIVED: PoolSpec = {
  columns: [column('ts', 'TIMESTAMP'), column('id', 'STRING'), CLIENT, STAMP],
  timestamp: 'ts',
  uniqueId: 'id',
}

/** Names differ in their last character only. */
function numberOf(client: string): number {
  return client.charCodeAt(client.length - 1)
}
