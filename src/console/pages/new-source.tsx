/** A new source: from a sender, a sample event, or empty; then its columns and its name. */
import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import {
  createSource,
  type NewSource as Input,
  inferColumns,
  loadPresets,
  type Preset,
} from '../client/sources.ts'
import { plural } from '../model/format.ts'
import { Checkbox, Form, Select, TextArea, TextField } from '../ui/fields.tsx'
import { useAction, useLoad } from '../ui/load.ts'
import { Heading, Note, Show } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { ColumnEditor, type Draft, draftColumn } from './column-editor.tsx'
import { toSource } from './routes.ts'

interface Begun {
  readonly draft: Draft
  readonly preset?: Preset
  /** What was found in the samples. */
  readonly note?: string
  readonly orderBy?: readonly string[] | null
}

const WAYS = [
  { key: 'sample', title: 'From a sample event' },
  { key: 'preset', title: 'A known sender' },
  { key: 'empty', title: 'Empty' },
]

export function NewSource() {
  const [way, setWay] = useState('sample')
  const [sample, setSample] = useState('')
  const [begun, setBegun] = useState<Begun>()
  const begin = (next: Begun) => setBegun(next)
  return (
    <>
      <Heading title="New source" />
      <p class="hint">A source is a URL that takes events as JSON, and the columns that they fill.</p>
      <Tabs
        label="How to begin"
        tabs={WAYS}
        current={way}
        onChoose={key => {
          setWay(key)
          setBegun(
            key === 'empty'
              ? { draft: { columns: [draftColumn({})], uniqueId: '', timestamp: '' } }
              : undefined,
          )
        }}
      >
        {way === 'sample' && <FromSample text={sample} onText={setSample} onBegin={begin} />}
        {way === 'preset' && <FromPreset onBegin={begin} />}
      </Tabs>
      {begun !== undefined && (
        <Rest
          key={begun.preset?.name ?? way}
          begun={begun}
          onChange={draft => setBegun({ ...begun, draft })}
        />
      )}
    </>
  )
}

const EXAMPLE = '{"id": "ord_1", "created_at": "2026-11-26T08:00:00Z", "price": 12.5, "paid": true}'

function FromSample({
  text,
  onText,
  onBegin,
}: {
  text: string
  onText: (text: string) => void
  onBegin: (begun: Begun) => void
}) {
  const { run, isRunning, error } = useAction(async () => {
    const proposal = await inferColumns(text)
    const { columns, uniqueId, timestamp, events, leftOut, orderBy } = proposal
    onBegin({
      draft: {
        columns: columns.map(column => draftColumn(column)),
        uniqueId: uniqueId.column ?? '',
        timestamp: timestamp.column ?? '',
      },
      orderBy,
      note: [
        `Read ${plural(events, 'event')}. Unique id: ${uniqueId.reason} Primary timestamp: ${timestamp.reason}`,
        ...leftOut.map(({ jsonProperty, reason }) => `Left out ${jsonProperty}: ${reason}`),
      ].join('\n'),
    })
  })
  return (
    <Form class="form" onSubmit={run}>
      <TextArea
        label="Sample events"
        hint="One event, an array, or one event after the other. Several show which properties may be absent."
        value={text}
        onText={onText}
        placeholder={EXAMPLE}
      />
      {error !== undefined && <Note kind="bad">{error}</Note>}
      <div class="actions">
        <button type="submit" class="primary" disabled={isRunning || text.trim() === ''}>
          {isRunning ? 'Reading…' : 'Propose columns'}
        </button>
        {text === '' && (
          <button type="button" onClick={() => onText(EXAMPLE)}>
            Take this example
          </button>
        )}
      </div>
    </Form>
  )
}

function FromPreset({ onBegin }: { onBegin: (begun: Begun) => void }) {
  const loaded = useLoad('presets', loadPresets)
  const [name, setName] = useState('')
  return (
    <Show from={loaded}>
      {presets => (
        <Select
          label="Sender"
          value={name}
          options={[
            { value: '', text: 'Choose a sender…' },
            ...presets.map(preset => ({ value: preset.name, text: preset.title })),
          ]}
          onChoose={value => {
            setName(value)
            const preset = presets.find(one => one.name === value)
            if (preset === undefined) return
            const { columns, uniqueId, timestamp } = preset
            onBegin({
              preset,
              draft: {
                columns: columns.map(column => draftColumn(column)),
                uniqueId: uniqueId ?? '',
                timestamp: timestamp ?? '',
              },
              orderBy: preset.orderBy,
              note: preset.delivery,
            })
          }}
        />
      )}
    </Show>
  )
}

function Rest({ begun, onChange }: { begun: Begun; onChange: (draft: Draft) => void }) {
  const { route } = useLocation()
  const { draft, preset, note } = begun
  const [name, setName] = useState(preset?.name.toLowerCase() ?? '')
  const [secret, setSecret] = useState('')
  const [isUnsigned, setIsUnsigned] = useState(false)
  const { run, isRunning, error } = useAction(async () => {
    const id = await createSource(inputOf(begun, name.trim(), secret.trim(), isUnsigned))
    route(`${toSource(id)}?tab=connect`)
  })
  return (
    <Form class="form wide" onSubmit={run}>
      <h2>Columns and key</h2>
      {note !== undefined && <p class="hint lines">{note}</p>}
      <p class="hint">
        Every record also keeps the whole event and the time at which it was received. Columns can be added
        later; the type of a column never changes.
      </p>
      <ColumnEditor draft={draft} onChange={onChange} />
      <h2>Name</h2>
      <TextField
        label="Name"
        hint="Queries and people use it."
        value={name}
        onText={setName}
        spellcheck={false}
        required
      />
      {preset?.needsSecret === true && (
        <>
          <TextField
            label={`Secret that ${preset.title} shows`}
            type="password"
            value={secret}
            onText={setSecret}
            autoComplete="off"
            disabled={isUnsigned}
            required={!isUnsigned}
          />
          <Checkbox
            label="The sender shows it only after it has the URL: take unsigned requests until I enter it"
            isChecked={isUnsigned}
            onCheck={setIsUnsigned}
          />
        </>
      )}
      {error !== undefined && <Note kind="bad">{error}</Note>}
      <div class="actions">
        <button type="submit" class="primary" disabled={isRunning}>
          {isRunning ? 'Creating…' : 'Create source'}
        </button>
      </div>
    </Form>
  )
}

function inputOf(
  { draft, preset, orderBy }: Begun,
  uniqueName: string,
  secret: string,
  isUnsigned: boolean,
): Input {
  const columns = draft.columns.map(({ name, jsonProperty, type, nullable, coerce }) => ({
    name: name.trim(),
    jsonProperty: jsonProperty.trim(),
    type,
    nullable,
    coerce: coerce && type !== 'STRING' && type !== 'JSON',
  }))
  const isKey = orderBy?.every(name => name.startsWith('_') || columns.some(column => column.name === name))
  return {
    uniqueName,
    connectionSettings: {
      columns,
      ...(draft.uniqueId === '' ? {} : { uniqueId: draft.uniqueId }),
      ...(draft.timestamp === '' ? {} : { timestamp: draft.timestamp }),
      ...(orderBy && isKey && draft.uniqueId === '' ? { tableSettings: { orderBy } } : {}),
      ...(preset === undefined ? {} : { preset: preset.name }),
      ...(preset?.needsSecret !== true || isUnsigned ? {} : { signature: { secrets: [secret] } }),
      ...(preset?.needsSecret === true && isUnsigned ? { signatureEnabled: false } : {}),
    },
  }
}
