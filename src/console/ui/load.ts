/** Loading for pages: once, again on a change, or again and again while somebody looks. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { messageOf } from '../client/api-error.ts'

export interface Loaded<T> {
  /** The last answer. It stays while the next one is on its way, and where that one fails. */
  readonly data: T | undefined
  readonly error: string | undefined
  readonly isLoading: boolean
  reload(): void
}

/**
 * Loads by `load`, which may change with each render, whenever `key` changes. An answer that comes
 * after the next request began is dropped.
 * @param everyMs loads again so long after each answer, while the page is visible
 */
export function useLoad<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs?: number,
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: string; isLoading: boolean }>({
    key,
    isLoading: true,
  })
  const [turn, setTurn] = useState(0)
  const loading = useRef(load)
  loading.current = load
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new turn loads again
  useEffect(() => {
    const gone = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    setState(before => ({ ...(before.key === key ? before : {}), key, isLoading: true }))
    const run = async () => {
      try {
        const data = await loading.current(gone.signal)
        if (!gone.signal.aborted) setState({ key, data, isLoading: false })
      } catch (error) {
        if (!gone.signal.aborted)
          setState(before => ({ ...before, error: messageOf(error), isLoading: false }))
      }
      if (everyMs !== undefined && !gone.signal.aborted) timer = setTimeout(next, everyMs)
    }
    const next = () => {
      if (document.hidden)
        document.addEventListener('visibilitychange', run, { once: true, signal: gone.signal })
      else run()
    }
    run()
    return () => {
      clearTimeout(timer)
      gone.abort()
    }
  }, [key, turn, everyMs])
  const reload = useCallback(() => setTurn(before => before + 1), [])
  const isCurrent = state.key === key
  return {
    data: isCurrent ? state.data : undefined,
    error: isCurrent ? state.error : undefined,
    isLoading: !isCurrent || state.isLoading,
    reload,
  }
}

/** An action of a form or a button: one at a time, with its error. */
export function useAction<A extends readonly unknown[]>(
  act: (...args: A) => Promise<void>,
): { readonly run: (...args: A) => void; readonly isRunning: boolean; readonly error: string | undefined } {
  const [state, setState] = useState<{ isRunning: boolean; error?: string }>({ isRunning: false })
  const isRunning = useRef(false)
  const run = (...args: A) => {
    if (isRunning.current) return
    isRunning.current = true
    setState({ isRunning: true })
    act(...args)
      .then(() => setState({ isRunning: false }))
      .catch(error => setState({ isRunning: false, error: messageOf(error) }))
      .finally(() => {
        isRunning.current = false
      })
  }
  return { run, isRunning: state.isRunning, error: state.error }
}
