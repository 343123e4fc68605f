/**
 * A small clone of Weir: the real set-up over a few sources. Its npm, C++ compiler, tsc, bundler,
 * vite and maker of the schema's types only record their calls.
 */
import { type ChildProcess, type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

const LOCK_FILE = {
  packages: {
    '': { name: 'weir' },
    'node_modules/lmdb': { integrity: 'sha512-lmdb' },
    'node_modules/@lmdb/lmdb-other-machine': { integrity: 'sha512-other', optional: true },
    'node_modules/uWebSockets.js': { integrity: 'sha512-uws' },
    'node_modules/typescript': { version: '7.1.2', integrity: 'sha512-typescript', dev: true },
    'node_modules/@types/node': { version: '20.1.2', integrity: 'sha512-node', dev: true },
    'node_modules/@types/cli-progress': { version: '3.1.2', integrity: 'sha512-progress', dev: true },
    'node_modules/rolldown': { version: '1.1.2', integrity: 'sha512-rolldown', dev: true },
    'node_modules/vite': { version: '8.1.2', integrity: 'sha512-vite', dev: true },
    'node_modules/preact': { version: '11.1.2', integrity: 'sha512-preact', dev: true },
    'node_modules/preact-iso': { version: '2.1.2', integrity: 'sha512-preact-iso', dev: true },
    'node_modules/uplot': { version: '1.1.2', integrity: 'sha512-uplot', dev: true },
    'node_modules/vitest': { integrity: 'sha512-vitest', dev: true },
  },
}

/** What npm leaves of the lock file without these packages. */
function lockWithout(isLeftOut: (folder: string, isDev: boolean) => boolean): string {
  const packages = Object.entries(LOCK_FILE.packages).filter(
    ([folder, one]) => !isLeftOut(folder, 'dev' in one),
  )
  return JSON.stringify({ packages: Object.fromEntries(packages) })
}

/** The result of a set-up. */
interface Ended {
  readonly code: number | null
  readonly output: string
}

interface User {
  readonly uid?: number
  readonly gid?: number
}

export class Clone {
  readonly root = temporaryFolder('weir-clone-')
  /**
   * One line for each call of a tool: `npm …`, `compile FILE`, `link`, `types`, `tsc PROJECT`,
   * `bundle`, `vite`, and `twice FILE` where two compilers write one object.
   */
  readonly #calls = join(this.root, 'calls.log')
  readonly #children = new Set<ChildProcess>()

  constructor() {
    cpSync(join(ROOT, 'src', 'setup.mjs'), join(this.root, 'src', 'setup.mjs'))
    if (existsSync(join(ROOT, 'src', 'setup')))
      cpSync(join(ROOT, 'src', 'setup'), join(this.root, 'src', 'setup'), { recursive: true })
    this.write(
      'src/setup/graphql-types.mjs',
      `import { appendFileSync } from 'node:fs'
       appendFileSync(process.env.CALLS, 'types\\n')`,
    )
    this.write('package.json', '{"type":"module","engines":{"node":">=20.19"}}')
    this.write('package-lock.json', JSON.stringify(LOCK_FILE))
    this.write('tsconfig.json', '{}')
    this.write('src/app/main.ts', 'the main file')
    this.write('src/console/main.tsx', 'the console')
    this.write('src/api/graphql/a.graphql', 'the schema')
    this.write('src/parse/native/a.cpp', 'a')
    this.write('src/parse/native/b.cpp', 'b')
    this.install()
    // As npm does, it leaves dev packages out, and takes those that the command line names.
    this.npm(
      `echo "npm $*" >> "$CALLS"; cp -r "$CLONE/installed/." "$CLONE/node_modules/"
       case "$*" in *--omit=dev*)
         cp "$CLONE/installed/lock-of-builders.json" "$CLONE/node_modules/.package-lock.json"
         rm -rf "$CLONE/node_modules/vitest";;
       esac`,
    )
    this.compiler('1')
  }

  /** Installs an npm that is this shell code. */
  npm(script: string): void {
    this.#tool('npm', script)
  }

  /** Creates the files that npm leaves: its own lock file and a tsc. */
  install(): void {
    this.write(
      'installed/lock-of-builders.json',
      lockWithout(folder => folder === 'node_modules/vitest'),
    )
    for (const folder of ['installed', 'node_modules']) {
      this.write(join(folder, '.package-lock.json'), JSON.stringify(LOCK_FILE))
      this.write(join(folder, 'vitest/package.json'), '{}')
      this.write(join(folder, 'typescript/bin/package.json'), '{"type":"commonjs"}')
      this.write(join(folder, 'rolldown/package.json'), '{"type":"module","exports":"./rolldown.js"}')
      this.write(
        join(folder, 'rolldown/rolldown.js'),
        `import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
         const write = async ({ dir }) => {
           appendFileSync(process.env.CALLS, 'bundle\\n')
           mkdirSync(dir)
           writeFileSync(dir + '/run-command.js', '')
           return { output: [{ fileName: 'run-command.js' }] }
         }
         export const rolldown = async () => ({ write, close: async () => {} })`,
      )
      this.write(join(folder, 'vite/bin/package.json'), '{"type":"commonjs"}')
      this.write(
        join(folder, 'vite/bin/vite.js'),
        `const fs = require('node:fs')
         fs.appendFileSync(process.env.CALLS, 'vite\\n')
         fs.mkdirSync('dist/console', { recursive: true })
         fs.writeFileSync('dist/console/index.html', 'the page')`,
      )
    }
    this.tsc('console.log("weir runs")')
  }

  /** Installs a tsc that compiles the sources to this program. */
  tsc(program: string): void {
    for (const folder of ['installed', 'node_modules'])
      this.write(
        join(folder, 'typescript/bin/tsc'),
        `const fs = require('node:fs')
         fs.appendFileSync(process.env.CALLS, 'tsc ' + process.argv[3] + '\\n')
         for (const folder of ['dist/src/app', 'dist/workers']) fs.mkdirSync(folder, { recursive: true })
         fs.writeFileSync('dist/src/app/main.js', ${JSON.stringify(program)})`,
      )
  }

  /** Leaves the files that `npm prune --omit=dev` leaves. */
  prune(): void {
    this.write(
      'node_modules/.package-lock.json',
      lockWithout((_, isDev) => isDev),
    )
    rmSync(join(this.root, 'node_modules/vitest'), { recursive: true })
    rmSync(join(this.root, 'node_modules/typescript'), { recursive: true })
  }

  /**
   * Installs a compiler of this version. It takes a moment for each object.
   * @param failure shell code that may end it; `$kind` is `probe`, `compile` or `link`
   */
  compiler(version: string, failure = ''): void {
    this.#tool(
      'g++',
      `if [ "$1" = --version ]; then echo "fake g++ ${version}"; exit 0; fi
       kind=link
       while [ $# -gt 0 ]; do
         case "$1" in -c) kind=compile; file="$2";; *probe.cpp) kind=probe;; -o) out="$2";; esac
         shift
       done
       [ $kind = compile ] && [ "\${file#src/}" = "$file" ] && kind=theirs
       ${failure}
       case $kind in compile) echo "compile $file" >> "$CALLS";; link) echo link >> "$CALLS";; esac
       if ! mkdir "$out.held" 2>/dev/null; then echo "twice $file" >> "$CALLS"; fi
       [ $kind = compile ] && sleep 0.3
       echo made > "$out"
       rmdir "$out.held" 2>/dev/null
       exit 0`,
    )
  }

  #tool(name: string, script: string): void {
    this.write(join('bin', name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(this.root, 'bin', name), 0o755)
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true })
    writeFileSync(join(this.root, path), text)
  }

  append(path: string, text: string): void {
    appendFileSync(join(this.root, path), text)
  }

  has(path: string): boolean {
    return existsSync(join(this.root, path))
  }

  list(path: string): string[] {
    return readdirSync(join(this.root, path)).sort()
  }

  /** Takes the recorded calls. */
  takeCalls(): string[] {
    const lines = existsSync(this.#calls) ? readFileSync(this.#calls, 'utf8').trim().split('\n') : []
    rmSync(this.#calls, { force: true })
    return lines.filter(line => line !== '')
  }

  /** Does what `npm start` does. */
  start(): Promise<Ended> {
    return this.setUp('run', 'src/app/main.js')
  }

  /** Does what `npm start` does for a user who may read the clone and not write to it. */
  async startReadOnly(): Promise<Ended> {
    const isRoot = process.getuid?.() === 0
    spawnSync('chmod', ['-R', isRoot ? 'a+rX,go-w' : 'a-w', this.root])
    const ended = await this.#run(['run', 'src/app/main.js'], isRoot ? { uid: 65_534, gid: 65_534 } : {})
    spawnSync('chmod', ['-R', 'u+w', this.root])
    return ended
  }

  setUp(...args: string[]): Promise<Ended> {
    return this.#run(args, {})
  }

  /** Starts a set-up that nobody waits for. It ends with the clone at the latest. */
  spawn(...args: string[]): ChildProcessByStdio<null, Readable, Readable> {
    return this.#spawn(args, {})
  }

  #spawn(args: readonly string[], user: User): ChildProcessByStdio<null, Readable, Readable> {
    const { PATH } = process.env
    const env = {
      ...process.env,
      PATH: `${join(this.root, 'bin')}:${PATH}`,
      CALLS: this.#calls,
      CLONE: this.root,
    }
    delete (env as { CXX?: string }).CXX
    const child = spawn(process.execPath, [join(this.root, 'src', 'setup.mjs'), ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...user,
    })
    this.#children.add(child)
    child.on('close', () => this.#children.delete(child))
    return child
  }

  async #run(args: readonly string[], user: User): Promise<Ended> {
    const child = this.#spawn(args, user)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += data))
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, output }
  }

  close(): void {
    for (const child of this.#children) child.kill('SIGKILL')
  }
}
