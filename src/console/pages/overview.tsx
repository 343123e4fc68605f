/** Overview: is all well, what comes in, from whom. */
import { useMemo, useRef } from 'preact/hooks'
import {
  loadOverview,
  type Overview as OverviewData,
  type ServerStatus,
  type UnfinishedJob,
} from '../client/server.ts'
import { bytes, count, decimal, percent, sumOf } from '../model/format.ts'
import { Chart, Legend, type Line } from '../ui/chart.tsx'
import { useLoad } from '../ui/load.ts'
import { Badge, Empty, Heading, Meter, Show, Time } from '../ui/parts.tsx'
import { Table } from '../ui/table.tsx'
import { toEvents, toRejected } from './routes.ts'

const POLL_MS = 2_000
/** Seconds over which the present rate is averaged. */
const RATE_SECONDS = 10
/** Less free space than this part is worth a look. */
const DISK_FREE_LOW = 0.1

export function Overview() {
  const loaded = useLoad('overview', loadOverview, POLL_MS)
  const rates = useRates(loaded.data?.serverStatus)
  return (
    <>
      <Heading title="Overview">
        <a class="button primary" href="/new-source">
          New source
        </a>
      </Heading>
      <Show from={loaded}>{data => <Server data={data} rates={rates} />}</Show>
    </>
  )
}

/** Events a second by pool: accepted between the last two answers. */
type Rates = ReadonlyMap<string, number>

function useRates(status: ServerStatus | undefined): Rates {
  const before = useRef<{ readonly status: ServerStatus; readonly atMs: number } | undefined>(undefined)
  const rates = useRef<Rates>(new Map())
  if (status !== undefined && before.current?.status !== status) {
    const atMs = performance.now()
    rates.current =
      before.current === undefined
        ? new Map()
        : ratesOf(before.current.status, status, atMs - before.current.atMs)
    before.current = { status, atMs }
  }
  return rates.current
}

function ratesOf(before: ServerStatus, now: ServerStatus, ms: number): Rates {
  // After a restart the counts begin again.
  if (before.startedAt !== now.startedAt) return new Map()
  const counts = new Map(before.busiest.map(({ dataPool, activity }) => [dataPool.id, +activity.accepted]))
  return new Map(
    now.busiest.flatMap(({ dataPool: { id }, activity }) => {
      const known = counts.get(id)
      return known === undefined ? [] : [[id, ((+activity.accepted - known) * 1000) / ms] as const]
    }),
  )
}

function Server({
  data: { serverStatus: status, unfinishedJobs },
  rates,
}: {
  data: OverviewData
  rates: Rates
}) {
  return (
    <>
      <Health status={status} />
      <Activity status={status} />
      <section>
        <h2>Busiest sources since the start</h2>
        {status.busiest.length === 0 ? <NothingYet /> : <Busiest status={status} rates={rates} />}
      </section>
      {unfinishedJobs.length > 0 && <Jobs jobs={unfinishedJobs} />}
    </>
  )
}

