/** Overview: is all well, what comes in, from whom. */
import { useMemo } from 'preact/hooks'
import {
  loadOverview,
  type Overview as OverviewData,
  type ServerStatus,
  type UnfinishedJob,
} from '../client/server.ts'
import { bytes, count, decimal, percent } from '../model/format.ts'
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
  return (
    <>
      <Heading title="Overview">
        <a class="button primary" href="/new-source">
          New source
        </a>
      </Heading>
      <Show from={loaded}>{data => <Server data={data} />}</Show>
    </>
  )
}

function Server({ data: { serverStatus: status, unfinishedJobs } }: { data: OverviewData }) {
  return (
    <>
      <Health status={status} />
      <Activity status={status} />
      <section>
        <h2>Busiest sources since the start</h2>
        {status.busiest.length === 0 ? <NothingYet /> : <Busiest status={status} />}
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
    ['Not yet in segments', count(status.unflushedRecords), 'records, which queries see'],
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
  return last.length === 0 ? 0 : last.reduce((sum, events) => sum + events, 0) / last.length
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
  const sum = (values: readonly number[]) => count(values.reduce((all, one) => all + one, 0))
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

function Busiest({ status }: { status: ServerStatus }) {
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
