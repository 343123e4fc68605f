/**
 * The pages name files, folders, scripts, commands and options that exist, and a file that enforces
 * an invariant names it.
 */

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { COMMANDS, commandHelp, helpText } from '../src/app/commands.ts'
import {
  APPLICATIONS_MAX,
  DESCRIPTION_BYTES_MAX,
  METRICS_MAX,
  POOLS_MAX,
  SOURCES_MAX,
} from '../src/catalog/change/change.ts'
import { RETENTION_DAYS_MAX } from '../src/catalog/change/change-pool.ts'
import { CONNECTION_SETTINGS_CHARACTERS_MAX, SOURCE_TABLES_MAX } from '../src/catalog/change/change-source.ts'
import { CLICKHOUSE_TYPE_CHARACTERS_MAX } from '../src/catalog/change/rules.ts'
import {
  KEY_COLUMNS_MAX,
  TABLE_SETTINGS_NAMES_MAX,
  TABLE_SETTINGS_TEXT_BYTES_MAX,
} from '../src/catalog/change/table-settings.ts'
import { SPARE_FILES_MIN } from '../src/log/spare-thread.ts'
import { FUNCTIONS } from '../src/query/expression/functions.ts'
import { PLACEHOLDERS_MAX } from '../src/query/expression/placeholders.ts'
import { INTERVAL_MAX } from '../src/query/expression/read-literal.ts'
import { STATEMENT_COLUMNS_MAX } from '../src/query/sql/select-names.ts'
import { LISTED, LISTS_MAX, TEXTS_MAX } from '../src/query/statement/functions.ts'
import { REWRITTEN } from '../src/query/statement/rewrite-call.ts'
import { FORMAT_VERSION } from '../src/util/data-folder.ts'
import { must } from '../src/util/errors.ts'
import {
  CREDENTIAL_BYTES_MAX,
  EXPRESSION_COMMENTS_MAX,
  EXPRESSION_DEPTH_MAX,
  EXPRESSION_NODES_MAX,
  JOBS_ENDED_MAX,
  JOBS_UNFINISHED_MAX,
  LIKE_PATTERNS_MAX,
  LOG_FILE_BYTES,
  LOG_FILE_BYTES_MIN,
  METRIC_DIMENSIONS_MAX,
  POLICIES_PER_POOL_MAX,
  QUANTILES_MAX,
  REGEX_SIZE_MAX,
  SPARE_FILES_MAX,
  SQL_TEXT_BYTES_MAX,
  STATEMENT_DEPTH_MAX,
  STATEMENT_NODES_MAX,
  STATEMENT_READS_MAX,
  STATEMENT_ROWS_MAX,
  STATEMENT_SELECTS_MAX,
  STATEMENT_TABLES_MAX,
  STATEMENT_WORDS_MAX,
  TEXTS_JOINED_MAX,
  UNIQUE_VALUES_MAX,
} from '../src/util/limits.ts'

const DECISION_LINES_MAX = 40
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (name: string) => readFileSync(join(ROOT, name), 'utf8')
const isFolder = (path: string) => existsSync(path) && statSync(path).isDirectory()

/** Every Markdown page at the top, in docs/ and in src/. */
const PAGES = ['.', 'docs', 'src'].flatMap(folder =>
  (readdirSync(join(ROOT, folder), { recursive: folder !== '.' }) as string[])
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name)),
)

/** The texts between backticks, without blocks of code. */
function quoted(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '')
  return [...prose.matchAll(/`([^`]+)`/g)].map(match => must(match[1], 'a quote'))
}

/** The cells of the table rows below a heading. */
function rowsBelow(page: string, heading: string): string[][] {
  const section = must(read(page).split(`\n## ${heading}\n`)[1], heading).split('\n## ')[0] ?? ''
  return section
    .split('\n')
    .filter(line => line.startsWith('|'))
    .slice(2)
    .map(line =>
      line
        .slice(1, -1)
        .split(' | ')
        .map(cell => cell.trim()),
    )
}

