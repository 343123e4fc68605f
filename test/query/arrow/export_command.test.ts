/**
 * `weir export` of a stopped folder: other readers read its four formats, and wrong options are
 * refused.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { tableFromIPC } from 'apache-arrow'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { beforeAll, expect, test } from 'vitest'
import { weir, weirInside } from '../../tools/folder.ts'
import { send, startServer, temporaryFolder } from '../../util/server.ts'

const MAIN = fileURLToPath(new URL('../../../src/app/main.js', import.meta.url))
const out = temporaryFolder()
let dataDir = ''

const FIRST =
  '{"at":"2026-01-01T00:00:00.000001Z","id":"q\\"u,o","n":9223372036854775807,"f":0.1,"j":{ "a":\r\n[1.50] },"c":"\ufeffmark"}'
const SECOND = '{"at":"2026-01-02","id":"","n":null}'

beforeAll(async () => {
  const server = await startServer()
  dataDir = server.dataDir
  const types = { at: 'TIMESTAMP', id: 'STRING', n: 'INT64', f: 'FLOAT', j: 'JSON', 'c, "d': 'STRING' }
  const columns = Object.entries(types).map(([name, type]) => ({
    name,
    type,
    jsonProperty: name.startsWith('c') ? 'c' : name,
    nullable: name !== 'at' && name !== 'id',
  }))
  const pool = await server.createPool({ uniqueName: 'p', timestamp: 'at', uniqueId: 'id', columns })
  const gone = '{"at":"2026-01-03","id":"gone"}'
  expect((await send(pool.url, `[${FIRST.replace('0.1', '7')},${gone}]`)).status).toBe(200)
  await server.count(pool.poolId)
  expect((await send(pool.url, `[${FIRST},${SECOND}]`)).status).toBe(200)
  expect((await send(pool.url, gone, 'DELETE')).status).toBe(200)
  const large = await server.createPool({ uniqueName: 'large' })
  const events = `[${Array.from({ length: 500 }, (_, i) => `{"i":${i},"pad":"${'x'.repeat(400)}"}`).join()}]`
  for (let i = 0; i < 160; i++) expect((await send(large.url, events)).status).toBe(200)
  expect((await server.stop()).code).toBe(0)
})

/** Runs the code of `weir export` in this process, or as a process where that is `run`. */
function weirExport(args: readonly string[], run: typeof weir | typeof weirInside = weirInside) {
  return run(['export', 'p', '--data-dir', dataDir, ...args])
}

async function exported(
  name: string,
  args: readonly string[],
  run: typeof weir | typeof weirInside = weirInside,
): Promise<string> {
  const file = join(out, name)
  const { code, err } = await weirExport(['--out', file, ...args], run)
  expect([code, err]).toEqual([0, expect.stringContaining('2 rows')])
  return file
}

/** A column's name may have a comma and a quote. */
const HEADER = 'at,id,n,f,j,"c, ""d"\r\n'
const COLUMNS = ['--columns', '["at","id","n","f","j","c, \\"d"]']

test('ndjson: values byte for byte but for line breaks; csv: RFC 4180, null is empty and "" is quoted', async () => {
  const lines = readFileSync(
    await exported('a.ndjson', ['--format', 'ndjson', ...COLUMNS], weir),
    'utf8',
  ).split('\n')
  expect(lines.sort()).toEqual([
    '',
    '{"at":"2026-01-01T00:00:00.000001Z","id":"q\\"u,o","n":9223372036854775807,"f":0.1,"j":{ "a":  [1.50] },"c, \\"d":"\ufeffmark"}',
    '{"at":"2026-01-02T00:00:00.000Z","id":"","n":null,"f":null,"j":null,"c, \\"d":null}',
  ])
  const csv = readFileSync(await exported('a.csv', ['--format', 'csv', ...COLUMNS]), 'utf8')
  const rows = [
    '2026-01-01T00:00:00.000001Z,"q""u,o",9223372036854775807,0.1,"{ ""a"":\r\n[1.50] }",\ufeffmark\r\n',
    '2026-01-02T00:00:00.000Z,"",,,,\r\n',
  ]
  expect(csv.startsWith(HEADER)).toBe(true)
  for (const row of rows) expect(csv).toContain(row)
  expect(csv.length).toBe(HEADER.length + rows.join('').length)
})

test('parquet in every compression is read by hyparquet, snappy by parquetjs-lite; arrow as a file', async () => {
  for (const compression of ['zstd', 'snappy', 'gzip', 'none']) {
    const path = await exported(`${compression}.parquet`, ['--compression', compression])
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors })
    expect(rows.map(row => row['_service_payload']).sort()).toEqual([FIRST, SECOND])
    expect(rows.map(row => row['n'])).toContain(9223372036854775807n)
  }
  const { ParquetReader } = createRequire(import.meta.url)('parquetjs-lite')
  // It takes a comma in a column's name for the end of the name.
  const plain = ['--columns', '_service_received_at,_service_payload,at,id,n,f,j']
  const file = await exported('plain.parquet', ['--compression', 'snappy', ...plain])
  const reader = await ParquetReader.openFile(file)
  const cursor = reader.getCursor()
  const payloads = [(await cursor.next())._service_payload, (await cursor.next())._service_payload]
  expect([payloads.sort(), await cursor.next()]).toEqual([[FIRST, SECOND], null])
  await reader.close()
  const arrow = readFileSync(await exported('a.arrow', ['--format', 'arrow'], weir))
  expect([arrow.subarray(0, 6).toString(), arrow.subarray(-6).toString()]).toEqual(['ARROW1', 'ARROW1'])
  expect(tableFromIPC(arrow).numRows).toBe(2)
})

test('an existing file, unknown names and broken filters are refused, and no file is left', async () => {
  const there = join(out, 'there.csv')
  writeFileSync(there, 'mine')
  const before = readdirSync(out)
  expect(await weirExport(['--format', 'csv', '--out', there], weir)).toMatchObject({ code: 2 })
  expect(readFileSync(there, 'utf8')).toBe('mine')
  const file = join(out, 'none')
  for (const args of [
    ['--columns', 'x'],
    ['--columns', '["id"'],
    ['--columns', '[1]'],
    ['--where', '['],
    ['--start', 'x'],
    ['--format', 'x'],
    ['--compression', 'lz4'],
  ])
    expect([args, (await weirExport(['--out', file, ...args])).code]).toEqual([args, 2])
  expect([existsSync(file), readdirSync(out)]).toEqual([false, before])
  expect((await weirExport(['--format', 'csv', '--out', there, '--force'])).code).toBe(0)
  const where = '[{"column":"n","operator":"IS_NULL"}]'
  const args = ['--format', 'csv', '--out', '-', '--columns', 'id', '--where', where]
  expect((await weirExport(args, weir)).out).toBe('id\r\n""\r\n')
})

test.each(['ndjson', 'parquet'])(
  'Ctrl-C in the middle of an export as %s: dead of it, and no file is left',
  async format => {
    const folder = temporaryFolder()
    const args = ['export', 'large', '--data-dir', dataDir, '--format', format, '--out', join(folder, 'x')]
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', text => {
      said += String(text)
    })
    const ended = once(child, 'close')
    while (child.exitCode === null && !readdirSync(folder).some(name => name.startsWith('x.tmp-')))
      await new Promise(resolve => setTimeout(resolve, 2))
    child.kill('SIGINT')
    expect([await ended, said]).toEqual([[null, 'SIGINT'], expect.anything()])
    expect(readdirSync(folder)).toEqual([])
  },
)
