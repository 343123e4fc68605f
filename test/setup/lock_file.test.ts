/** `npm ci` accepts package-lock.json. Nothing is downloaded here. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** npm leaves packages of other machines out of a lock file that it writes beside node_modules. */
test.each([[[]], [['--omit=dev']]])('npm ci %s finds every package of every platform', more => {
  const folder = temporaryFolder()
  for (const name of ['package.json', 'package-lock.json', '.npmrc'])
    copyFileSync(join(ROOT, name), join(folder, name))
  const env = { ...process.env, npm_config_cache: join(folder, 'cache') }
  const args = ['ci', '--dry-run', '--offline', ...more]
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, env, encoding: 'utf8' })
  expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
})

/** Without an address npm asks the registry about each package first, which doubles its time. */
test('every package has its address and its hash', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string; integrity?: string }>
  }
  const without = Object.entries(packages).filter(
    ([folder, one]) =>
      folder !== '' && !(one.resolved?.startsWith('https://registry.npmjs.org/') && one.integrity),
  )
  expect(without).toEqual([])
})
