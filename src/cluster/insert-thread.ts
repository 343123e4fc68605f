/**
 * The thread that makes INSERTs: it gathers the columns of batches into blocks and sends them.
 *
 *   W-11 A block of megabytes is copied here, not on the main thread. Batches are shared memory.
 */
import type { MessagePort } from 'node:worker_threads'
import { type ClickHouseAddress, ClickHouseHttp } from '../query/clickhouse/http.ts'
import { serve } from '../util/thread-server.ts'
import { type InsertOptions, insertRows, type RowsToInsert, type Unproven } from './clickhouse/insert-rows.ts'
import type { Replica, Topology } from './clickhouse/topology.ts'

/** A topology without its connections, which belong to a thread. */
export interface SentTopology extends Omit<Topology, 'shards'> {
  readonly shards: readonly (readonly Omit<Replica, 'http'>[])[]
}

interface Insert extends Omit<InsertOptions, 'topology'> {
  readonly rows: RowsToInsert
  readonly topology: SentTopology
}

export interface InsertCalls {
  /** As insertRows. */
  insert(insert: Insert): readonly Unproven[]
}

export function sent({ shards, ...rest }: Topology): SentTopology {
  const plain = ({ http: _, ...replica }: Replica) => replica
  return { ...rest, shards: shards.map(replicas => replicas.map(plain)) }
}

export function serveInserts(port: MessagePort): void {
  const clients = new Map<string, ClickHouseHttp>()
  const clientOf = (address: ClickHouseAddress) => {
    const client = clients.get(address.url) ?? new ClickHouseHttp(address)
    clients.set(address.url, client)
    return client
  }
  const connected = ({ shards, ...rest }: SentTopology): Topology => ({
    ...rest,
    shards: shards.map(replicas =>
      replicas.map(replica => ({ ...replica, http: clientOf(replica.address) })),
    ),
  })
  serve<InsertCalls>(
    port,
    {
      async insert({ rows, topology, ...options }) {
        return await insertRows(rows, { ...options, topology: connected(topology) })
      },
    },
    {
      close: () => {
        for (const client of clients.values()) client.close()
      },
    },
  )
}
