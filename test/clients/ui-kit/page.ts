/**
 * The React kit, as npm has it, in a page of jsdom: a component that calls one hook, and the value
 * that the hook returned last. Requests leave through Node's fetch to the real server.
 *
 * jsdom's window stands in the globals, where the kit and React look for it. Each test file runs in
 * a process of its own, so no other test sees them.
 */
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
// The kit's modules require style sheets. A bundler would take them out.
require.extensions['.css'] = () => undefined

// biome-ignore lint/suspicious/noExplicitAny: the types of the kit need those of React and of the DOM
type Library = any

const { JSDOM } = require('jsdom') as Library
const { window } = new JSDOM('<body></body>', { url: 'http://app.example/' })
for (const name of ['window', 'document', 'navigator', 'HTMLElement', 'Element', 'Node', 'getComputedStyle'])
  Object.defineProperty(globalThis, name, { value: window[name], configurable: true })

/** All that the kit exports. */
export const kit = require('@propeldata/ui-kit') as Library
const { createElement, useEffect } = require('react') as Library
const { createRoot } = require('react-dom/client') as Library

/** The result of a hook of the kit. */
export interface Result {
  /** The answer of the operation. Each hook has its own. */
  readonly data?: Library
  readonly isLoading: boolean
  readonly error?: { readonly name: string; readonly message: string } | null
}

/** A component of the kit around the one that calls the hook. */
export interface Wrapper {
  readonly component: 'AccessTokenProvider' | 'FilterProvider'
  readonly properties: object
}

/** The errors are what the tests look at: nobody needs them in the output too. */
const SILENT = { log: () => undefined, warn: () => undefined, error: () => undefined }

interface CallerProperties {
  readonly useHook: () => unknown
  readonly tell: (value: unknown) => void
}

function Caller({ useHook, tell }: CallerProperties): null {
  const value = useHook()
  useEffect(() => tell(value))
  return null
}

/** A page whose only component calls a hook at each rendering. */
export class Page<T> {
  readonly #root = createRoot(window.document.createElement('div'))
  readonly #client = new kit.QueryClient({ logger: SILENT })
  readonly #wrappers: readonly Wrapper[]
  #current: T | undefined
  #wake: () => void = () => undefined

  /** @param wrappers the innermost first */
  constructor(useHook: () => T, wrappers: readonly Wrapper[] = []) {
    this.#wrappers = wrappers
    this.show(useHook)
  }

  /** Renders the same component with another call of the hook, as a click in a page does. */
  show(useHook: () => T): void {
    this.#current = undefined
    const tell = (value: T) => {
      this.#current = value
      this.#wake()
    }
    const caller = createElement(Caller, { useHook, tell })
    const wrapped = this.#wrappers.reduce(
      (inner, { component, properties }) => createElement(kit[component], properties, inner),
      caller,
    )
    const page = createElement(kit.LogProvider, { logLevel: 'off' }, wrapped)
    this.#root.render(createElement(kit.QueryClientProvider, { client: this.#client }, page))
  }

  /**
   * The first value that `isMeant`, of those that the hook returns from now on or returned last.
   */
  async until(isMeant: (value: T) => boolean): Promise<T> {
    while (this.#current === undefined || !isMeant(this.#current))
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    return this.#current
  }

  /** Removes the page. Its timers end. */
  close(): void {
    this.#root.unmount()
    this.#client.clear()
  }
}

/** The answer of one hook in a page of its own, or its error. */
export async function answerOf(useHook: () => Result, wrappers: readonly Wrapper[] = []): Promise<Result> {
  const page = new Page(useHook, wrappers)
  try {
    return await page.until(({ isLoading, data, error }) => !isLoading && (data != null || error != null))
  } finally {
    page.close()
  }
}
