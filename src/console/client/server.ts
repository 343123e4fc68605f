/** The server as a whole: how it is, and the jobs under way. */
import { ask } from './request.ts'

export interface PoolActivity {
  readonly accepted: string
  readonly rejected: string
  readonly lastAcceptedAt: string | null
}

export interface ServerStatus {
  readonly version: string
  readonly startedAt: string
  readonly isReady: boolean
  readonly reason: string | null
  readonly accepted: string
  readonly rejected: string
  readonly acceptedBySecond: readonly number[]
  readonly rejectedBySecond: readonly number[]
  readonly syncMs: number | null
  readonly unflushedRecords: string
  readonly flushLagMs: number
  readonly segments: number
  readonly segmentBytes: number
  readonly diskBytes: number
  readonly diskFreeBytes: number
  readonly memoryBytes: number
  readonly busiest: readonly {
    readonly dataPool: { readonly id: string; readonly uniqueName: string; readonly isBuiltIn: boolean }
    readonly activity: PoolActivity
  }[]
}

export interface UnfinishedJob {
  readonly id: string
  readonly kind: string
  readonly status: string
  readonly progress: number
  readonly createdAt: string
  readonly dataPool: { readonly uniqueName: string }
}

export interface Overview {
  readonly serverStatus: ServerStatus
  readonly unfinishedJobs: readonly UnfinishedJob[]
}

export function loadOverview(signal: AbortSignal): Promise<Overview> {
  return ask<Overview>(
    `{
      serverStatus {
        version startedAt isReady reason accepted rejected acceptedBySecond rejectedBySecond syncMs
        unflushedRecords flushLagMs segments segmentBytes diskBytes diskFreeBytes memoryBytes
        busiest(first: 10) {
          dataPool { id uniqueName isBuiltIn }
          activity { accepted rejected lastAcceptedAt }
        }
      }
      unfinishedJobs { id kind status progress createdAt dataPool { uniqueName } }
    }`,
    {},
    signal,
  )
}
