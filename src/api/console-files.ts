/**
 * Sends the console: the page at each of its paths, and the files that the page names. Set-up has
 * built them (src/setup/console.mjs). They are read once and sent from memory, compressed where the
 * browser takes it. No file holds anything of a person, so each may be cached.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { CannotRun } from '../util/errors.ts'
import type { PageRoute } from './api-types.ts'
import type { RequestHead } from './http/transport.ts'
import { problemReply, refuse } from './problem.ts'
import { answerFile, type ServedFile, servedFile } from './served-file.ts'

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

/** The routes of the console. Throws CannotRun where its files are missing. */
export function consoleRoutes(folder: string): PageRoute[] {
  const page = builtFile(folder, 'index.html', 'no-cache')
  const files = new Map(
    readdirSync(join(folder, 'console')).map(name => [
      `${FILES}${name}`,
      // The name has the digest of the content.
      builtFile(join(folder, 'console'), name, 'public, max-age=31536000, immutable'),
    ]),
  )
  return [
    ...PAGES.map(path => ({
      path,
      read: (head: RequestHead) => answerFile(page, name => head.header(name)),
    })),
    {
      path: `${FILES}:file`,
      read: head => {
        const file = files.get(head.path)
        return file === undefined ? problemReply(NO_FILE) : answerFile(file, name => head.header(name))
      },
    },
  ]
}

const NO_FILE = refuse(404, 'not_found', 'the console has no such file')

function builtFile(folder: string, name: string, caching: string): ServedFile {
  return servedFile(readBuilt(join(folder, name)), {
    ...SECURITY,
    'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
    'cache-control': caching,
  })
}

function readBuilt(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new CannotRun(
      `the console is not there: ${(error as Error).message}; build or install Weir again, or start with --console off`,
    )
  }
}
