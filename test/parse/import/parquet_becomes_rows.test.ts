/** Parquet becomes rows: every type as JSON, damage anywhere, and rows that are left out. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import type { ColumnType, SchemaColumn } from '../../../src/format/schema.ts'
import { ESTIMATED_INNER_BYTES, weightSql } from '../../../src/parse/import/row-weight.ts'
import { DuckDBInstance } from '../../../src/util/duckdb.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../../src/util/limits.ts'
import { quoteText } from '../../../src/util/sql.ts'
import { integersFrom, newSeed, someOf } from '../../util/random.ts'
import { removeLeftovers, temporaryFolder } from '../../util/server.ts'
import { mountSmall, NO_SMALL_DISK } from '../../util/small-disk.ts'
import { cut, type Given, type Imported, readImport } from './reading.ts'

afterAll(removeLeftovers)
const folder = temporaryFolder()
const connection = await (await DuckDBInstance.create(':memory:')).connect()
await connection.run("SET TimeZone = 'UTC'")
let files = 0

/** A Parquet file of a query's rows. */
async function parquet(sql: string, options = ''): Promise<Buffer> {
  files += 1
  const file = join(folder, `given-${files}.parquet`)
  await connection.run(`COPY (${sql}) TO ${quoteText(file)} (FORMAT parquet${options})`)
  return readFileSync(file)
}

async function read(pieces: readonly Uint8Array[], more: Given = {}): Promise<Imported> {
  files += 1
  const spoolFile = join(folder, `spool-${files}.parquet`)
  const got = await readImport(pieces, { format: 'parquet', spoolFile, ...more })
  expect(existsSync(spoolFile)).toBe(false)
  return got
}

const column = (name: string, type: ColumnType, jsonProperty = name): SchemaColumn => ({
  name,
  type,
  jsonProperty,
  required: false,
})
const events = (got: Imported) =>
  got.events.map(event => JSON.parse(event.replace(/^\d+:\d+:/, '')) as unknown)

test('each type becomes the JSON that the contract takes', async () => {
  const file =
    await parquet(`SELECT true AS b, 1::TINYINT AS i8, -9223372036854775808 AS i64, 18446744073709551615::UBIGINT AS u64,
    0.1::FLOAT AS f, 1e300 AS x, 12345678901234567.125::DECIMAL(20,3) AS d, 'é"\n' AS s, DATE '1969-12-31' AS day,
    TIMESTAMP '2026-01-02 03:04:05.123456' AS at, TIMESTAMPTZ '2026-01-02 03:04:05+02' AS tz, TIME '01:02:03' AS t,
    '2026-01-02 03:04:05.123456789'::TIMESTAMP_NS AS ns, [1, NULL, 3] AS l, {'a': {'b': [1.5]}, 'n': NULL} AS o, MAP {'k': 1} AS m,
    'text'::BLOB AS bytes, '\\xFF'::BLOB AS raw, NULL::INT AS nothing, 'NaN'::DOUBLE AS nan, '-inf'::FLOAT AS inf,
    '49c248c2-168e-4ccf-b6e7-a9b336e96a57'::UUID AS u`)
  const got = await read([file])
  expect(got.refused).toEqual([])
  const text = got.events[0]?.slice(4) ?? ''
  for (const exact of [
    '"i64":-9223372036854775808,',
    '"u64":18446744073709551615,',
    '"d":12345678901234567.125,',
  ])
    expect(text).toContain(exact)
  expect(JSON.parse(text)).toEqual({
    b: true,
    i8: 1,
    i64: expect.any(Number),
    u64: expect.any(Number),
    f: Math.fround(0.1),
    x: 1e300,
    d: expect.any(Number),
    s: 'é"\n',
    day: '1969-12-31',
    at: '2026-01-02 03:04:05.123456',
    tz: '2026-01-02 01:04:05+00',
    t: '01:02:03',
    ns: '2026-01-02 03:04:05.123456789',
    l: [1, null, 3],
    o: { a: { b: [1.5] }, n: null },
    m: { k: 1 },
    bytes: 'text',
    raw: '/w==',
    nan: 'nan',
    inf: '-inf',
    u: '49c248c2-168e-4ccf-b6e7-a9b336e96a57',
  })
})

