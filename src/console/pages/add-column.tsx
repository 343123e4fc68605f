/** Adds a column to a pool, and follows its job. */
import { useState } from 'preact/hooks'
import { addColumn, loadColumnJob } from '../client/sources.ts'
import { COLUMN_TYPES, type ColumnType } from '../model/columns.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Checkbox, Form, Select, TextField } from '../ui/fields.tsx'
import { useAction } from '../ui/load.ts'
import { Meter, Note } from '../ui/parts.tsx'
import { useJob } from './use-job.ts'

export interface Wanted {
  readonly jsonProperty: string
  readonly type: ColumnType
}

/** The type of a column that takes this value. */
export function typeOf(value: unknown): ColumnType {
  if (typeof value === 'boolean') return 'BOOLEAN'
  if (typeof value === 'number') return 'DOUBLE'
  if (typeof value === 'object' && value !== null) return 'JSON'
  return typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value) ? 'TIMESTAMP' : 'STRING'
}

export function AddColumn({
  poolId,
  wanted,
  onClose,
  onDone,
}: {
  poolId: string
  wanted: Wanted
  onClose: () => void
  onDone: () => void
}) {
  const [jsonProperty, setJsonProperty] = useState(wanted.jsonProperty)
  const [columnName, setColumnName] = useState(wanted.jsonProperty.replaceAll(/[^A-Za-z0-9_]+/g, '_'))
  const [columnType, setColumnType] = useState(wanted.type)
  const [coerce, setCoerce] = useState(false)
  const [jobId, setJobId] = useState<string>()
  const takesTexts = columnType !== 'STRING' && columnType !== 'JSON'
  const { run, isRunning, error } = useAction(async () =>
    setJobId(
      await addColumn({
        dataPool: poolId,
        columnName,
        columnType,
        jsonProperty,
        coerce: coerce && takesTexts,
      }),
    ),
  )
  return (
    <Dialog title="Add a column" onClose={onClose}>
      {jobId === undefined ? (
        <Form class="form" onSubmit={run}>
          <p class="hint">
            Records that are there already get null in it. Events that come from now on fill it.
          </p>
          <TextField label="Property of the event" value={jsonProperty} onText={setJsonProperty} required />
          <TextField label="Column" value={columnName} onText={setColumnName} required />
          <Select
            label="Type"
            value={columnType}
            options={COLUMN_TYPES.map(type => ({ value: type, text: type }))}
            onChoose={setColumnType}
          />
          {takesTexts && (
            <Checkbox
              label="Take texts that hold a value of this type, too"
              isChecked={coerce}
              onCheck={setCoerce}
            />
          )}
          {error !== undefined && <Note kind="bad">{error}</Note>}
          <div class="actions">
            <button type="submit" class="primary" disabled={isRunning}>
              {isRunning ? 'Adding…' : 'Add column'}
            </button>
          </div>
        </Form>
      ) : (
        <Progress jobId={jobId} columnName={columnName} onDone={onDone} />
      )}
    </Dialog>
  )
}

function Progress({ jobId, columnName, onDone }: { jobId: string; columnName: string; onDone: () => void }) {
  const { data, error } = useJob(jobId, loadColumnJob)
  return (
    <>
      {error !== undefined && <Note kind="bad">{error}</Note>}
      {data?.status === 'FAILED' && <Note kind="bad">{data.error?.message ?? 'The job failed.'}</Note>}
      {data?.status === 'SUCCEEDED' ? (
        <>
          <Note kind="good">The column {columnName} is there.</Note>
          <div class="actions">
            <button type="button" class="primary" onClick={onDone}>
              Done
            </button>
          </div>
        </>
      ) : (
        <Meter value={data?.progress ?? 0} label={`Progress of adding ${columnName}`} />
      )}
    </>
  )
}
