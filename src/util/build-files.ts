/**
 * Where the files of this build are. Code runs as compiled, in the folders of its sources below
 * dist/, or bundled, in dist/bundle (setup/bundle.mjs).
 */
const HERE = new URL('.', import.meta.url)
const IS_BUNDLED = HERE.pathname.endsWith('/bundle/')

/** The folder of everything that set-up makes. */
export const DIST = new URL(IS_BUNDLED ? '../' : '../../', HERE)

/** The file that a thread or a process runs; `name` is that of its source in `workers/`. */
export function workerFile(name: string): URL {
  return new URL(IS_BUNDLED ? `bundle/${name}.js` : `workers/${name}.js`, DIST)
}
