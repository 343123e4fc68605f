/** Small parts that every page uses: notes, waits, badges, times, copies, meters. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ago, localTime, utcTime } from '../model/format.ts'
import type { Loaded } from './load.ts'

export function Note({
  kind = 'info',
  children,
}: {
  kind?: 'info' | 'bad' | 'good'
  children: ComponentChildren
}) {
  return (
    <div class={`note note-${kind}`} role={kind === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  )
}

export function Badge({
  kind,
  children,
}: {
  kind: 'good' | 'bad' | 'warn' | 'plain'
  children: ComponentChildren
}) {
  return <span class={`badge badge-${kind}`}>{children}</span>
}

/** What there is before anything is there: what it would be, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** Waits less than this are not shown: a flash disturbs more than it tells. */
const WAIT_SHOWN_MS = 300
const WAIT_LONG_MS = 10_000

function Wait({ onRetry }: { onRetry: () => void }) {
  const [isShown, setIsShown] = useState(false)
  const [isLong, setIsLong] = useState(false)
  useEffect(() => {
    const timers = [
      setTimeout(() => setIsShown(true), WAIT_SHOWN_MS),
      setTimeout(() => setIsLong(true), WAIT_LONG_MS),
    ]
    return () => timers.forEach(clearTimeout)
  }, [])
  if (!isShown) return null
  return (
    <div class="wait" role="status">
      {isLong ? (
        <>
          The server takes longer than usual.{' '}
          <button type="button" class="link" onClick={onRetry}>
            Ask again
          </button>
        </>
      ) : (
        'Loading…'
      )}
    </div>
  )
}

/** What was loaded; before it a wait, or why it cannot be shown. Old data stays below an error. */
export function Show<T>({ from, children }: { from: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, error, isLoading, reload } = from
  return (
    <>
      {error !== undefined && (
        <Note kind="bad">
          {error}{' '}
          <button type="button" class="link" onClick={reload}>
            Try again
          </button>
        </Note>
      )}
      {data !== undefined ? children(data) : isLoading && <Wait onRetry={reload} />}
    </>
  )
}

/** A time in the reader's zone, with UTC at hand. */
export function Time({ iso, isRelative = false }: { iso: string; isRelative?: boolean }) {
  return (
    <time dateTime={iso} title={`${localTime(iso)}\n${utcTime(iso)}`}>
      {isRelative ? ago(iso) : localTime(iso)}
    </time>
  )
}

const COPIED_MS = 1_500

/** Copies a text. Without the permission the text is shown to be selected. */
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setState('copied')
    } catch {
      setState('failed')
    }
    setTimeout(() => setState('idle'), COPIED_MS)
  }
  const said = { idle: label, copied: 'Copied', failed: 'Select the text and copy it' }[state]
  return (
    <button type="button" class="small" onClick={copy} aria-live="polite">
      {said}
    </button>
  )
}

/** A text to be copied: a URL, a secret, a snippet. */
export function Code({ text, label, isSecret = false }: { text: string; label: string; isSecret?: boolean }) {
  const [isShown, setIsShown] = useState(!isSecret)
  return (
    <figure class="code">
      <figcaption>
        <span>{label}</span>
        <span class="actions">
          {isSecret && (
            <button type="button" class="small" aria-pressed={isShown} onClick={() => setIsShown(!isShown)}>
              {isShown ? 'Hide' : 'Show'}
            </button>
          )}
          <Copy text={text} label={`Copy ${label}`} />
        </span>
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls takes the keyboard */}
      <pre tabIndex={0}>{isShown ? text : '•'.repeat(24)}</pre>
    </figure>
  )
}

export function Meter({ value, label }: { value: number; label: string }) {
  return (
    <progress value={value} max={1} aria-label={label}>
      {Math.round(value * 100)} %
    </progress>
  )
}

/** Sets the title of the tab and the heading of the page. */
export function Heading({ title, children }: { title: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Weir`
  }, [title])
  return (
    <header class="heading">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  )
}
