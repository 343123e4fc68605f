/** `weir import`: files of every format into a running server, mistakes, and refused rows. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { weir } from './folder.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const folder = temporaryFolder()
let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer()
  pool = await server.createPool({
    uniqueName: 'rows',
    columns: [
      { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
      { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
      { name: 'n', jsonProperty: 'n', type: 'INT64', nullable: true },
    ],
    timestamp: 'at',
    uniqueId: 'id',
  })
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

function file(name: string, body: string | Uint8Array): string {
  const path = join(folder, name)
  writeFileSync(path, body)
  return path
}

const weirImport = (...args: string[]) =>
  weir(['import', ...args, '--url', server.base, '--data-dir', server.dataDir])
const lines = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => `{"at":"2026-01-01","id":"${prefix}${n}","n":${n}}\n`).join('')

test('files of several formats are imported in turn', async () => {
  const ndjson = file('one.ndjson', lines('a', 1234))
  const zipped = file('two.jsonl.GZ', gzipSync(lines('b', 10)))
  const csv = file('three.csv', 'at,id,n\n2026-01-01,c1,1\n')
  const { code, out, err } = await weirImport('rows', ndjson, zipped, csv)
  expect([err, code]).toEqual(['', 0])
  expect(out).toBe(
    `${ndjson}: 1,234 rows: 1,234 stored, 0 refused\n${zipped}: 10 rows: 10 stored, 0 refused\n${csv}: 1 rows: 1 stored, 0 refused\n`,
  )
  expect(await server.count(pool.poolId)).toBe('1245')
})

test('refused rows are printed with file and line, and exit with 1', async () => {
  const bad = file('bad.ndjson', `${lines('d', 1)}\nno json\n{"id":"x"}\n${'[]\n'.repeat(5)}`)
  const { code, out, err } = await weirImport(pool.poolId, bad, '--errors-max', '3')
  expect(code).toBe(1)
  expect(out).toBe(`${bad}: 8 rows: 1 stored, 7 refused\n`)
  expect(err.split('\n')).toEqual([
    `${bad}:3: not_json: the row is not JSON: expected true, false or null at byte 0, found "n"`,
    `${bad}:4: missing_value: column "at" (property "at") is required, found nothing`,
    `${bad}:5: not_object: a row is one JSON object`,
    `${bad}: 4 further refused rows are not listed`,
    '',
  ])
})

test('fields and columns without each other are told, and flags settle it', async () => {
  const near = file('near.csv', 'at,id,N\n2026-01-01,n1,5\n')
  const refused = await weirImport('rows', near)
  expect([refused.code, refused.out]).toEqual([2, ''])
  expect(refused.err).toContain('the header "N" is no column, and nothing fills "n": give map (--map "N=n")')
  const ignored = await weirImport('rows', near, '--ignore-unknown')
  expect([ignored.code, ignored.err.split('\n')]).toEqual([
    0,
    [
      `${near}: "N" is no column, "n" may be meant: --map "N=n"`,
      `${near}: nothing filled the columns: n`,
      '',
    ],
  ])
  const zeit = file('zeit.csv', 'Zeit,Nr.,N,x\n2026-01-01,n1,5,\n')
  const mapped = await weirImport('rows', zeit, '--map', 'N=n', '--map', 'Zeit=at', '--map', 'Nr.=id')
  expect([mapped.code, mapped.err]).toEqual([0, `${zeit}: no columns, and kept in the payload alone: x\n`])
  const rows = file('by.ndjson', '{"at":"2026-01-01","id":"n2","n":1}\n')
  expect((await weirImport('rows', rows, '--by', 'column')).err).toBe('')
  const wrong = await weirImport('rows', rows, '--map', 'n')
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('map: it is a field of the file, =')])
})

test('standard input is read as NDJSON, or as --format says', async () => {
  const child = spawn(
    process.execPath,
    [MAIN, 'import', 'rows', '-', '--url', server.base, '--data-dir', server.dataDir, '--format', 'csv'],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  let out = ''
  child.stdout.on('data', text => {
    out += text
  })
  child.stdin.write('at,id,n\n2026-01-01,stdin')
  child.stdin.end('1,5\n')
  const code = await new Promise(resolve => child.once('close', resolve))
  expect([code, out]).toEqual([0, 'standard input: 1 rows: 1 stored, 0 refused\n'])
})

test.each([
  [['rows'], /weir import needs <file…>/],
  [['rows', 'none.ndjson'], /none\.ndjson cannot be read: .*no such file/],
  [['rows', 'rows.xml'], /rows\.xml: its name does not say its format/],
  [['rows', '-', '-'], /give - once/],
  [['rows', '-', '--resume'], /--resume needs a file/],
  [['rows', '-', '--format', 'xml'], /--format is one of/],
  [['rows', '-', '--errors-max', '10001'], /--errors-max is a number/],
] as const)('%j is a mistake', async (args, message) => {
  const { code, err } = await weirImport(...args)
  expect(err).toMatch(message)
  expect(err.trim().split('\n').length).toBe(1)
  expect(code).toBe(2)
})

test('an unknown pool, wrong credentials and a server that is not there exit with 2', async () => {
  const one = file('some.ndjson', lines('e', 1))
  const unknown = await weirImport('nobody', one)
  expect([unknown.code, unknown.err]).toEqual([
    2,
    expect.stringContaining('no Data Pool has the id or unique name "nobody"'),
  ])
  const env = { WEIR_CLIENT_ID: 'APP1', WEIR_CLIENT_SECRET: 'wrong-but-long-enough' }
  const wrong = await weir(['import', 'rows', one, '--url', server.base], env)
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('status 401')])
  const away = await weir([
    'import',
    'rows',
    one,
    '--url',
    'http://127.0.0.1:9',
    '--data-dir',
    server.dataDir,
  ])
  expect([away.code, away.err]).toEqual([2, expect.stringContaining('cannot be reached: ')])
})

test('a damaged file exits with 2 and says what is durable; --resume does not send a whole one again', async () => {
  const zipped = gzipSync(lines('f', 50_000))
  const broken = file('broken.ndjson.gz', zipped.subarray(0, zipped.length - 10))
  const { code, err } = await weirImport('rows', broken)
  expect([code, err]).toEqual([
    2,
    expect.stringMatching(/gzip.*the first \d+ rows are durable: resume with skipRows=/),
  ])
  const whole = file('whole.ndjson', lines('g', 600))
  expect((await weirImport('rows', whole)).code).toBe(0)
  const again = await weirImport('rows', whole, '--resume')
  expect([again.code, again.out]).toEqual([0, `${whole}: imported already, 600 rows\n`])
})

test('--resume takes no import of the same bytes in another format for this one', async () => {
  const rows = file('rows.txt', '{}\n{}\n{}\n')
  const asCsv = await weirImport('rows', rows, '--format', 'csv')
  expect([asCsv.code, asCsv.out]).toEqual([1, `${rows}: 2 rows: 0 stored, 2 refused\n`])
  const { code, out } = await weirImport('rows', rows, '--format', 'ndjson', '--resume')
  expect([code, out]).toEqual([1, `${rows}: 3 rows: 0 stored, 3 refused\n`])
})
