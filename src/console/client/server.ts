/** The server as a whole: how it is, and the jobs under way. */
import { ACTIVITY } from './pools.ts'
import { type Chosen, textOf } from './query.ts'
import { ask } from './request.ts'
import type { Schema } from './schema.ts'

const OVERVIEW = {
  serverStatus: {
    _: 'version startedAt isReady reason accepted rejected acceptedBySecond rejectedBySecond syncMs unflushedRecords flushLagMs segments segmentBytes diskBytes diskFreeBytes memoryBytes',
    'busiest(first: 10)': { dataPool: 'id uniqueName isBuiltIn', activity: ACTIVITY },
  },
  unfinishedJobs: { _: 'id kind status progress createdAt', dataPool: 'uniqueName' },
} as const
export type Overview = Chosen<Schema['Query'], typeof OVERVIEW>
export type ServerStatus = Overview['serverStatus']
export type UnfinishedJob = Overview['unfinishedJobs'][number]

export function loadOverview(signal: AbortSignal): Promise<Overview> {
  return ask(`{ ${textOf(OVERVIEW)} }`, {}, signal)
}