test('every link leads to a file', () => {
  const broken: string[] = []
  for (const page of PAGES)
    for (const [, link, tag] of read(page).matchAll(/\]\(([^)#:]+)\)|(?:href|src)="([^":]+)"/g)) {
      const target = must(link ?? tag, 'a link')
      if (!existsSync(join(ROOT, dirname(page), target))) broken.push(`${page}: ${target}`)
    }
  expect(PAGES.length).toBeGreaterThan(20)
  expect(broken).toEqual([])
})

test('every link into a page leads to a heading', () => {
  const broken = PAGES.flatMap(page =>
    [...read(page).matchAll(/\]\(([^)#:]*)#([^)]+)\)/g)]
      .map(([, path = '', fragment = '']) => ({
        path: path === '' ? page : join(dirname(page), path),
        fragment,
      }))
      .filter(({ path, fragment }) => path.endsWith('.md') && !anchorsOf(read(path)).has(fragment))
      .map(({ path, fragment }) => `${page}: ${path}#${fragment}`),
  )
  expect(broken).toEqual([])
})

/** The anchors that the repository's host gives to headings: #the-query-process. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)) {
    const anchor = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
      .replaceAll(' ', '-')
    let unique = anchor
    for (let count = 1; anchors.has(unique); count += 1) unique = `${anchor}-${count}`
    anchors.add(unique)
  }
  return anchors
}

test('the site has a place for each page, and its first page names each job', async () => {
  const navigation = (await import(pathToFileURL(join(ROOT, 'site/navigation.mjs')).href)) as {
    readonly SECTIONS: readonly { readonly title: string; readonly pages: readonly string[] }[]
  }
  const named = navigation.SECTIONS.flatMap(({ pages }) => pages)
  expect(named.length).toBe(new Set(named).size)
  expect(named.filter(page => !existsSync(join(ROOT, page)))).toEqual([])
  const jobs = PAGES.filter(page => page.startsWith('docs/how-to/'))
  expect(jobs.filter(page => !named.includes(page))).toEqual([])
  const first = read('docs/README.md')
  expect(jobs.filter(page => !first.includes(`](${page.replace('docs/', '')})`))).toEqual([])
})

test('the page of upgrades has every version of the data folder', () => {
  const rows = rowsBelow('docs/upgrading.md', 'What versions changed on disk').map(([version]) =>
    Number(version),
  )
  expect(rows).toEqual(Array.from({ length: FORMAT_VERSION }, (_, index) => index + 1))
})

test('the architecture page names every folder and every file of src/, and no other', () => {
  const rows = rowsBelow('src/README.md', 'Folders')
  const named = rows.map(([folder]) => /\((\w+)\)/.exec(folder ?? '')?.[1])
  const all = readdirSync(join(ROOT, 'src'))
  expect([...named].sort()).toEqual(all.filter(name => isFolder(join(ROOT, 'src', name))).sort())
  for (const [folder, , first] of rows)
    for (const file of quoted(first ?? '').filter(text => /\.\w+$/.test(text) && !text.includes('*')))
      expect([
        folder,
        file,
        existsSync(join(ROOT, 'src', /\((\w+)\)/.exec(folder ?? '')![1]!, file)),
      ]).toEqual([folder, file, true])
  const below = must(read('src/README.md').split('\nIn this folder: ')[1], 'the files').split('\n\n')[0] ?? ''
  expect(
    quoted(below)
      .filter(name => /^[\w-]+\.(ts|mjs)$/.test(name))
      .sort(),
  ).toEqual(all.filter(name => /\.(ts|mjs)$/.test(name)).sort())
})

test('files that enforce an invariant name it, and the tests that attack it exist', () => {
  const rows = rowsBelow('src/README.md', 'Invariants')
  expect(rows.map(([name]) => name)).toEqual(Array.from({ length: 13 }, (_, i) => `W-${i + 1}`))
  for (const [name, , enforcers, attackers] of rows) {
    const files = quoted(enforcers ?? '')
    expect([name, files.length > 0]).toEqual([name, true])
    const silent = files.filter(file => !new RegExp(`\\b${name}\\b`).test(read(join('src', file))))
    expect([name, silent]).toEqual([name, []])
    expect([name, quoted(attackers ?? '').filter(file => !existsSync(join(ROOT, file)))]).toEqual([name, []])
  }
})

test('files that the pages name exist', () => {
  const layers = readdirSync(join(ROOT, 'src')).map(layer => join('src', layer))
  const exists = (page: string, file: string) =>
    ['', 'src', dirname(page), ...layers].some(folder => existsSync(join(ROOT, folder, file)))
  const missing = PAGES.flatMap(page =>
    quoted(read(page))
      .filter(text => /^[a-z]+\/[\w./-]+\.(ts|mjs|cpp|h|md|graphql)$/.test(text) && !exists(page, text))
      .map(file => `${page}: ${file}`),
  )
  expect(missing).toEqual([])
})

test('a decision has at most 40 lines and a status, and stands in the index once, with it', () => {
  const decisions = PAGES.filter(page => /^docs\/decisions\/\d/.test(page)).sort()
  const linesOf = (page: string) => read(page).trimEnd().split('\n')
  expect(decisions.length).toBeGreaterThan(30)
  expect(decisions.filter(page => linesOf(page).length > DECISION_LINES_MAX)).toEqual([])
  const status = /^Status: (holds(?=$)|holds in part(?=: .)|superseded by \[\d{4}\]\(\S+\)(?=$))/
  const shown = decisions.map(page => [basename(page), status.exec(linesOf(page)[2] ?? '')?.[1]])
  const entry = /^- \[\d{4}\]\(([^)]+)\) .+: (holds(?: in part)?|superseded by .+)$/
  const index = linesOf('docs/decisions/README.md').flatMap(line => {
    const [, file, word] = entry.exec(line) ?? []
    return file === undefined ? [] : [[file, word]]
  })
  expect(index.sort()).toEqual(shown)
})

test('the README names scripts, commands and options that exist', () => {
  const page = read('README.md')
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const run = [...page.matchAll(/npm (?:run )?([a-z:]+)/g)].map(match => must(match[1], 'a script'))
  expect(run.filter(name => !['install', 'pack'].includes(name) && scripts[name] === undefined)).toEqual([])
  const commands = rowsBelow('README.md', 'Commands').map(([cell]) => quoted(cell ?? '')[0]?.split(' ')[0])
  expect(commands).toEqual(COMMANDS.slice(1).map(command => command.name))
  const help = [helpText(), ...COMMANDS.map(commandHelp)].join('\n')
  const flags = quoted(page).flatMap(text => text.match(/(?<![\w-])--[a-z][a-z0-9-]+/g) ?? [])
  expect(flags.length).toBeGreaterThan(10)
  expect(flags.filter(flag => !help.includes(`${flag} `))).toEqual([])
})

test('the README has one row for each status, and one name for the program', () => {
  const page = read('README.md')
  const statuses = rowsBelow('README.md', 'What an answer means').map(
    ([cell]) => cell?.match(/`\d{3}`/g)?.length,
  )
  expect(statuses.length).toBeGreaterThan(8)
  expect(statuses.filter(count => count !== 1)).toEqual([])
  expect(quoted(page).filter(text => /^weir /.test(text))).toEqual([])
})

test('the README says what an empty data folder takes', () => {
  const MiB = 2 ** 20
  const log = `${1 + SPARE_FILES_MIN} files of ${LOG_FILE_BYTES_MIN / MiB} MiB`
  const catalogAndIndexMiB = 1
  const whole = ((1 + SPARE_FILES_MIN) * LOG_FILE_BYTES_MIN) / MiB + catalogAndIndexMiB
  const page = read('README.md')
  for (const text of [
    `takes ${whole} MiB on disk`,
    log,
    `up to ${SPARE_FILES_MAX} spare`,
    `up to ${LOG_FILE_BYTES / MiB} MiB`,
  ])
    expect(page).toContain(text)
})

test('the contract has the limits of the objects of the catalog', () => {
  const rows = rowsBelow('docs/contract.md', '7. Limits')
  const expected: Readonly<Record<string, readonly number[]>> = {
    'columns of a key': [KEY_COLUMNS_MAX],
    'data sources, data pools': [SOURCES_MAX, POOLS_MAX],
    'Metrics, dimensions of one': [METRICS_MAX, METRIC_DIMENSIONS_MAX],
    applications: [APPLICATIONS_MAX],
    'Data Pool Access Policies of a pool': [POLICIES_PER_POOL_MAX],
    'tables of a data source': [SOURCE_TABLES_MAX],
    "characters of a data source's other settings, as JSON": [CONNECTION_SETTINGS_CHARACTERS_MAX],
    'entries of a list of table settings, bytes of one': [
      TABLE_SETTINGS_NAMES_MAX,
      TABLE_SETTINGS_TEXT_BYTES_MAX,
    ],
    'days of retention': [RETENTION_DAYS_MAX],
    'bytes of a description, of a user name or password': [DESCRIPTION_BYTES_MAX, CREDENTIAL_BYTES_MAX],
    'characters of a ClickHouse type': [CLICKHOUSE_TYPE_CHARACTERS_MAX],
    'jobs that have not ended, ended jobs that are kept': [JOBS_UNFINISHED_MAX, JOBS_ENDED_MAX],
    'bytes of an SQL text ([more](expressions.md))': [SQL_TEXT_BYTES_MAX],
    "different values that a dimension's statistics list": [UNIQUE_VALUES_MAX],
  }
  for (const [name, values] of Object.entries(expected)) {
    const shown = values.map(value => value.toLocaleString('en-US')).join(', ')
    expect([name, rows.find(([limit]) => limit === name)?.[1]]).toEqual([name, shown])
  }
})

test('the page of expressions has the table of functions, and their limits', () => {
  const rows = rowsBelow('docs/expressions.md', 'Functions')
  const shown = FUNCTIONS.map(spec => {
    const firstOptional = spec.arguments.length - (spec.optional ?? 0)
    const parts = spec.arguments.map((argument, index) =>
      index >= firstOptional ? `[${argument}]` : argument,
    )
    return [
      spec.names.map(name => `\`${name.replaceAll('|', '\\|')}\``).join(' '),
      `${parts.join(', ') || '–'}${spec.repeats ? ', …' : ''}`,
      `${spec.type ?? spec.result}${spec.part ? ` (${spec.part})` : ''}`,
    ]
  })
  expect(rows).toEqual(shown)
  const limits = rowsBelow('docs/expressions.md', 'Limits').map(([, value]) => value?.replaceAll(',', ''))
  expect(limits).toEqual(
    [
      SQL_TEXT_BYTES_MAX,
      EXPRESSION_NODES_MAX,
      EXPRESSION_DEPTH_MAX,
      EXPRESSION_COMMENTS_MAX,
      TEXTS_JOINED_MAX,
      LIKE_PATTERNS_MAX,
      REGEX_SIZE_MAX,
      QUANTILES_MAX,
      INTERVAL_MAX,
      PLACEHOLDERS_MAX,
    ].map(String),
  )
})

test('the page of GraphQL has every relative range of the schema', () => {
  const [, values = ''] =
    /^enum RelativeTimeRange \{\n([\s\S]*?)^\}/m.exec(read('src/api/graphql/query.graphql')) ?? []
  const names = [...values.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => must(name, 'a value'))
  expect(names.length).toBeGreaterThan(30)
  const section = must(read('docs/graphql.md').split('\n## Relative time ranges\n')[1], 'the section')
  const shown = quoted(section.split('\n## ')[0] ?? '')
  expect(names.filter(name => !shown.includes(name))).toEqual([])
})

test('the page of statements has their limits', () => {
  const limits = rowsBelow('docs/sql.md', 'Limits').map(([, value]) => value?.replaceAll(',', ''))
  expect(limits).toEqual(
    [
      STATEMENT_ROWS_MAX,
      STATEMENT_TABLES_MAX,
      STATEMENT_READS_MAX,
      STATEMENT_NODES_MAX,
      STATEMENT_DEPTH_MAX,
      STATEMENT_WORDS_MAX,
      LISTS_MAX,
      TEXTS_MAX,
    ].map(String),
  )
  const { columns, selects } =
    /At most (?<columns>[\d,]+) columns of a SELECT, (?<selects>\d+) SELECTs/.exec(read('docs/sql.md'))
      ?.groups ?? {}
  expect([columns?.replace(',', ''), selects]).toEqual(
    [STATEMENT_COLUMNS_MAX, STATEMENT_SELECTS_MAX].map(String),
  )
})

/** The lists of functions as the page has them: one line for each letter. */
function listed(names: readonly string[]): string {
  const letters = [...new Set(names.map(name => name.charAt(0)))].sort()
  const line = (letter: string) =>
    names
      .filter(name => name.startsWith(letter))
      .toSorted()
      .map(name => `\`${name}\``)
      .join(' ')
  return letters.map(letter => `${line(letter)}\n`).join('\n')
}

test('the page of functions of statements has those of the list', () => {
  const sections = read('docs/sql-functions.md').split('\n## ').slice(1)
  const shown = Object.fromEntries(
    sections.map(section => {
      const [title = '', , ...lines] = section.split('\n')
      return [title, `${lines.join('\n').trimEnd()}\n`]
    }),
  )
  const own: readonly string[] = [...LISTED.scalars, ...LISTED.aggregates]
  const others = [...new Set([...LISTED.others, ...REWRITTEN])].filter(
    name => /^\w+$/.test(name) && !own.includes(name),
  )
  expect(shown).toEqual({
    'Functions of values': listed(LISTED.scalars),
    Aggregates: listed(LISTED.aggregates),
    'With OVER': listed(LISTED.windows),
    'After FROM': listed(LISTED.tables),
    "Names of PostgreSQL's and ClickHouse's": listed(others),
  })
})
