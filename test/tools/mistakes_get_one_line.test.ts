/**
 * An operator's mistakes at a terminal: wrong arguments, a bad --out, Ctrl-C, `| head`. The answer
 * is one line that helps, never a stack trace.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test, vi } from 'vitest'
import { encodeBackup } from '../../src/tools/backup/backup-format.ts'
import { FORMAT_VERSION } from '../../src/util/data-folder.ts'
import { startServer, temporaryFolder } from '../util/server.ts'
import { copyOf, type Filled, fillFolder, weir, weirInside } from './folder.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const root = temporaryFolder('weir-operator-')
let filled: Filled

beforeAll(async () => {
  filled = await fillFolder()
})

/** Expects one line on standard error, with its time, and no stack trace. */
async function refused(args: readonly string[], run: typeof weir | typeof weirInside) {
  const { code, err, out } = await run([...args, '--data-dir', filled.dataDir])
  expect([args, err.split('\n').length, out, /\n\s+at /.test(err)]).toEqual([args, 2, '', false])
  return { code, err }
}

const FILTER = (value: unknown, column = 'n') => JSON.stringify([{ column, operator: 'GREATER_THAN', value }])

const MISTAKES: [string[], string][] = [
  [['dance'], 'there is no command "dance"; there are start, inspect, verify'],
  [['strat'], 'there is no command "strat", "start" may be meant; there are start'],
  [['--prot', '1'], 'weir start has no option --prot: --port may be meant; see weir start --help'],
  [['start', '--data-drr=x'], 'weir start has no option --data-drr: --data-dir may be meant'],
  [['export', 'keyed', '--colums', 'n'], 'weir export has no option --colums: --columns may be meant'],
  [['export', 'keyed', '--port', '1'], 'weir export has no option --port: only weir start takes --port'],
  [['export', 'keyed', '--prot', '1'], 'weir export has no option --prot: only weir start takes --port'],
  [['export', '--out', '-'], 'weir export needs <pool>: weir export <pool>'],
  [
    ['export', 'keyed', '--out', '/tmp/x.ndjson.gz'],
    'no format is written as .gz: name one with --format, as in --format parquet',
  ],
  [
    ['export', 'keyed', '--out', '/tmp/x.jsonl', '--compression', 'gzip'],
    '--compression is for --format parquet',
  ],
  [['export', 'nobody', '--out', '-'], 'there is no pool "nobody"; there are events, keyed, plain'],
  [['inspect', 'nobody'], 'there is no pool "nobody"; there are events, keyed, plain'],
  [
    ['export', 'keyed'],
    'weir export needs --out: a file, as in --out rows.parquet, or - for standard output',
  ],
  [['export', 'keyed', '--out'], '--out needs a value: --out file'],
  [['export', 'keyed', '--out', '--force'], '--out needs a value: --out file, or --out=… where it begins'],
  [['export', 'keyed', '-out', 'x'], 'weir export has no option -out; options have two dashes: --out'],
  [['export', 'keyed', '--into', 'x'], 'weir export has no option --into'],
  [['export', 'keyed', '--out=-', '--force=yes'], '--force takes no value'],
  [['inspect', '--kernel'], '--kernel needs a value: --kernel native|js'],
  [
    ['export', 'keyed', '--out', '-', '--format', 'xml'],
    '--format is one of parquet, arrow, ndjson, csv, not "xml"',
  ],
  [
    ['export', 'keyed', '--out', '-', '--columns', 'n,m'],
    '--columns: there is no column "m"; there are _service_received_at, _service_payload, ts, id, n',
  ],
  [
    ['export', 'keyed', '--out', '-', '--columns', '[1]'],
    '--columns takes names between commas, or a JSON list',
  ],
  [
    ['export', 'keyed', '--out', '-', '--where', 'n > 5'],
    '--where: this is not JSON; for example --where \'[{"column":"n"',
  ],
  [['export', 'keyed', '--out', '-', '--where', FILTER('five')], '--where: column "n": '],
  [
    ['export', 'keyed', '--out', '-', '--where', FILTER(5)],
    '--where: column "n": the value is a string; for example',
  ],
  [
    ['export', 'keyed', '--out', '-', '--where', FILTER('5', 'm')],
    '--where: there is no column "m"; there are _service_received_at',
  ],
  [['export', 'keyed', '--out', '-', '--start', 'yesterday'], '--start: '],
  [['restore'], 'weir restore needs <folder>'],
  [['restore', '/nowhere'], '/nowhere is not a complete backup: it has no file BACKUP'],
  [['backup', '/proc/none'], '/proc/none'],
  [['backup', '/new', '--url', 'localhost:8420'], '--url takes the address of a running server, as http://'],
  [
    ['backup', '/new', '--url', 'http://127.0.0.1:1'],
    'http://127.0.0.1:1 cannot be reached: fetch opens no connection to port 1, which belongs to another protocol',
  ],
  [
    ['--host', '192.0.2.1', '--port', '0', '--http', 'node'],
    'this machine has no address 192.0.2.1: --host takes',
  ],
  [['--host', '192.0.2.1', '--port', '0'], 'this machine has no address 192.0.2.1: --host takes'],
]