test('names are as in CSV: properties, columns, paths; quotes in a name do no harm', async () => {
  const file = await parquet(
    `SELECT 'Ams' AS "address.city", 12 AS zip, 5 AS "o'p""q", '{"r": 1}' AS j, 'no json' AS k, NULL AS "address.x"`,
  )
  const columns = [
    column('city', 'STRING', 'address.city'),
    column('zip', 'INT64', 'address.zip'),
    column('j', 'JSON'),
    column('k', 'JSON'),
    column('xx', 'STRING', 'address.x'),
  ]
  expect(events(await read([file], { columns }))).toEqual([
    { address: { city: 'Ams', zip: 12 }, 'o\'p"q': 5, j: { r: 1 }, k: 'no json' },
  ])
  const empty = await parquet('SELECT NULL::VARCHAR AS "address.city"')
  expect(events(await read([empty], { columns }))).toEqual([{}])
})

test('a JSON column cannot smuggle properties into its event', async () => {
  const file = await parquet(
    `SELECT * FROM (VALUES ('1,"id":"x"'), ('{}},{"id":"x"'), ('[1'), ('NaN'), ('{"a":1,}')) AS v(j)`,
  )
  const got = await read([file], { columns: [column('j', 'JSON')] })
  const texts = ['1,"id":"x"', '{}},{"id":"x"', '[1', 'NaN', '{"a":1,}']
  expect([events(got), got.refused]).toEqual([texts.map(j => ({ j })), []])
})

test('random texts in a JSON column are JSON where JSON.parse takes them, else texts', async () => {
  const seed = newSeed()
  const next = integersFrom(seed)
  const tokens = [...'[]{},: \n1', '"a"', '"NaN,]"', '"\\\\"', '"\\""', 'null', 'true', 'false', '1e3', 'é']
  const wrong = ['NaN', 'nan', 'Infinity', '-inf', ',', ' ,\n']
  const pick = (from: readonly string[]) => from[next(from.length)]!
  const value = (depth: number): string => {
    const more = () => Array.from({ length: 1 + next(3) }, () => value(depth + 1))
    const comma = () => (next(8) === 0 ? pick(wrong) : '')
    const kind = depth > 3 ? 0 : next(4)
    if (kind === 2) return `[${more().join(' , ')}${comma()}]`
    if (kind === 3) return `{"k" :${more().join(',"\\u0069 NaN":')}${comma()}}`
    return next(12) === 0 ? pick(wrong) : pick(tokens.slice(8, -1))
  }
  const all = Array.from({ length: 4_000 }, () =>
    next(4) > 0 ? value(0) : Array.from({ length: 1 + next(6) }, () => pick([...tokens, ...wrong])).join(''),
  )
  // A number beyond f64, such as 1e311, is refused.
  const texts = all.filter(text => !/e3\d\d/.test(text))
  const file = await parquet(`SELECT unnest([${texts.map(quoteText).join()}]) AS j`)
  const got = await read([file], { columns: [column('j', 'JSON')] })
  const wanted = texts.map(text => {
    try {
      return { j: JSON.parse(text) as unknown }
    } catch {
      return { j: text }
    }
  })
  expect({ seed, refused: got.refused, rows: events(got) }).toEqual({ seed, refused: [], rows: wanted })
})

