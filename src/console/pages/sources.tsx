/** Sources: find one, or begin a new one. */
import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type ListedSource, listSources } from '../client/sources.ts'
import { count } from '../model/format.ts'
import { TextField } from '../ui/fields.tsx'
import { useLoad } from '../ui/load.ts'
import { Empty, Heading, Show, Time } from '../ui/parts.tsx'
import { Table } from '../ui/table.tsx'
import { toEvents, toRejected, toSource, withQuery } from './routes.ts'

/** Sources of one request; a search goes over all of them. */
const PAGE = 200
/** A page of a browser with more rows than this is slow, and nobody reads it: search. */
const SHOWN_MAX = 200
const POLL_MS = 5_000

async function loadAll(signal: AbortSignal): Promise<readonly ListedSource[]> {
  const sources: ListedSource[] = []
  let after: string | null = null
  do {
    const page = await listSources(PAGE, after, signal)
    sources.push(...page.nodes)
    after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null
  } while (after !== null)
  return sources
}

export function Sources() {
  const { query, route } = useLocation()
  const [search, setSearch] = useState(query['search'] ?? '')
  const [isLong, setIsLong] = useState(false)
  const loaded = useLoad(
    'sources',
    async signal => {
      const sources = await loadAll(signal)
      setIsLong(sources.length > PAGE)
      return sources
    },
    // A long list is loaded once: it takes many requests.
    isLong ? undefined : POLL_MS,
  )
  const onSearch = (text: string) => {
    setSearch(text)
    route(withQuery('/sources', { search: text }), true)
  }
  return (
    <>
      <Heading title="Sources">
        <a class="button primary" href="/new-source">
          New source
        </a>
      </Heading>
      <TextField
        label="Search"
        type="search"
        value={search}
        onText={onSearch}
        placeholder="Name, sender or id"
      />
      <Show from={loaded}>{sources => <List sources={sources} search={search} />}</Show>
    </>
  )
}

function List({ sources, search }: { sources: readonly ListedSource[]; search: string }) {
  const word = search.trim().toLowerCase()
  const texts = ({ uniqueName, id, connectionSettings }: ListedSource) => [
    uniqueName,
    id,
    connectionSettings.preset ?? '',
  ]
  // The pool of rejected events has a page of its own.
  const own = sources.filter(({ dataPools }) => !dataPools.nodes.some(pool => pool.isBuiltIn))
  const found = own.filter(source => texts(source).some(text => text.toLowerCase().includes(word)))
  if (own.length === 0)
    return (
      <Empty title="There is no source yet">
        <p>
          A source is a URL that takes events, and the columns that they fill.{' '}
          <a href="/new-source">Create one</a> from a known sender or from a sample event.
        </p>
      </Empty>
    )
  if (found.length === 0) return <Empty title={`No source matches “${search}”`} />
  return (
    <>
      <Table
        label="Sources"
        rows={found.slice(0, SHOWN_MAX)}
        keyOf={source => source.id}
        columns={[
          {
            title: 'Name',
            isHead: true,
            cell: source => <a href={toSource(source.id)}>{source.uniqueName}</a>,
          },
          { title: 'Sender', cell: source => source.connectionSettings.preset ?? kindOf(source) },
          { title: 'In segments', isNumber: true, cell: source => sumOf(source, pool => pool.recordCount) },
          {
            title: 'Accepted',
            isNumber: true,
            cell: source => sumOf(source, pool => pool.activity?.accepted ?? null),
          },
          {
            title: 'Rejected',
            isNumber: true,
            cell: source => {
              const rejected = sumOf(source, pool => pool.activity?.rejected ?? null)
              const [pool] = source.dataPools.nodes
              return rejected === '0' || pool === undefined ? (
                rejected
              ) : (
                <a href={toRejected(pool.uniqueName)}>{rejected}</a>
              )
            },
          },
          { title: 'Last event', cell: source => <Last source={source} /> },
          {
            title: 'Events',
            cell: source => {
              const [pool] = source.dataPools.nodes
              return pool === undefined ? '–' : <a href={toEvents(pool.uniqueName)}>Open</a>
            },
          },
        ]}
      />
      {found.length > SHOWN_MAX && (
        <p class="hint">
          The first {SHOWN_MAX} of {count(found.length)}: search for the others.
        </p>
      )}
    </>
  )
}

function kindOf({ type }: ListedSource): string {
  return type === 'WEBHOOK' ? 'webhook' : type.toLowerCase()
}

function Last({ source }: { source: ListedSource }) {
  const times = source.dataPools.nodes.map(pool => pool.activity?.lastAcceptedAt ?? '')
  const last = times.sort().at(-1) ?? ''
  return last === '' ? <>–</> : <Time iso={last} isRelative />
}

type Pools = ListedSource['dataPools']['nodes'][number]

function sumOf({ dataPools }: ListedSource, of: (pool: Pools) => string | null): string {
  const known = dataPools.nodes.map(of).filter(value => value !== null)
  return known.length === 0 ? '–' : count(known.reduce((sum, value) => sum + Number(value), 0))
}