// The server needs a process. A few others have one too: the program prints what they throw.
test.each(MISTAKES)('%j is refused in one line', async (args, says) => {
  const isProcess = args[0] === '--host' || args[0] === 'dance' || args[0] === 'restore'
  const { code, err } = await refused(args, isProcess ? weir : weirInside)
  expect([code, err]).toEqual([2, expect.stringContaining(says)])
})

test('a folder without data, of a newer version, in use, or missing is refused', async () => {
  const none = temporaryFolder()
  expect((await weir(['inspect', '--data-dir', none])).err).toContain(
    'it has no file FORMAT; name the data folder with --data-dir or WEIR_DATA_DIR',
  )
  expect((await weirInside(['inspect', '--data-dir', join(none, 'x')])).err).toContain('it does not exist')
  expect(existsSync(join(none, 'x'))).toBe(false)
  writeFileSync(join(none, 'FORMAT'), `weir ${FORMAT_VERSION + 1}\n`)
  const newer = await weirInside(['verify', '--data-dir', none])
  expect([newer.code, newer.err]).toEqual([
    2,
    expect.stringContaining('a newer version of Weir wrote the folder'),
  ])
  const server = await startServer({ dataDir: copyOf(filled) })
  for (const [index, args] of [
    ['inspect'],
    ['verify'],
    ['rebuild'],
    ['repair'],
    ['export', 'keyed', '--out', '-'],
    ['backup', join(none, 'b')],
  ].entries()) {
    const run = index === 0 ? weir : weirInside
    const { code, err } = await run([...args, '--data-dir', server.dataDir])
    expect([args, code, err]).toEqual([
      args,
      2,
      expect.stringContaining('stop it first, or name a running server'),
    ])
  }
  expect((await server.stop()).code).toBe(0)
})