test('NaN and infinity are texts wherever they are, and texts that look like them stay', async () => {
  const file =
    await parquet(`SELECT 'NaN'::DOUBLE AS x, '-inf'::FLOAT AS f, ['NaN'::DOUBLE, 'inf', '-inf', 1.5, NULL] AS l,
    {'a': {'NaN': 'inf'::FLOAT}} AS o, MAP {'k': 'nan'::FLOAT} AS m, [['inf'::DOUBLE]] AS ll,
    'say "NaN", [-Infinity] \\' AS "s ""NaN""", ['\\"', ',NaN,', 'Infinity'] AS t, 5 AS n,
    '[NaN]' AS j, '["NaN"]' AS k, repeat('x', 500000) || '" NaN ' || repeat('\\', 100000) AS long`)
  const columns = [column('n', 'INT64'), column('j', 'JSON'), column('k', 'JSON')]
  const got = await read([file], { columns })
  expect([got.refused, events(got)]).toEqual([
    [],
    [
      {
        x: 'nan',
        f: '-inf',
        l: ['nan', 'inf', '-inf', 1.5, null],
        o: { a: { NaN: 'inf' } },
        m: { k: 'nan' },
        ll: [['inf']],
        's "NaN"': 'say "NaN", [-Infinity] \\',
        t: ['\\"', ',NaN,', 'Infinity'],
        n: 5,
        j: '[NaN]',
        k: ['NaN'],
        long: `${'x'.repeat(500_000)}" NaN ${'\\'.repeat(100_000)}`,
      },
    ],
  ])
})

test('names that differ in case alone are two columns, also behind nested ones', async () => {
  const sql = `SELECT 1 AS id, {'a': {'b': 2}, 'q1': [3]} AS o, MAP {'k': 4} AS m, 5 AS q1, 6 AS q2`
  const columns = [column('id', 'INT64'), column('upper', 'INT64', 'ID'), column('mixed', 'INT64', 'Id')]
  const got = await read([renamed(await parquet(sql), { q1: 'ID', q2: 'Id' })], { columns })
  expect([got.broken, events(got)]).toEqual([
    undefined,
    [{ id: 1, o: { a: { b: 2 }, ID: [3] }, m: { k: 4 }, ID: 5, Id: 6 }],
  ])
})

test('equal names are refused', async () => {
  const file = renamed(await parquet('SELECT 1 AS id, 2 AS n, 3 AS q1'), { q1: 'id' })
  const got = await read([file])
  expect([got.broken, got.brokenMessage]).toEqual(['bad_header', 'two columns of the file are named "id"'])
})

/** The file with other names of the same length, which DuckDB would not write. */
function renamed(file: Buffer, names: Readonly<Record<string, string>>): Buffer {
  let text = file.toString('latin1')
  for (const [from, to] of Object.entries(names)) text = text.replaceAll(from, to)
  return Buffer.from(text, 'latin1')
}

test('an export of a pool is imported by its payloads, byte for byte', async () => {
  const file = await parquet(
    `SELECT now() AS _service_received_at, '{ "a":\n1.0 }' AS _service_payload, 5 AS n`,
  )
  const got = await read([file], { columns: [column('n', 'INT64')] })
  expect(events(got)).toEqual([{ a: 1 }])
})

test('a row of an export without a payload says so, and payloads are not changed', async () => {
  const file = await parquet(
    `SELECT * FROM (VALUES ('{"a":1}'), (NULL), (''), ('NaN'), ('{"a":NaN}')) AS v(_service_payload)`,
  )
  const got = await read([file])
  expect([events(got), got.refused]).toEqual([
    [{ a: 1 }],
    ['2:2:no_payload', '3:3:no_payload', '4:4:not_json', '5:5:not_json'],
  ])
})

