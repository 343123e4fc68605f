/** One source: connect its sender, see and change it. */
import { useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import type { Schema } from '../client/schema.ts'
import {
  deleteSource,
  keepDays,
  loadSource,
  modifySource,
  type Source as SourceData,
} from '../client/sources.ts'
import { count } from '../model/format.ts'
import { ConfirmDialog, DeleteDialog } from '../ui/dialog.tsx'
import { Form, Select, TextField } from '../ui/fields.tsx'
import { useAction, useLoad } from '../ui/load.ts'
import { Empty, Heading, Note, Show, Time } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { toEvents, toRejected, toSource } from './routes.ts'
import { Credentials, Forms, SignatureForm } from './source-access.tsx'
import { Columns } from './source-columns.tsx'
import { Connect } from './source-connect.tsx'

const TABS = [
  { key: 'connect', title: 'Connect' },
  { key: 'columns', title: 'Columns' },
  { key: 'activity', title: 'Activity' },
  { key: 'settings', title: 'Settings' },
]
const POLL_MS = 5_000

export function Source() {
  const { params } = useRoute()
  const { query, route } = useLocation()
  const id = params['source'] ?? ''
  const tab = TABS.some(({ key }) => key === query['tab']) ? query['tab']! : 'connect'
  // Settings are edited, so an answer on its way must not replace them.
  const loaded = useLoad(
    `source ${id}`,
    signal => loadSource(id, signal),
    tab === 'settings' ? undefined : POLL_MS,
  )
  return (
    <Show from={loaded}>
      {source => {
        const [pool] = source.dataPools.nodes
        return (
          <>
            <Heading title={source.uniqueName}>
              {pool !== undefined && (
                <>
                  <a class="button" href={toEvents(pool.uniqueName)}>
                    Events
                  </a>
                  <a class="button" href={toRejected(pool.uniqueName)}>
                    Rejected
                  </a>
                </>
              )}
            </Heading>
            <Tabs
              label="About this source"
              tabs={TABS}
              current={tab}
              onChoose={key => route(toSource(id, key), true)}
            >
              {tab === 'connect' && <Connect source={source} />}
              {tab === 'columns' && <Columns source={source} onChange={loaded.reload} />}
              {tab === 'activity' && <Activity source={source} />}
              {tab === 'settings' && <Settings source={source} onChange={loaded.reload} />}
            </Tabs>
          </>
        )
      }}
    </Show>
  )
}

function Activity({ source }: { source: SourceData }) {
  const pools = source.dataPools.nodes
  if (pools.length === 0) return <Empty title="This source has no data pool" />
  return (
    <>
      {pools.map(pool => (
        <dl key={pool.id} class="tiles">
          <div>
            <dt>Records in segments</dt>
            <dd>{count(pool.recordCount)}</dd>
          </div>
          <div>
            <dt>Accepted since the start</dt>
            <dd>{count(pool.activity?.accepted ?? null)}</dd>
          </div>
          <div>
            <dt>Rejected since the start</dt>
            <dd>
              {pool.activity === null || pool.activity.rejected === '0' ? (
                count(pool.activity?.rejected ?? null)
              ) : (
                <a href={toRejected(pool.uniqueName)}>{count(pool.activity.rejected)}</a>
              )}
            </dd>
          </div>
          <div>
            <dt>Last event</dt>
            <dd>
              {pool.activity?.lastAcceptedAt ? <Time iso={pool.activity.lastAcceptedAt} isRelative /> : '–'}
            </dd>
          </div>
        </dl>
      ))}
      <p class="hint">
        Source {source.id}, created <Time iso={source.createdAt} />
      </p>
    </>
  )
}

function Settings({ source, onChange }: { source: SourceData; onChange: () => void }) {
  return (
    <>
      <General source={source} onChange={onChange} />
      {source.connectionSettings.__typename === 'WebhookConnectionSettings' && (
        <>
          <Credentials source={source} onChange={onChange} />
          <SignatureForm source={source} onChange={onChange} />
          <Forms source={source} onChange={onChange} />
        </>
      )}
      <Danger source={source} />
    </>
  )
}

type Kept = Schema['RejectedEvents']

function RejectedChoice({ value, onChoose }: { value: Kept; onChoose: (value: Kept) => void }) {
  return (
    <Select
      label="Rejected events"
      value={value}
      options={[
        { value: 'KEEP', text: 'Kept for a week, to be looked at and replayed' },
        { value: 'COUNT', text: 'Only counted' },
      ]}
      onChoose={onChoose}
    />
  )
}

/** 0 keeps records for ever. */
function shortens(before: number, days: number): boolean {
  return days > 0 && (before === 0 || days < before)
}

function General({ source, onChange }: { source: SourceData; onChange: () => void }) {
  const [pool] = source.dataPools.nodes
  const settings = source.connectionSettings
  const isWebhook = settings.__typename === 'WebhookConnectionSettings'
  const [description, setDescription] = useState(source.description)
  const [days, setDays] = useState(String(pool?.dataRetentionInDays ?? ''))
  const [rejectedEvents, setRejectedEvents] = useState(settings.rejectedEvents ?? 'KEEP')
  const [isSaved, setIsSaved] = useState(false)
  const [isShortening, setIsShortening] = useState(false)
  const isShorter = shortens(pool?.dataRetentionInDays ?? 0, Number(days))
  const { run, isRunning, error } = useAction(async () => {
    setIsSaved(false)
    if (isWebhook) await modifySource(source.id, { description, connectionSettings: { rejectedEvents } })
    if (pool !== undefined && days !== String(pool.dataRetentionInDays)) await keepDays(pool.id, Number(days))
    setIsSaved(true)
    onChange()
  })
  return (
    <Form
      class="form"
      onSubmit={() => {
        if (isShorter) setIsShortening(true)
        else run()
      }}
    >
      <h2>General</h2>
      {isWebhook && <TextField label="Description" value={description} onText={setDescription} />}
      {pool !== undefined && (
        <TextField
          label="Days that records are kept"
          hint="0 keeps them for ever. Older records are removed."
          type="number"
          min="0"
          value={days}
          onText={setDays}
          required
        />
      )}
      {isWebhook && <RejectedChoice value={rejectedEvents} onChoose={setRejectedEvents} />}
      {error !== undefined && <Note kind="bad">{error}</Note>}
      {isSaved && <Note kind="good">Saved.</Note>}
      <div class="actions">
        <button type="submit" class="primary" disabled={isRunning}>
          {isRunning ? 'Saving…' : 'Save'}
        </button>
      </div>
      {isShortening && (
        <ConfirmDialog
          title="Keep records for a shorter time"
          action={`Remove records older than ${days} days`}
          onConfirm={run}
          onClose={() => setIsShortening(false)}
        >
          <p>
            Records that are older than {days} days are removed, now and from now on. Nobody can undo this.
          </p>
        </ConfirmDialog>
      )}
    </Form>
  )
}

function Danger({ source }: { source: SourceData }) {
  const { route } = useLocation()
  const [isOpen, setIsOpen] = useState(false)
  const [pool] = source.dataPools.nodes
  return (
    <section class="form">
      <h2>Delete</h2>
      <div class="actions">
        <button type="button" class="bad" onClick={() => setIsOpen(true)}>
          Delete this source
        </button>
      </div>
      {isOpen && (
        <DeleteDialog
          what="source"
          name={source.uniqueName}
          onClose={() => setIsOpen(false)}
          onDelete={async () => {
            await deleteSource(source.id)
            route('/sources')
          }}
        >
          <p>
            The source, its data pool and all its records ({count(pool?.recordCount ?? null)}) are deleted.
            Nobody can undo this. Events that its sender still posts are refused.
          </p>
        </DeleteDialog>
      )}
    </section>
  )
}
