/**
 * Sends the console: the page at each of its paths, and the files that the page names. Set-up has
 * built them (src/setup/console.mjs). They are read once and sent from memory, compressed where the
 * browser takes it. No file holds anything of a person, so each may be cached.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { CannotRun } from '../util/errors.ts'
import type { PageRoute, Reply } from './api-types.ts'
import type { RequestHead } from './http/transport.ts'
import { problemReply, refuse } from './problem.ts'

/** The paths of pages. The page itself finds out which one it shows. */
const PAGES = [
  '/',
  '/sign-in',
  '/sources',
  '/sources/:source',
  '/new-source',
  '/events',
  '/events/:pool',
  '/rejected',
  '/rejected/:pool',
]
const FILES = '/console/'

/** Compression of less than a packet gains nothing. */
const GZIP_BYTES_MIN = 1_400

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/**
 * What the page may do: its own files and this server, no other host, no script in the page, no
 * frame around it, and no text of a sender that becomes markup.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const SECURITY = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
}

interface ServedFile {
  readonly plain: Reply
  /** Compressed when it is first asked for; undefined where that gains nothing. */
  readonly gzipped: () => Reply | undefined
  readonly unchanged: Reply
  readonly etag: string
}

/** The routes of the console. Throws CannotRun where set-up has not built it. */
export function consoleRoutes(folder: string): PageRoute[] {
  const page = servedFile(folder, 'index.html', 'no-cache')
  const files = new Map(
    readdirSync(join(folder, 'console')).map(name => [
      `${FILES}${name}`,
      // The name has the digest of the content.
      servedFile(join(folder, 'console'), name, 'public, max-age=31536000, immutable'),
    ]),
  )
  return [
    ...PAGES.map(path => ({ path, read: (head: RequestHead) => replyOf(page, head) })),
    {
      path: `${FILES}:file`,
      read: head => {
        const file = files.get(head.path)
        return file === undefined ? problemReply(NO_FILE) : replyOf(file, head)
      },
    },
  ]
}

const NO_FILE = refuse(404, 'not_found', 'the console has no such file')

function servedFile(folder: string, name: string, caching: string): ServedFile {
  const bytes = readBuilt(join(folder, name))
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  const headers = {
    ...SECURITY,
    'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
    'cache-control': caching,
    vary: 'accept-encoding',
    etag,
  }
  let gzipped: Reply | undefined
  return {
    etag,
    plain: { status: 200, headers, body: bytes },
    gzipped: () => {
      if (bytes.byteLength < GZIP_BYTES_MIN) return undefined
      gzipped ??= { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipSync(bytes) }
      return gzipped
    },
    unchanged: { status: 304, headers, body: '' },
  }
}

function readBuilt(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new CannotRun(
      `the console was not built: ${(error as Error).message}; run set-up again, or start with --console off`,
    )
  }
}

function replyOf({ plain, gzipped, unchanged, etag }: ServedFile, head: RequestHead): Reply {
  const known = head.header('if-none-match')
  if (known.split(',').some(one => one.trim().replace(/^W\//, '') === etag)) return unchanged
  return (takesGzip(head.header('accept-encoding')) ? gzipped() : undefined) ?? plain
}

/** RFC 9110, 12.5.3. A weight of zero refuses an encoding. */
function takesGzip(header: string): boolean {
  return header.split(',').some(one => {
    const [name = '', ...parameters] = one.split(';').map(part => part.trim().toLowerCase())
    return name === 'gzip' && !parameters.some(parameter => /^q=0(\.0*)?$/.test(parameter))
  })
}
