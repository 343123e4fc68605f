/** Who is signed in, to decide what pages offer. The server decides what is allowed. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Signed } from '../client/session.ts'

export const Who = createContext<Signed | undefined>(undefined)

/** True where the application has the scope `admin`, which changes need. */
export function useIsAdmin(): boolean {
  return useContext(Who)?.scopes.has('admin') === true
}
