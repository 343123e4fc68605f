/**
 * Loads a package as CommonJS, which takes a third to a half of `import`'s processor time in every
 * thread (docs/decisions/0016). Every file must load such a package through here: two copies of a
 * package have different classes.
 *
 * A package that cannot be loaded is an error of the environment: it was not installed for this
 * machine, or the machine is too old for its binary.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { CannotRun } from './errors.ts'
import { IS_CLONE } from './version.ts'

const require = createRequire(import.meta.url)

/** @throws CannotRun that names the package, the reason and the remedy */
export function loadPackage(name: string): unknown {
  try {
    return require(name)
  } catch (error) {
    throw cannotLoad(name, error)
  }
}

/**
 * Checks that packages are installed. Some threads load theirs hours after the start.
 * @throws CannotRun that names the first missing package
 */
export function checkInstalled(names: readonly string[]): void {
  for (const name of names) {
    try {
      require.resolve(name)
    } catch (error) {
      throw cannotLoad(name, error)
    }
  }
}

/**
 * Checks that DuckDB's native code is installed and is a library, without loading it: that takes
 * 0.1 s, and only the query process, the merge thread and the import process need it. Its binary
 * runs with every glibc that Weir runs with.
 * @throws CannotRun
 */
export function checkDuckDb(): void {
  const name = '@duckdb/node-api'
  checkInstalled([name])
  try {
    const isLibrary = readFileSync(duckDbBinary()).subarray(0, ELF.length).equals(ELF)
    if (!isLibrary && process.platform === 'linux') throw new Error('duckdb.node: invalid ELF header')
  } catch (error) {
    throw cannotLoad(name, error)
  }
}

/** The first bytes of a library of Linux. */
const ELF = Buffer.from('\x7fELF')

/** Only the package for the C library of the machine is installed. */
function duckDbBinary(): string {
  const name = `@duckdb/node-bindings-${process.platform}-${process.arch}`
  try {
    return require.resolve(`${name}-musl/duckdb.node`)
  } catch {
    return require.resolve(`${name}/duckdb.node`)
  }
}

/** The error for a package that did not load. */
export function cannotLoad(name: string, error: unknown): CannotRun {
  const reason = loadReason(error)
  return new CannotRun(`the package ${name} cannot be loaded: ${reason} (${machine()}). ${remedy(reason)}`)
}

/**
 * The reason why a module did not load, in one line. Packages wrap the message of the system's
 * loader in lines of their own, and Node adds the files that required the module.
 */
export function loadReason(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  const lines = text
    .split('\n')
    .map(line => line.trim().replace(/^Error: /, ''))
    .filter(line => line !== '')
  return lines.find(line => LOADER_WORDS.test(line)) ?? lines[0] ?? 'no reason given'
}

/** Words of the system's loader, and of Node's search for a module. */
const LOADER_WORDS =
  /GLIBC|GLIBCXX|ELF|cannot open shared object|Cannot find (module|package)|undefined symbol|file too short|Exec format|No native build|relocating/

/** `Node v22.1.0, linux x64, glibc 2.36`. */
export function machine(): string {
  return `Node ${process.version}, ${process.platform} ${process.arch}, ${cLibrary()}`
}

/** The C library of this process. Node knows glibc only; other Linux systems use musl. */
function cLibrary(): string {
  const { header } = process.report.getReport() as unknown as {
    readonly header: { readonly glibcVersionRuntime?: string }
  }
  return header.glibcVersionRuntime === undefined ? 'no glibc' : `glibc ${header.glibcVersionRuntime}`
}

function remedy(reason: string): string {
  const needed = /\b(GLIBC(?:XX)?)_([\d.]+)/.exec(reason)
  if (needed !== null)
    return `Its binary needs ${needed[1]} ${needed[2]}: use a newer system, or a Node version whose binary this system can load`
  return IS_CLONE
    ? "Install the packages of this machine with `npm install --include=optional` in Weir's folder; README.md says where Weir runs"
    : 'Install the package of Weir again, the one for this machine; README.md says where Weir runs'
}
