/** The console: who is signed in decides what is shown. */
import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { LocationProvider, Route, Router, useLocation } from 'preact-iso'
import { messageOf } from './client/api-error.ts'
import { forget, resumeSession, type Signed, watchSession } from './client/session.ts'
import { Events } from './pages/events.tsx'
import { applyTheme, Frame, firstPath, mayOpen } from './pages/frame.tsx'
import { NewSource } from './pages/new-source.tsx'
import { Overview } from './pages/overview.tsx'
import { Rejected } from './pages/rejected.tsx'
import { safePath, withQuery } from './pages/routes.ts'
import { SignIn, SignInForm } from './pages/sign-in.tsx'
import { Source } from './pages/source.tsx'
import { Sources } from './pages/sources.tsx'
import { Who } from './pages/who.ts'
import { Boundary } from './ui/boundary.tsx'
import { Dialog } from './ui/dialog.tsx'
import { Empty, Heading, Note } from './ui/parts.tsx'

function App() {
  /** undefined: not known yet; null: nobody. */
  const [who, setWho] = useState<Signed | null>()
  const [isEnded, setIsEnded] = useState(false)
  const place = useRef<{ readonly focused: Element | null; readonly scrollY: number } | undefined>(undefined)
  const [problem, setProblem] = useState<string>()
  useEffect(() => {
    watchSession(change => {
      // What is hidden has neither keyboard nor place.
      if (change === 'ended') place.current = { focused: document.activeElement, scrollY }
      setIsEnded(change === 'ended')
      if (change !== 'ended') setWho(change === 'signed out' ? null : change)
    })
    // A link of the first start signs in by its code; a session of before does not matter then.
    if (location.pathname === '/sign-in' && location.hash.includes('code=')) setWho(null)
    else resumeSession().catch(error => setProblem(messageOf(error)))
  }, [])
  useEffect(() => {
    if (isEnded || place.current === undefined) return
    const { focused, scrollY } = place.current
    place.current = undefined
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true })
    scrollTo(0, scrollY)
  }, [isEnded])
  if (problem !== undefined)
    return (
      <main class="sign-in">
        <Note kind="bad">{problem}</Note>
        <button type="button" onClick={() => location.reload()}>
          Try again
        </button>
      </main>
    )
  if (who === undefined) return null
  return (
    <>
      {/* What somebody began to type is kept, and nobody else sees it. */}
      <div hidden={isEnded}>
        <Pages key={who?.application.id} who={who} />
      </div>
      {isEnded && who !== null && <SignInAgain who={who} />}
    </>
  )
}

function SignInAgain({ who: { application } }: { who: Signed }) {
  return (
    <Dialog title="The session ended" leave="Leave this page" onClose={forget}>
      <p>Sign in again as {application.uniqueName}, and the page goes on where it was.</p>
      <SignInForm id={application.id} />
    </Dialog>
  )
}

function Pages({ who }: { who: Signed | null }) {
  const { path, url, query, route } = useLocation()
  const isSignIn = path === '/sign-in'
  useEffect(() => {
    if (who === null && !isSignIn) route(withQuery('/sign-in', { to: url === '/' ? undefined : url }), true)
    if (who !== null && isSignIn) route(safePath(query['to']), true)
    if (who !== null && path === '/' && !mayOpen(who, '/')) route(firstPath(who) ?? '/', true)
  }, [who, isSignIn, path, url, query, route])
  if (who === null || isSignIn) return isSignIn ? <SignIn /> : null
  return (
    <Who.Provider value={who}>
      <Frame signed={who}>
        {mayOpen(who, path) ? (
          <Boundary key={path}>
            <Router>
              <Route path="/" component={Overview} />
              <Route path="/sources" component={Sources} />
              <Route path="/new-source" component={NewSource} />
              <Route path="/sources/:source" component={Source} />
              <Route path="/events" component={Events} />
              <Route path="/events/:pool" component={Events} />
              <Route path="/rejected" component={Rejected} />
              <Route path="/rejected/:pool" component={Rejected} />
              <Route default component={NotFound} />
            </Router>
          </Boundary>
        ) : (
          <NoScope signed={who} />
        )}
      </Frame>
    </Who.Provider>
  )
}

function NotFound() {
  return (
    <>
      <Heading title="There is no such page" />
      <p>
        <a href="/">To the overview</a>
      </p>
    </>
  )
}

function NoScope({ signed }: { signed: Signed }) {
  return (
    <>
      <Heading title="Not for this application" />
      <Empty title={`${signed.application.uniqueName} has no scope for this page`}>
        <p>
          Its scopes: {[...signed.scopes].join(', ')}. Sign in with another application, or ask whoever made
          this one.
        </p>
      </Empty>
    </>
  )
}

applyTheme()
render(
  <LocationProvider>
    <App />
  </LocationProvider>,
  document.getElementById('app')!,
)
