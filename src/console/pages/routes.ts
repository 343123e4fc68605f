/** The addresses of pages. The server sends the page at each of them (src/api/console-files.ts). */

export const toSource = (id: string, tab?: string) =>
  `/sources/${encodeURIComponent(id)}${tab === undefined ? '' : `?tab=${tab}`}`
export const toEvents = (pool: string) => `/events/${encodeURIComponent(pool)}`
export const toRejected = (pool?: string) =>
  pool === undefined ? '/rejected' : `/rejected/${encodeURIComponent(pool)}`

/** The same path with other parameters: those that are undefined or empty are left out. */
export function withQuery(path: string, parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value) query.set(name, value)
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

/** A path of this console that a sign-in may lead to: never another site. */
export function safePath(path: string | undefined): string {
  if (path === undefined || !URL.canParse(path, location.origin)) return '/'
  const { origin, pathname, search } = new URL(path, location.origin)
  // A path that begins with "//" is another host in the address bar.
  const isOwn = origin === location.origin && !pathname.startsWith('//')
  return isOwn && pathname !== '/sign-in' ? pathname + search : '/'
}
