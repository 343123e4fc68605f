/**
 * Takes rejected events in again: into their pool where it was mended meanwhile, or into a new
 * source whose column takes what was refused, because the type of a column never changes.
 */
import { useState } from 'preact/hooks'
import { loadReplay, type ReplayJob, replay } from '../client/rejected.ts'
import { createSource, keepDays, loadSource, loadSourceOf, type SourceColumn } from '../client/sources.ts'
import { count } from '../model/format.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Form, Select, TextField } from '../ui/fields.tsx'
import { useAction } from '../ui/load.ts'
import { Meter, Note } from '../ui/parts.tsx'
import type { Where } from './rejected.tsx'
import { toEvents, toSource } from './routes.ts'
import { useJob } from './use-job.ts'

interface Started {
  readonly jobId: string
  readonly into: string
  /** The source that was made for them. */
  readonly sourceId?: string
}

export function Replay(props: {
  where: Where
  rejectedBy: string
  name: string
  filterSql: string
  column: string | null
  onClose: () => void
}) {
  const [started, setStarted] = useState<Started>()
  return (
    <Dialog title="Take in again" onClose={props.onClose}>
      {started === undefined ? <Begin {...props} onStarted={setStarted} /> : <Progress started={started} />}
    </Dialog>
  )
}

type Mend = 'none' | 'coerce' | 'text' | 'optional'

const MENDS: Readonly<Record<Exclude<Mend, 'none'>, (column: SourceColumn) => SourceColumn>> = {
  coerce: column => ({ ...column, coerce: true }),
  text: column => ({ ...column, type: 'STRING', coerce: false }),
  optional: column => ({ ...column, nullable: true }),
}

function Begin({
  where,
  rejectedBy,
  name,
  filterSql,
  column,
  onStarted,
}: Parameters<typeof Replay>[0] & { onStarted: (started: Started) => void }) {
  const isLiving = where.names.has(rejectedBy)
  const [mend, setMend] = useState<Mend>('none')
  const [madeId, setMadeId] = useState<string>()
  const [newName, setNewName] = useState(`${name}-mended`)
  const { run, isRunning, error } = useAction(async () => {
    if (mend === 'none') {
      onStarted({ jobId: await replay({ dataPool: rejectedBy, rejectedBy, filterSql }), into: name })
      return
    }
    // A second try after a failed start goes on with the source that the first one made.
    const sourceId = madeId ?? (await createMended(rejectedBy, newName.trim(), column ?? '', mend))
    setMadeId(sourceId)
    const made = await loadSource(sourceId)
    const pool = made.dataPools.nodes[0]
    if (pool === undefined) throw new Error('the new source has no data pool')
    onStarted({
      jobId: await replay({ dataPool: pool.id, rejectedBy, filterSql }),
      into: pool.uniqueName,
      sourceId,
    })
  })
  const options = [
    {
      value: 'none',
      text: isLiving ? `Into ${name}, which was mended meanwhile` : 'Its data pool was deleted',
    },
    ...(column === null || !isLiving
      ? []
      : [
          { value: 'coerce', text: `Into a new source where ${column} takes texts that hold a value, too` },
          { value: 'text', text: `Into a new source where ${column} is a STRING` },
          { value: 'optional', text: `Into a new source where ${column} may be absent` },
        ]),
  ]
  return (
    <Form class="form" onSubmit={run}>
      <Select label="Where" value={mend} options={options} onChoose={value => setMend(value as Mend)} />
      {mend !== 'none' && (
        <>
          <TextField label="Name of the new source" value={newName} onText={setNewName} required />
          <p class="hint">
            It gets the columns, the key, the credentials and the signature of {name}. Point the sender to its
            URL afterwards: the type of a column never changes, so {name} goes on refusing such events.
          </p>
        </>
      )}
      {error !== undefined && <Note kind="bad">{error}</Note>}
      <div class="actions">
        <button type="submit" class="primary" disabled={isRunning || (mend === 'none' && !isLiving)}>
          {isRunning ? 'Starting…' : 'Take in again'}
        </button>
      </div>
    </Form>
  )
}

/**
 * Creates a source like that of a pool, with one column changed: as protected, as signed and as
 * keyed. Throws where it cannot be alike.
 */
async function createMended(
  poolId: string,
  uniqueName: string,
  column: string,
  mend: Exclude<Mend, 'none'>,
): Promise<string> {
  const { connectionSettings: settings, dataPools } = await loadSourceOf(poolId)
  if (settings.__typename !== 'WebhookConnectionSettings' || settings.tableSettings?.engine != null)
    throw new Error('This source has settings that cannot be copied here: create the new one with the API.')
  const { __typename, webhookUrl, columns, ...given } = settings
  const id = await createSource({
    uniqueName,
    connectionSettings: {
      columns: (columns ?? []).map(one => (one.name === column ? MENDS[mend](one) : one)),
      ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
      ...(given.preset && !given.signature ? { signatureEnabled: false } : {}),
    },
  })
  const days = dataPools.nodes[0]?.dataRetentionInDays ?? 0
  const made = (await loadSource(id)).dataPools.nodes[0]
  if (days > 0 && made !== undefined) await keepDays(made.id, days)
  return id
}

function Progress({ started: { jobId, into, sourceId } }: { started: Started }) {
  const { data, error, isEnded } = useJob(jobId, loadReplay)
  if (error !== undefined) return <Note kind="bad">{error}</Note>
  if (data === undefined || !isEnded)
    return <Meter value={data?.progress ?? 0} label="Progress of the replay" />
  return <Outcome job={data} into={into} sourceId={sourceId} />
}

function Outcome({ job, into, sourceId }: { job: ReplayJob; into: string; sourceId: string | undefined }) {
  const { status, error, accepted, refused, truncated, firstRefusal } = job
  return (
    <>
      {status === 'FAILED' ? (
        <Note kind="bad">{error?.message ?? 'The replay failed.'}</Note>
      ) : (
        <Note kind={refused === 0 ? 'good' : 'bad'}>
          {count(accepted)} accepted, {count(refused)} refused again
          {truncated > 0 ? `, ${count(truncated)} left out because only their beginning is kept` : ''}.
        </Note>
      )}
      {firstRefusal !== null && <p>The first refusal: {firstRefusal}</p>}
      <div class="actions">
        {accepted > 0 && (
          <a class="button primary" href={toEvents(into)}>
            See the events
          </a>
        )}
        {sourceId !== undefined && (
          <a class="button" href={toSource(sourceId, 'connect')}>
            The new URL
          </a>
        )}
      </div>
    </>
  )
}
