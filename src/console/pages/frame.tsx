/** The frame of every page: where one is, where one can go, who is signed in. */

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type Signed, signOut } from '../client/session.ts'
import { useAction } from '../ui/load.ts'
import { Note } from '../ui/parts.tsx'

interface Place {
  readonly path: string
  readonly title: string
  /** One of these scopes is enough. */
  readonly scopes: readonly string[]
}

/** Further pages are further lines. */
const PLACES: readonly Place[] = [
  { path: '/', title: 'Overview', scopes: ['admin'] },
  { path: '/sources', title: 'Sources', scopes: ['admin'] },
  { path: '/events', title: 'Events', scopes: ['data_pool:query'] },
  { path: '/rejected', title: 'Rejected', scopes: ['data_pool:query'] },
]

type Theme = 'auto' | 'light' | 'dark'
const THEMES: Readonly<Record<Theme, Theme>> = { auto: 'light', light: 'dark', dark: 'auto' }
const THEME_KEY = 'weir-theme'

export function applyTheme(): void {
  const theme = localStorage.getItem(THEME_KEY)
  document.documentElement.dataset['theme'] = theme === 'light' || theme === 'dark' ? theme : 'auto'
}

export function mayOpen({ scopes }: Signed, path: string): boolean {
  const place = PLACES.find(one => (one.path === '/' ? path === '/' : path.startsWith(one.path)))
  return place === undefined ? scopes.has('admin') : place.scopes.some(scope => scopes.has(scope))
}

/** The first page that this application may open. */
export function firstPath(signed: Signed): string | undefined {
  return PLACES.find(({ path }) => mayOpen(signed, path))?.path
}

export function Frame({ signed, children }: { signed: Signed; children: ComponentChildren }) {
  const { path } = useLocation()
  const leave = useAction(signOut)
  const main = useRef<HTMLElement>(null)
  const shown = useRef(path)
  useEffect(() => {
    if (shown.current === path) return
    shown.current = path
    // A new page is read from its beginning. Somebody who goes through a choice keeps it.
    if (!(document.activeElement instanceof HTMLSelectElement)) main.current?.focus({ preventScroll: true })
  }, [path])
  const isAt = (place: Place) => (place.path === '/' ? path === '/' : path.startsWith(place.path))
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href="/" aria-label="Weir, overview">
          Weir
        </a>
        <nav aria-label="Pages">
          {PLACES.filter(({ path }) => mayOpen(signed, path)).map(place => (
            <a key={place.path} href={place.path} aria-current={isAt(place) ? 'page' : undefined}>
              {place.title}
            </a>
          ))}
        </nav>
        <div class="actions">
          <ThemeButton />
          <span class="who" title={`Application ${signed.application.id}`}>
            {signed.application.uniqueName}
          </span>
          <button type="button" class="small" onClick={leave.run} disabled={leave.isRunning}>
            Sign out
          </button>
          {leave.error !== undefined && <Note kind="bad">{leave.error}</Note>}
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </>
  )
}

function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(
    () => (document.documentElement.dataset['theme'] as Theme) ?? 'auto',
  )
  const next = () => {
    localStorage.setItem(THEME_KEY, THEMES[theme])
    applyTheme()
    setTheme(THEMES[theme])
  }
  return (
    <button
      type="button"
      class="small"
      onClick={next}
      aria-label={`Theme: ${theme}. Choose ${THEMES[theme]}.`}
    >
      {{ auto: '◐', light: '☀', dark: '☾' }[theme]}
    </button>
  )
}