test('rows keep their order over row groups and batches; the first ones are left out on request', async () => {
  const file = await parquet('SELECT range AS n FROM range(10000)', ', ROW_GROUP_SIZE 2048')
  const numbers = (got: Imported) => events(got).map(event => (event as { n: number }).n)
  const wanted = Array.from({ length: 10_000 }, (_, n) => n)
  const got = await read(cut(file, 1000))
  expect([numbers(got), got.done]).toEqual([wanted, { rows: 10_000, bytes: 0 }])
  expect(got.events[4321]).toBe('4322:4322:{"n":4321}')
  const later = await read([gzipSync(file)], { encoding: 'gzip', skipRows: 4_321 })
  expect([numbers(later), later.done?.rows]).toEqual([wanted.slice(4_321), 10_000])
  expect(later.events[0]).toBe('4322:4322:{"n":4321}')
  expect((await read([file], { skipRows: 10_001 })).done).toEqual({ rows: 10_000, bytes: 0 })
})

test('a row that is too long is refused alone', async () => {
  const file = await parquet(
    `SELECT repeat('x', CASE WHEN range = 1 THEN 1100000 ELSE 3 END) AS s FROM range(3)`,
  )
  const got = await read([file])
  expect([events(got), got.refused]).toEqual([[{ s: 'xxx' }, { s: 'xxx' }], ['2:2:row_too_long']])
})

/** The processes of readers that run. The shell that becomes one has another name before. */
function readers(): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(pid => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, 'latin1')
        return status.startsWith('Name:\tweir-parquet\n') && status.includes(`\nPPid:\t${process.pid}\n`)
      } catch {
        return false // the process ended
      }
    })
}

/** The largest memory, in MiB, that the processes of readers which this one started have had. */
function readerPeakMib(): number {
  let peak = 0
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'latin1')
      const number = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
      // A process that has ended has no VmHWM.
      if (number('PPid') === process.pid) peak = Math.max(peak, (number('VmHWM') || 0) / 1024)
    } catch {} // the process ended
  }
  return peak
}

/** What `read` gives, and the peak of the reader's memory. */
async function readAndWatch(file: Buffer, more: Given = {}): Promise<[Imported, number]> {
  let peakMib = 0
  const timer = setInterval(() => {
    peakMib = Math.max(peakMib, readerPeakMib())
  }, 5)
  const got = await read([file], more).finally(() => clearInterval(timer))
  return [got, peakMib]
}

const repeated = (count: number, sql: string) =>
  Array.from({ length: count }, (_, index) => `${sql} AS c${index}`).join(', ')

const BOMBS: readonly (readonly [what: string, sql: string, columns: readonly SchemaColumn[]])[] = [
  ['a dictionary of 100 kB texts', `SELECT ${repeated(60, `repeat('d', 100000)`)} FROM range(2048)`, []],
  ['6 bytes a character', `SELECT repeat(chr(1), 170000) AS s FROM range(300)`, []],
  ['6 bytes a character, too long', `SELECT repeat(chr(1), 180000) AS s FROM range(2048)`, []],
  ['a list of large texts', `SELECT list_transform(range(900), x -> repeat('l', 100000)) AS l`, []],
  [
    'lists of times and decimals',
    `SELECT list_transform(range(500), x -> TIMESTAMP '2026-01-02 03:04:05.123456' + to_seconds(x)) AS l,
      list_transform(range(500), x -> 12345678901234567890123456789012.123456::DECIMAL(38, 6)) AS m FROM range(2048)`,
    [],
  ],
  [
    'fields of large texts',
    `SELECT {'a': repeat('a', 600000), 'b': repeat('b', 600000)} AS o FROM range(9)`,
    [],
  ],
  [
    'JSON that is none',
    `SELECT '{"a":"' || repeat('i', 500000) || '"' AS j FROM range(150)`,
    [column('j', 'JSON')],
  ],
  ['bytes that become base64', `SELECT unhex(repeat('FF', 700000)) AS b FROM range(150)`, []],
  ['a long name', `SELECT range AS "${'n'.repeat(200_000)}" FROM range(2048)`, []],
]

const bombSeed = newSeed()

/** Each takes seconds. CI takes four of them, each time others. */
const TRIED_BOMBS = someOf(BOMBS, 4, bombSeed)

