/** Addresses for people. */

/** The address as a person on this machine types it. */
export function localUrl(host: string, port: number): string {
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}
