/** Connect: URL, secret, code to paste, what to enter at the sender, and the first event. */
import { useEffect, useState } from 'preact/hooks'
import { messageOf } from '../client/api-error.ts'
import { loadPresets, type Source } from '../client/sources.ts'
import { followTail } from '../client/tail.ts'
import { PAYLOAD } from '../model/columns.ts'
import { exampleBody, LANGUAGES, snippet, type Target } from '../model/snippets.ts'
import { JsonTree } from '../ui/json-tree.tsx'
import { useLoad } from '../ui/load.ts'
import { Badge, Code, Note } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { toEvents, toRejected } from './routes.ts'

export function Connect({ source }: { source: Source }) {
  const { connectionSettings: settings, dataPools } = source
  const [pool] = dataPools.nodes
  const url = settings.webhookUrl ?? pool?.webhookUrl
  if (!url) return <Note>This source has no URL: its data pools have.</Note>
  const columns = settings.columns ?? []
  const target: Target = {
    url,
    basicAuth: settings.basicAuth ?? null,
    columns,
    example: exampleBody(columns, settings.eventsPath ?? null),
    name: source.uniqueName,
    timestamp: settings.timestamp ?? null,
    uniqueId: settings.uniqueId ?? null,
  }
  return (
    <>
      <Code label="URL" text={url} />
      {settings.signature?.secrets.map((secret, at) => (
        <Code key={secret} label={at === 0 ? 'Secret' : `Secret ${at + 1}`} text={secret} isSecret />
      ))}
      {settings.signature && !settings.preset && (
        <Note>The sender must sign its requests ({settings.signature.scheme}). The code below does not.</Note>
      )}
      {settings.preset ? <Steps source={source} url={url} /> : <Snippets target={target} />}
      {pool !== undefined && (
        <FirstEvent id={pool.id} pool={pool.uniqueName} rejected={pool.activity?.rejected ?? '0'} />
      )}
    </>
  )
}

function Snippets({ target }: { target: Target }) {
  const [language, setLanguage] = useState<string>('curl')
  const known = LANGUAGES.find(one => one === language) ?? 'curl'
  return (
    <section>
      <h2>Post an event</h2>
      <Tabs
        label="Language"
        tabs={LANGUAGES.map(name => ({ key: name, title: name }))}
        current={known}
        onChoose={setLanguage}
      >
        <Code label={known} text={snippet(known, target)} isSecret={target.basicAuth !== null} />
      </Tabs>
    </section>
  )
}

/** What to do at the sender. */
function Steps({ source, url }: { source: Source; url: string }) {
  const { preset, signature, verifyToken } = source.connectionSettings
  const loaded = useLoad('presets', loadPresets)
  const found = loaded.data?.find(({ name }) => name === preset)
  if (found === undefined) return null
  const filled = (step: string) =>
    step
      // A function, because "$&" in a text would mean something.
      .replaceAll('{url}', () => url)
      .replaceAll('{secret}', signature === null ? 'the secret' : 'the secret above')
      .replaceAll('{verifyToken}', () => verifyToken ?? 'a verify token, which this source does not have yet')
  return (
    <section>
      <h2>At {found.title}</h2>
      <ol>
        {found.steps.map(step => (
          <li key={step}>{filled(step)}</li>
        ))}
      </ol>
      <p class="hint">{found.delivery}</p>
    </section>
  )
}

/** Waits for the next event, and shows it. */
function FirstEvent({ id, pool, rejected }: { id: string; pool: string; rejected: string }) {
  const [event, setEvent] = useState<string>()
  const [isConnected, setIsConnected] = useState(false)
  const [problem, setProblem] = useState<string>()
  const [atBegin] = useState(rejected)
  useEffect(() => {
    const gone = new AbortController()
    const listener = {
      rows: (rows: readonly Readonly<Record<string, string | null>>[]) => {
        setEvent(rows.at(-1)?.[PAYLOAD] ?? '{}')
        gone.abort()
      },
      missed: () => {},
      connected: setIsConnected,
    }
    followTail(id, { columns: PAYLOAD }, listener, gone.signal).catch(error => setProblem(messageOf(error)))
    return () => gone.abort()
  }, [id])
  return (
    <section aria-live="polite">
      <h2>The next event</h2>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {rejected !== atBegin && (
        <Note kind="bad">
          An event was refused meanwhile. <a href={toRejected(pool)}>See why</a>.
        </Note>
      )}
      {event === undefined ? (
        <p class="listening">
          <span class="pulse" aria-hidden="true" />{' '}
          {isConnected ? 'Waiting for an event. Post one, and it appears here.' : 'Connecting…'}
        </p>
      ) : (
        <>
          <p>
            <Badge kind="good">It works</Badge> This came last. <a href={toEvents(pool)}>See all events</a>.
          </p>
          <JsonTree text={event} />
        </>
      )}
    </section>
  )
}
