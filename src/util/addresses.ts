/** Addresses: the URL that a person opens, and the network that a client comes from. */
import { isIPv6 } from 'node:net'

/** The URL as a person on this machine types it. */
export function localUrl(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `${scheme}://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}

/** Which addresses a host of `--host` stands for; '' for a single one. */
export function boundNote(host: string): string {
  if (host === '0.0.0.0') return ' (bound to 0.0.0.0: every IPv4 address of this machine)'
  return host === '::' ? ' (bound to ::, every address of this machine)' : ''
}

/** The URL without slashes at its end, so that a path can follow. Linear time: `/\/+$/` is not. */
export function withoutEndSlashes(url: string): string {
  let end = url.length
  while (end > 0 && url[end - 1] === '/') end -= 1
  return url.slice(0, end)
}

const IPV4_IN_IPV6 = '::ffff:'

/**
 * The network that failed logins are counted for: an IPv4 address, also one inside an IPv6 address,
 * else the first 64 bits. A host chooses the other 64 freely.
 */
export function networkOf(address: string): string {
  const mapped = address.toLowerCase().startsWith(IPV4_IN_IPV6) ? address.slice(IPV4_IN_IPV6.length) : address
  if (mapped.includes('.') || !isIPv6(mapped)) return mapped
  const [front = '', back] = mapped.split('::', 2)
  const before = front === '' ? [] : front.split(':')
  const after = back === undefined || back === '' ? [] : back.split(':')
  const zeros = back === undefined ? 0 : 8 - before.length - after.length
  const groups = [...before, ...Array<string>(Math.max(0, zeros)).fill('0'), ...after]
  const network = groups.slice(0, 4).map(group => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}
