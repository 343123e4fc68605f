/** Follows a job until it has ended. */
import { useState } from 'preact/hooks'
import type { Job } from '../client/sources.ts'
import { type Loaded, useLoad } from '../ui/load.ts'

const POLL_MS = 500

export function useJob<J extends Job>(
  id: string,
  load: (id: string, signal: AbortSignal) => Promise<J>,
): Loaded<J> & { readonly isEnded: boolean } {
  const [isEnded, setIsEnded] = useState(false)
  const loaded = useLoad(
    `job ${id}`,
    async signal => {
      const job = await load(id, signal)
      if (job.status === 'SUCCEEDED' || job.status === 'FAILED') setIsEnded(true)
      return job
    },
    isEnded ? undefined : POLL_MS,
  )
  return { ...loaded, isEnded }
}
