/**
 * Bundles the compiled server into dist/bundle: the commands, and each thread and process, with the
 * code that several share in files of its own. Packages stay where they are. The figures are in
 * docs/decisions/0016.
 */
import { readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { rolldown } from 'rolldown'
import { dist } from './kit.mjs'

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
await build.write({
  dir: made,
  format: 'esm',
  // util/build-files.ts: all files are in one folder.
  entryFileNames: '[name].js',
  chunkFileNames: 'shared-[name]-[hash].js',
  // Messages have names of classes.
  keepNames: true,
})
await build.close()
rmSync(folder, { recursive: true, force: true })
renameSync(made, folder)
