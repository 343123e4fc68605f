/**
 * Bundles the compiled server into dist/bundle: the commands, and each thread and process, with the
 * code that several share in files of its own. Packages stay where they are. The figures are in
 * docs/decisions/0016.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { rolldown } from 'rolldown'
import { dist } from './kit.mjs'

/** Time that files of a bundle before are kept. */
const KEPT_MS = 3_600_000

const workers = readdirSync(join(dist, 'workers')).filter(name => name.endsWith('.js'))
const files = [join(dist, 'src/app/run-command.js'), ...workers.map(name => join(dist, 'workers', name))]
const folder = join(dist, 'bundle')
const made = `${folder}.made`

const build = await rolldown({
  input: Object.fromEntries(files.map(file => [basename(file, '.js'), file])),
  platform: 'node',
  external: /^[^./]/,
})
rmSync(made, { recursive: true, force: true })
const { output } = await build.write({
  dir: made,
  format: 'esm',
  // util/build-files.ts: all files are in one folder.
  entryFileNames: '[name].js',
  chunkFileNames: 'shared-[name]-[hash].js',
  // Messages have names of classes.
  keepNames: true,
})
await build.close()

// A start links its files for a second, so those of the bundle before stay for a while. Shared ones
// have new names, and an entry replaces the one before when they are there.
mkdirSync(folder, { recursive: true })
const names = output.map(({ fileName }) => fileName)
const isShared = name => name.startsWith('shared-')
for (const name of [...names.filter(isShared), ...names.filter(name => !isShared(name))])
  renameSync(join(made, name), join(folder, name))
for (const name of readdirSync(folder).filter(name => !names.includes(name)))
  if (statSync(join(folder, name)).mtimeMs < Date.now() - KEPT_MS) rmSync(join(folder, name))
rmSync(made, { recursive: true })
