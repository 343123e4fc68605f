/**
 * `npm run test:python -- [python]`: gets tokens from a real server with Python's
 * requests-oauthlib. It is not part of `npm test`, because few machines have that package.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { say, warn } from '../../../src/util/say.ts'
import { removeLeftovers, startServer } from '../../util/server.ts'

const PACKAGE = 'requests-oauthlib==2.0.0'
const python = process.argv[2] ?? 'python3'

const found = spawnSync(python, ['-c', 'import requests_oauthlib'], { encoding: 'utf8' })
if (found.status !== 0) {
  warn(
    `${python} has no requests-oauthlib: run python3 -m venv /tmp/venv && /tmp/venv/bin/pip install ${PACKAGE}, then npm run test:python -- /tmp/venv/bin/python`,
  )
  process.exit(2)
}
const server = await startServer()
const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as {
  readonly clientId: string
  readonly clientSecret: string
}
const { status } = spawnSync(python, ['test/clients/python/requests_oauthlib_tokens.py'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    WEIR_URL: server.base,
    WEIR_CLIENT_ID: admin.clientId,
    WEIR_CLIENT_SECRET: admin.clientSecret,
    OAUTHLIB_INSECURE_TRANSPORT: '1', // the library takes tokens over TLS only
  },
})
await server.stop()
removeLeftovers()
say(status === 0 ? 'requests-oauthlib: all passed' : 'requests-oauthlib: failed')
process.exit(status === 0 ? 0 : 1)