function Health({ status }: { status: ServerStatus }) {
  const free = status.diskBytes === 0 ? 1 : status.diskFreeBytes / status.diskBytes
  const tiles: readonly (readonly [string, string, string?])[] = [
    ['Events a second', decimal(rateOf(status.acceptedBySecond)), 'accepted, over ten seconds'],
    ['Accepted', count(status.accepted), 'since the start'],
    ['Rejected', count(status.rejected), 'since the start'],
    ['Sync', status.syncMs === null ? '–' : `${decimal(status.syncMs)} ms`, 'of a group of requests'],
    ['Segments', count(status.segments), bytes(status.segmentBytes)],
    [
      'Lag of segments',
      `${decimal(status.flushLagMs / 1000)} s`,
      `${count(status.unflushedRecords)} records, which queries see already`,
    ],
    ['Disk free', percent(free), bytes(status.diskFreeBytes)],
    ['Memory', bytes(status.memoryBytes), 'main process'],
  ]
  return (
    <section aria-label="State">
      <p class="state">
        {status.isReady ? <Badge kind="good">Ready</Badge> : <Badge kind="bad">Not ready</Badge>}{' '}
        {status.reason ?? 'Events are accepted, synced and visible to queries.'}{' '}
        {free < DISK_FREE_LOW && <Badge kind="warn">The disk is nearly full</Badge>}
      </p>
      <dl class="tiles">
        {tiles.map(([title, value, hint]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>
              {value}
              {hint !== undefined && <small>{hint}</small>}
            </dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        Weir {status.version}, started <Time iso={status.startedAt} isRelative />
      </p>
    </section>
  )
}

function rateOf(bySecond: readonly number[]): number {
  const last = bySecond.slice(-RATE_SECONDS)
  return last.length === 0 ? 0 : sumOf(last) / last.length
}

function Activity({ status }: { status: ServerStatus }) {
  const { acceptedBySecond, rejectedBySecond } = status
  const lines: readonly Line[] = useMemo(
    () => [
      { title: 'Accepted', color: '--accent', values: acceptedBySecond },
      { title: 'Rejected', color: '--bad', values: rejectedBySecond },
    ],
    [acceptedBySecond, rejectedBySecond],
  )
  const times = useMemo(() => {
    const now = Math.floor(Date.now() / 1000)
    return acceptedBySecond.map((_, at) => now - acceptedBySecond.length + at)
  }, [acceptedBySecond])
  const sum = (values: readonly number[]) => count(sumOf(values))
  return (
    <section>
      <h2>Events a second, last five minutes</h2>
      <Legend lines={lines} />
      <Chart
        label={`Events in the last five minutes: ${sum(acceptedBySecond)} accepted, ${sum(rejectedBySecond)} rejected.`}
        times={times}
        lines={lines}
      />
    </section>
  )
}

function Busiest({ status, rates }: { status: ServerStatus; rates: Rates }) {
  return (
    <Table
      label="Busiest sources"
      rows={status.busiest}
      keyOf={({ dataPool }) => dataPool.id}
      columns={[
        {
          title: 'Data pool',
          isHead: true,
          cell: ({ dataPool }) => <a href={toEvents(dataPool.uniqueName)}>{dataPool.uniqueName}</a>,
        },
        {
          title: 'Events a second',
          isNumber: true,
          cell: ({ dataPool }) => (rates.has(dataPool.id) ? decimal(rates.get(dataPool.id)!) : '–'),
        },
        { title: 'Accepted', isNumber: true, cell: ({ activity }) => count(activity.accepted) },
        {
          title: 'Rejected',
          isNumber: true,
          cell: ({ dataPool, activity }) =>
            activity.rejected === '0' ? (
              '0'
            ) : (
              <a href={toRejected(dataPool.uniqueName)}>{count(activity.rejected)}</a>
            ),
        },
        {
          title: 'Last event',
          cell: ({ activity }) =>
            activity.lastAcceptedAt === null ? '–' : <Time iso={activity.lastAcceptedAt} isRelative />,
        },
      ]}
    />
  )
}

function NothingYet() {
  return (
    <Empty title="No event has come since the start">
      <p>
        Create a <a href="/new-source">source</a> for your sender, or open one of your{' '}
        <a href="/sources">sources</a>: its Connect tab has the URL and a command to paste.
      </p>
    </Empty>
  )
}

function Jobs({ jobs }: { jobs: readonly UnfinishedJob[] }) {
  return (
    <section>
      <h2>Jobs under way</h2>
      <Table
        label="Jobs under way"
        rows={jobs}
        keyOf={job => job.id}
        columns={[
          { title: 'Job', isHead: true, cell: job => job.kind.toLowerCase().replaceAll('_', ' ') },
          { title: 'Data pool', cell: job => job.dataPool.uniqueName },
          { title: 'Progress', cell: job => <Meter value={job.progress} label={`Progress of ${job.id}`} /> },
          { title: 'Created', cell: job => <Time iso={job.createdAt} isRelative /> },
        ]}
      />
    </section>
  )
}
