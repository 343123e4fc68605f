/** Rejected: what was refused, why, and how it gets in after all. */
import { useMemo, useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import { loadPool, loadRejectedPool, type Pool } from '../client/pools.ts'
import {
  loadNames,
  loadOverTime,
  loadReasons,
  type Reason,
  reasonSql,
  type OverTime as Series,
} from '../client/rejected.ts'
import { count, sumOf } from '../model/format.ts'
import { Chart, Legend, type Line } from '../ui/chart.tsx'
import { useLoad } from '../ui/load.ts'
import { Badge, Empty, Heading, Note, Show, Time } from '../ui/parts.tsx'
import { Table } from '../ui/table.tsx'
import { PoolChoice } from './events.tsx'
import { RejectedEvents } from './rejected-events.tsx'
import { Replay } from './replay.tsx'
import { toRejected, withQuery } from './routes.ts'
import { useIsAdmin } from './who.ts'

export interface Where {
  readonly rejected: Pool
  /** The pool that refused; undefined for all. */
  readonly pool: Pool | undefined
  readonly names: ReadonlyMap<string, string>
}

async function loadWhere(name: string | undefined, signal: AbortSignal): Promise<Omit<Where, 'names'>> {
  const [rejected, pool] = await Promise.all([
    loadRejectedPool(signal),
    name === undefined ? undefined : loadPool(name, signal),
  ])
  return { rejected, pool }
}

async function loadKnown(where: Omit<Where, 'names'>, signal: AbortSignal) {
  const reasons = await loadReasons(where.rejected, where.pool?.id, signal)
  const names = await loadNames(
    reasons.map(({ poolId }) => poolId),
    signal,
  )
  return { reasons, where: { ...where, names } }
}

export function Rejected() {
  const { params } = useRoute()
  const { route } = useLocation()
  const name = params['pool']
  const loaded = useLoad(`rejected ${name ?? ''}`, signal => loadWhere(name, signal))
  return (
    <>
      <Heading title={name === undefined ? 'Rejected events' : `Rejected events of ${name}`}>
        <PoolChoice
          current={name}
          all="All data pools"
          onChoose={pool => route(toRejected(pool === '' ? undefined : pool))}
        />
      </Heading>
      <Show from={loaded}>{where => <Reasons where={where} />}</Show>
    </>
  )
}

function Reasons({ where: given }: { where: Omit<Where, 'names'> }) {
  const { rejected, pool } = given
  const { query, route, path } = useLocation()
  const loaded = useLoad(`reasons ${pool?.id ?? ''}`, signal => loadKnown(given, signal))
  const keyOf = ({ poolId, code, column }: Reason) => JSON.stringify([poolId, code, column])
  return (
    <Show from={loaded}>
      {({ reasons, where }) => {
        const { names } = where
        if (reasons.length === 0) return <Nothing days={rejected.dataRetentionInDays} />
        const chosen = reasons.find(reason => keyOf(reason) === query['reason'])
        return (
          <>
            <OverTime where={where} />
            <section>
              <h2>By reason</h2>
              <Table
                label="Reasons"
                rows={reasons}
                keyOf={keyOf}
                columns={[
                  {
                    title: 'Reason',
                    isHead: true,
                    cell: reason => (
                      <a
                        href={withQuery(path, { reason: keyOf(reason) })}
                        aria-current={reason === chosen ? 'true' : undefined}
                      >
                        {reason.code}
                      </a>
                    ),
                  },
                  ...(pool === undefined
                    ? [
                        {
                          title: 'Data pool',
                          cell: (reason: Reason) => names.get(reason.poolId) ?? reason.poolId,
                        },
                      ]
                    : []),
                  { title: 'Column', cell: reason => reason.column ?? '–' },
                  { title: 'Events', isNumber: true, cell: reason => count(reason.events) },
                  { title: 'Last', cell: reason => <Time iso={reason.lastAt} isRelative /> },
                  { title: 'What the sender got', cell: reason => reason.message },
                ]}
              />
            </section>
            {chosen !== undefined && (
              <OneReason
                key={keyOf(chosen)}
                where={where}
                reason={chosen}
                onReplayed={loaded.reload}
                onClose={() => route(path, true)}
              />
            )}
          </>
        )
      }}
    </Show>
  )
}

function Nothing({ days }: { days: number }) {
  return (
    <Empty title="Nothing was refused">
      <p>
        Events that do not fit the columns of their source, and requests that are no JSON, are kept here for{' '}
        {days} days, with the reason.
      </p>
    </Empty>
  )
}

/** Colours of the lines. Codes beyond them are one line. */
const LINE_COLORS = ['--bad', '--accent', '--warn', '--good']

function linesOf(codes: Series['codes']): readonly Line[] {
  const shown = codes.length > LINE_COLORS.length ? LINE_COLORS.length - 1 : codes.length
  const lines = codes.slice(0, shown).map(({ code, counts }) => ({ title: code, values: counts }))
  const rest = codes.slice(shown)
  if (rest.length > 0) {
    const values = rest[0]!.counts.map((_, at) => sumOf(rest.map(({ counts }) => counts[at]!)))
    lines.push({ title: 'others', values })
  }
  return lines.map((line, at) => ({ ...line, color: LINE_COLORS[at]! }))
}

function OverTime({ where: { rejected, pool } }: { where: Where }) {
  const { data, error } = useLoad(`over time ${pool?.id ?? ''}`, signal =>
    loadOverTime(rejected, pool?.id, signal),
  )
  const lines = useMemo(() => linesOf(data?.codes ?? []), [data])
  if (error !== undefined) return <Note kind="bad">{error}</Note>
  if (data === undefined || data.codes.length === 0) return null
  const sums = lines.map(({ title, values }) => `${title} ${count(sumOf(values))}`)
  return (
    <section>
      <h2>By hour, last seven days</h2>
      <Legend lines={lines} />
      <Chart
        label={`Events refused in the last seven days: ${sums.join(', ')}.`}
        times={data.times}
        lines={lines}
      />
    </section>
  )
}

function OneReason({
  where,
  reason,
  onReplayed,
  onClose,
}: {
  where: Where
  reason: Reason
  onReplayed: () => void
  onClose: () => void
}) {
  const [isReplaying, setIsReplaying] = useState(false)
  const isAdmin = useIsAdmin()
  const name = where.names.get(reason.poolId) ?? reason.poolId
  return (
    <section>
      <header class="heading">
        <h2>
          <Badge kind="bad">{reason.code}</Badge> {reason.column ?? ''} in {name}
        </h2>
        <div class="actions">
          {isAdmin && (
            <button type="button" class="primary" onClick={() => setIsReplaying(true)}>
              Take in again
            </button>
          )}
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </header>
      <RejectedEvents where={where} reason={reason} />
      {isReplaying && (
        <Replay
          where={where}
          rejectedBy={reason.poolId}
          name={name}
          filterSql={reasonSql(reason)}
          column={reason.column}
          onClose={() => {
            setIsReplaying(false)
            onReplayed()
          }}
        />
      )}
    </section>
  )
}
