/** Events: what came into a pool, as a grid with filters, or live. */
import { useLocation, useRoute } from 'preact-iso'
import { listPools, loadPool, type Pool } from '../client/pools.ts'
import { Select } from '../ui/fields.tsx'
import { useLoad } from '../ui/load.ts'
import { Empty, Heading, Show } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { EventsGrid } from './events-grid.tsx'
import { EventsLive } from './events-live.tsx'
import { toEvents, withQuery } from './routes.ts'

const TABS = [
  { key: 'grid', title: 'All' },
  { key: 'live', title: 'Live' },
]
/** Pools of the list that a person chooses from. Others are reached from Sources. */
const CHOICES = 1_000

export function Events() {
  const { params } = useRoute()
  const { query, route } = useLocation()
  const name = params['pool']
  const tab = query['tab'] === 'live' ? 'live' : 'grid'
  return (
    <>
      <Heading title={name === undefined ? 'Events' : `Events of ${name}`}>
        <PoolChoice current={name} onChoose={pool => route(toEvents(pool))} />
      </Heading>
      {name === undefined ? (
        <Empty title="Choose a data pool">
          <p>Each source has a data pool of its name.</p>
        </Empty>
      ) : (
        <Tabs
          label="Events"
          tabs={TABS}
          current={tab}
          onChoose={key =>
            route(withQuery(toEvents(name), { ...query, tab: key === 'live' ? 'live' : undefined }), true)
          }
        >
          <PoolEvents name={name} tab={tab} />
        </Tabs>
      )}
    </>
  )
}

function PoolEvents({ name, tab }: { name: string; tab: 'grid' | 'live' }) {
  const loaded = useLoad(`pool ${name}`, signal => loadPool(name, signal))
  return (
    <Show from={loaded}>
      {(pool: Pool) =>
        tab === 'live' ? (
          <EventsLive key={pool.id} pool={pool} />
        ) : (
          <EventsGrid key={pool.id} pool={pool} onColumns={loaded.reload} />
        )
      }
    </Show>
  )
}

export function PoolChoice({
  current,
  onChoose,
  all,
}: {
  current: string | undefined
  onChoose: (name: string) => void
  /** Offers all pools together, under this text. */
  all?: string
}) {
  const { data } = useLoad('pools', signal => listPools(CHOICES, null, signal))
  const names = (data?.nodes ?? []).filter(pool => !pool.isBuiltIn).map(pool => pool.uniqueName)
  if (current !== undefined && !names.includes(current)) names.push(current)
  return (
    <Select
      label="Data pool"
      isLabelHidden
      value={current ?? ''}
      options={[
        { value: '', text: all ?? 'Choose a data pool…' },
        ...names.sort().map(name => ({ value: name, text: name })),
      ]}
      onChoose={name => {
        if (name !== '' || all !== undefined) onChoose(name)
      }}
    />
  )
}