test('an export has the format that the name of its file says', async () => {
  const begins: [string, RegExp][] = [
    ['rows.ndjson', /^{"_service_received_at"/],
    ['rows.jsonl', /^{"_service_received_at"/],
    ['rows.CSV', /^_service_received_at,/],
    ['rows.arrow', /^ARROW1/],
    ['rows.parquet', /^PAR1/],
    ['rows.2026-11-23', /^PAR1/],
  ]
  for (const [name, begin] of begins) {
    const out = join(root, name)
    const { code, err } = await weirInside(['export', 'keyed', '--out', out, '--data-dir', filled.dataDir])
    expect([name, code, err]).toEqual([name, 0, expect.stringContaining('rows, ')])
    expect([name, readFileSync(out).toString('latin1').slice(0, 40)]).toEqual([
      name,
      expect.stringMatching(begin),
    ])
    rmSync(out)
  }
})

test('a port that is in use, and one where nothing listens, are told apart', async () => {
  const server = await startServer()
  const port = new URL(server.base).port
  for (const http of ['uws', 'node']) {
    const folder = join(root, `second-${http}`)
    const { code, err } = await weir(['--port', port, '--http', http, '--data-dir', folder])
    expect([code, err]).toEqual([2, expect.stringContaining(`${port}: the port is in use: stop the process`)])
  }
  expect((await server.stop()).code).toBe(0)
  const { code, err } = await weirInside([
    'backup',
    '/new',
    '--url',
    server.base,
    '--data-dir',
    server.dataDir,
  ])
  expect([code, err]).toEqual([2, expect.stringContaining('cannot be reached: nothing listens there: start')])
})

test('an example without its arguments prints its usage', () => {
  const folder = fileURLToPath(new URL('../../../examples/', import.meta.url))
  const examples: [string, string][] = [
    [process.execPath, 'read-pool.mjs'],
    [process.execPath, 'read-segment.mjs'],
    ['python3', 'read_pool.py'],
    ['python3', 'read_segment.py'],
  ]
  for (const [program, name] of examples) {
    const { status, stderr, error } = spawnSync(program, [join(folder, name)], { encoding: 'utf8' })
    if (error !== undefined) continue // no Python here
    expect([name, status === 0, stderr.split('\n').length, stderr]).toEqual([
      name,
      false,
      2,
      expect.stringMatching(/^usage: (node|python) examples\//),
    ])
  }
})

test('a bad --out is refused before anything is read, and leaves nothing', async () => {
  const folder = join(root, 'folder')
  mkdirSync(folder)
  const there = join(root, 'there')
  writeFileSync(there, 'mine')
  for (const [out, says] of [
    [join(root, 'none', 'rows'), 'the folder'],
    [folder, 'is a folder: name a file in it'],
    [there, 'exists already: name another file, or replace it with --force'],
    [join(there, 'rows'), 'cannot be written'],
    ['/dev/null', 'is not a plain file'],
    ['/proc/rows', '/proc'],
  ] as const) {
    const { code, err } = await weirInside(
      ['export', 'keyed', '--out', out, '--force', '--data-dir', filled.dataDir].filter(
        arg => arg !== '--force' || out !== there,
      ),
    )
    expect([out, /\n\s+at /.test(err)]).toEqual([out, false])
    // Only the attempt shows that /proc takes no files.
    expect([out, code, err]).toEqual([out, out === '/proc/rows' ? 1 : 2, expect.stringContaining(says)])
  }
  expect(readFileSync(there, 'utf8')).toBe('mine')
})

test.each(['open', 'write', 'fdatasync', 'rename'])(
  'a disk error in %s of the export gives one line and exit 1, and leaves nothing',
  async operation => {
    const full = join(root, `full-${operation}`)
    mkdirSync(full)
    const { code, err } = await weir(
      // DuckDB writes Parquet itself. Every other format goes through the disk seam.
      ['export', 'keyed', '--format', 'ndjson', '--out', join(full, 'rows'), '--data-dir', filled.dataDir],
      {
        WEIR_FAULT_AT: `${operation} ${full}/ 1 ENOSPC ${full}`,
      },
    )
    expect([code, err]).toEqual([1, expect.stringMatching(/--out .*rows cannot be written: .*ENOSPC/)])
    expect(err).not.toMatch(/\n\s+at /)
    expect(readdirSync(full)).toEqual([])
  },
)

test.each([['inspect'], ['verify'], ['--help'], ['export', 'keyed', '--format', 'ndjson', '--out', '-']])(
  '%s into a closed pipe ends without a message, by SIGPIPE',
  (...args) => {
    const line = `"$0" "$@" 2>"$ERR" | true; echo "\${PIPESTATUS[0]}"`
    const errors = join(root, 'errors')
    const { stdout } = spawnSync(
      'bash',
      ['-c', line, process.execPath, MAIN, ...args, '--data-dir', filled.dataDir],
      {
        env: { ...process.env, ERR: errors },
      },
    )
    expect([args, stdout.toString()]).toEqual([args, '141\n'])
    expect(readFileSync(errors, 'utf8')).not.toMatch(/EPIPE|\n\s+at /)
  },
)

test.each([['inspect'], ['--help'], ['export', 'keyed', '--format', 'ndjson', '--out', '-']])(
  '%s to a full disk ends with one line and exit 2',
  (...args) => {
    const full = openSync('/dev/full', 'w')
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args, '--data-dir', filled.dataDir], {
      stdio: ['ignore', full, 'pipe'],
    })
    closeSync(full)
    const lines = stderr.toString().trimEnd().split('\n')
    const says = expect.stringContaining('standard output cannot be written: ENOSPC')
    expect([args, status, lines.at(-1)]).toEqual([args, 2, says])
    expect(stderr.toString()).not.toMatch(/\n\s+at /)
  },
)

/** Makes a backup whose first file is so long that no test could wait for its checksum. */
function endlessBackup(): string {
  const folder = join(root, 'endless')
  mkdirSync(folder)
  const bytes = 2 ** 40
  const sha256 = createHash('sha256').digest('hex')
  const contents = { format: 1, weir: '0', sequence: 1, createdAt: '', pools: 0, segments: 0 } as const
  writeFileSync(join(folder, 'FORMAT'), '')
  truncateSync(join(folder, 'FORMAT'), bytes)
  writeFileSync(
    join(folder, 'BACKUP'),
    encodeBackup({
      ...contents,
      files: ['FORMAT', 'catalog/data.mdb'].map(path => ({ path, bytes, sha256 })),
    }),
  )
  return folder
}

test('Ctrl-C during a progress bar restores the cursor and line wrapping, and the shell sees 130', async () => {
  const command = `${process.execPath} ${MAIN} restore ${endlessBackup()} --data-dir ${join(root, 'never')}`
  // script(1) gives it a terminal; -e is the exit code of the command.
  const child = spawn('script', ['-qefc', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
  let shown = ''
  let isAsked = false
  child.stdout.on('data', (bytes: Buffer) => {
    shown += bytes.toString()
    if (isAsked || !shown.includes('MiB')) return
    isAsked = true
    child.stdin.write('\x03')
  })
  const code = await new Promise(resolve => child.once('close', resolve))
  expect([code, shown.lastIndexOf('\x1b[?25h') > shown.lastIndexOf('\x1b[?25l')]).toEqual([130, true])
  expect(shown.lastIndexOf('\x1b[?7h')).toBeGreaterThan(shown.lastIndexOf('\x1b[?7l'))
  expect(existsSync(join(root, 'never'))).toBe(false)
})

/** Tries to interrupt a short command. */
const TRIES_MAX = 10

test('Ctrl-C leaves no file of an export and no folder of a backup', async () => {
  const endOnce = (args: readonly string[], folder: string) =>
    new Promise<readonly [code: number | null, signal: string | null, left: string[]]>(resolve => {
      const child = spawn(process.execPath, [MAIN, ...args, '--data-dir', filled.dataDir], {
        stdio: 'ignore',
      })
      const watcher = watch(folder, () => {
        watcher.close()
        child.kill('SIGINT')
      })
      child.once('exit', (code, signal) => {
        watcher.close()
        resolve([code, signal, readdirSync(folder)])
      })
    })
  /** A command that is done before the signal comes, with the whole `name` there, runs again. */
  const end = async (args: readonly string[], folder: string, name: string) => {
    for (let tries = 1; ; tries += 1) {
      rmSync(folder, { recursive: true, force: true })
      mkdirSync(folder)
      const ended = await endOnce([...args, join(folder, name)], folder)
      if (!ended[2].includes(name) || tries === TRIES_MAX) return ended
    }
  }
  const interrupted = [null, 'SIGINT', []]
  expect(await end(['export', 'keyed', '--out'], join(root, 'exported'), 'rows')).toEqual(interrupted)
  expect(await end(['backup'], join(root, 'backed-up'), 'new')).toEqual(interrupted)
})

test('the help of repair says what it does without --yes', async () => {
  const { out } = await weir(['repair', '--help'])
  expect(out).toMatch(/--yes .*without it repair prints what is lost, changes nothing, and exits with 2/)
})
