/** Resolvers of the server's state, for the console and whoever else looks. They change nothing. */
import { isGiven } from '../../query/plan/question.ts'
import type { Context } from './context.ts'
import { badRequest } from './graphql-errors.ts'
import type { Resolvers } from './schema-types.ts'

const BUSIEST = 20
const BUSIEST_MAX = 100

type Activity = NonNullable<ReturnType<Context['deps']['activity']['of']>>

export function shownActivity(activity: Activity | undefined) {
  const at = activity?.acceptedAtMs
  return {
    accepted: String(activity?.accepted ?? 0),
    rejected: String(activity?.rejected ?? 0),
    lastAcceptedAt: at === undefined ? null : new Date(at).toISOString(),
  }
}

export const serverQueries = {
  serverStatus: (_, __, { deps }) => deps.serverStatus(),
  unfinishedJobs: (_, __, { deps: { catalog }, budget }) => {
    const { jobs, pools } = catalog.read
    budget.items(jobs.size)
    return jobs.all().flatMap(job => {
      const dataPool = pools.get(job.poolId)
      const isOpen = job.status === 'CREATED' || job.status === 'IN_PROGRESS'
      return isOpen && dataPool !== undefined ? [{ ...job, dataPool }] : []
    })
  },
} satisfies Partial<Resolvers['Query']>

export const serverFields: Resolvers['ServerStatus'] = {
  busiest: (_, { first }, { deps }) => {
    const count = isGiven(first) ? first : BUSIEST
    if (count < 0 || count > BUSIEST_MAX) throw badRequest(`"first" is from 0 to ${BUSIEST_MAX}.`)
    return deps.activity.busiest(count).flatMap(activity => {
      const dataPool = deps.catalog.read.pools.get(activity.poolId)
      return dataPool === undefined ? [] : [{ dataPool, activity: shownActivity(activity) }]
    })
  },
}