test.each(TRIED_BOMBS)(
  `the reader takes at most 1 GB: %s (seed ${bombSeed})`,
  { timeout: 120_000 },
  async (_, sql, columns) => {
    const [got, peakMib] = await readAndWatch(await parquet(sql), { columns })
    expect([got.broken, got.done?.rows]).toEqual([undefined, got.events.length + got.refused.length])
    expect(got.refused.every(row => row.endsWith(':row_too_long'))).toBe(true)
    expect(peakMib).toBeGreaterThan(20)
    expect(peakMib).toBeLessThan(1000)
  },
)

test('rows of all sizes keep their order, and those near the limit are taken or refused by their bytes', async () => {
  const seed = newSeed()
  const integer = integersFrom(seed)
  const frame = '{"n":0000,"s":""}'.length
  const sizes = Array.from({ length: 3000 }, (_, row) => {
    if (row % 500 === 7) return IMPORT_ROW_BYTES_MAX - frame + integer(3) - 1
    return row % 100 === 1 ? integer(300_000) : row % 3 === 0 ? integer(4_000) : integer(40)
  })
  const rows = sizes.map((size, row) => `(${1000 + row}, ${size})`).join(', ')
  const file = await parquet(`SELECT n, repeat('s', size) AS s FROM (VALUES ${rows}) AS v(n, size)`)
  for (const skipRows of [0, 1111]) {
    const [got, peakMib] = await readAndWatch(file, { skipRows })
    const wanted = sizes.map((size, row) => ({ n: 1000 + row, size })).slice(skipRows)
    const fits = ({ size }: { readonly size: number }) => size + frame <= IMPORT_ROW_BYTES_MAX
    const read = (events(got) as { n: number; s: string }[]).map(({ n, s }) => ({ n, size: s.length }))
    expect([seed, read]).toEqual([seed, wanted.filter(fits)])
    expect(got.refused).toEqual(
      wanted.filter(row => !fits(row)).map(({ n }) => `${n - 999}:${n - 999}:row_too_long`),
    )
    expect(peakMib).toBeLessThan(1000)
  }
})

test('lists of more than the memory end the import with the way to write them', async () => {
  const file = await parquet(
    `SELECT list_transform(range(100), x -> repeat('y', 10000)) AS l FROM range(2048)`,
  )
  const [got, peakMib] = await readAndWatch(file)
  expect(got.broken).toBe('broken_parquet')
  expect(got.brokenMessage).toMatch(
    /^the file cannot be read: Out of Memory Error.*fewer rows in a row group, or with fewer columns$/,
  )
  expect(peakMib).toBeLessThan(1000)
})

test.each([
  ['SIGABRT', /^the reader of the file was ended by SIGABRT: it took too much memory, or .*fewer columns$/],
  ['SIGKILL', /^the reader of the file was ended by SIGKILL: it took too much memory, or .*fewer columns$/],
  ['SIGSEGV', /^the file is damaged: its reader failed$/],
] as const)('a reader that is ended by %s says what may be the reason', async (signal, message) => {
  const reading = read([await parquet('SELECT range AS n FROM range(1000000)')])
  const timer = setInterval(() => {
    for (const pid of readers()) process.kill(pid, signal)
  }, 5)
  const got = await reading.finally(() => clearInterval(timer))
  expect([got.broken, got.brokenMessage]).toEqual(['broken_parquet', expect.stringMatching(message)])
})

test('the weight of a value is never above its bytes as JSON, and its estimate not far below', async () => {
  const values = [
    `'text'`,
    `''`,
    `repeat(chr(1), 50)`,
    `'text'::BLOB`,
    `'\\xFF'::BLOB`,
    `[1, NULL, 3]`,
    `['a', NULL, repeat('b', 500)]`,
    `[]::INT[]`,
    `[['a', 'b'], NULL, []]`,
    `[[[0.1::DOUBLE]]]`,
    `{'a': 'x', 'b': NULL::VARCHAR, 'c': {'d': [1]}}`,
    `[{'a': 'x'}, {'a': NULL}, NULL]`,
    `MAP {'k': 'v', 'l': NULL}`,
    `MAP {1: [1, 2]}`,
    `MAP {'a': MAP {'b': 'c'}}`,
    `[1, 2]::INT[2]`,
    `['a', 'b']::VARCHAR[2]`,
    `list_transform(range(50), x -> TIMESTAMPTZ '2026-01-02 03:04:05.123456Z')`,
    `list_transform(range(50), x -> -12345678901234567890123456789012.123456::DECIMAL(38, 6))`,
    `list_transform(range(50), x -> '49c248c2-168e-4ccf-b6e7-a9b336e96a57'::UUID)`,
    `NULL::STRUCT(a VARCHAR)`,
    `NULL::VARCHAR[]`,
    `1.5::DOUBLE`,
    `true`,
    `NULL::VARCHAR`,
  ]
  for (const value of values) {
    const type = (await connection.run(`SELECT ${value} AS v`)).columnType(0)
    const weight = weightSql('v', type)
    const estimate = weightSql('v', type, ESTIMATED_INNER_BYTES)
    const sql = `SELECT ${weight}::INTEGER, ${estimate}::INTEGER, strlen(to_json(v)::VARCHAR)::INTEGER FROM (SELECT ${value} AS v)`
    const [[least, most, bytes] = []] = (await (await connection.run(sql)).getRows()) as [
      number,
      number,
      number | null,
    ][]
    if (bytes === null) expect([value, least]).toEqual([value, 0])
    else expect([value, least! <= bytes! && bytes! <= 12 * most! + 24]).toEqual([value, true])
  }
  expect(weightSql('v', (await connection.run(`SELECT '10'::BIT`)).columnType(0))).toBeUndefined()
})

test('a file that is cut short or is no Parquet is broken, and says nothing of the server', async () => {
  const file = await parquet(`SELECT range AS n, 'text ' || range AS s FROM range(3000)`)
  for (const bytes of [0, 1, 8, 100, file.length - 100, file.length - 1]) {
    const got = await read([file.subarray(0, bytes)])
    expect([bytes, got.broken, got.events]).toEqual([bytes, 'broken_parquet', []])
  }
  expect((await read([Buffer.from('{"a":1}\n'.repeat(100))])).broken).toBe('broken_parquet')
})

test('wrong bytes anywhere end the import at most: rows before them are those of the file', async () => {
  const seed = newSeed()
  const next = integersFrom(seed)
  const file = await parquet(
    `SELECT range AS n, 'text ' || range AS s, range / 7 AS x FROM range(5000)`,
    ', ROW_GROUP_SIZE 2048',
  )
  for (let round = 0; round < 12; round += 1) {
    const damaged = Buffer.from(file)
    const at = round % 2 === 0 ? next(file.length) : file.length - 1 - next(600)
    for (let count = 0; count < 8; count += 1) damaged[Math.min(file.length - 1, at + count)] = next(256)
    const got = await read([damaged])
    // A value may be another one: Parquet's pages have checksums only where the writer made them.
    expect({ seed, round, known: got.broken ?? 'none', rows: got.done?.rows ?? 5000 }).toMatchObject({
      seed,
      round,
      known: expect.stringMatching(/^(broken_parquet|bad_header|unsupported_type|none)$/),
    })
    expect(got.events.length).toBeLessThanOrEqual(5000)
  }
})

test('a disk with too little room refuses the file, and nothing of it stays', async context => {
  const small = join(folder, 'small')
  const disk = mountSmall(small, '64m')
  if (disk === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const spoolFile = join(small, 'spool.parquet')
    const given = readImport([Buffer.alloc(1000)], { format: 'parquet', spoolFile })
    await expect(given).rejects.toMatchObject({ name: 'Unavailable', code: 'tmp_full' })
    expect(existsSync(spoolFile)).toBe(false)
  } finally {
    disk.end()
  }
})
