/** House rules that the linter does not check. An exemption gives its reason. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FILE_LINES_MAX = 500
const FUNCTION_LINES_MAX = 70
const COMMENT_COLUMNS_MAX = 100
/** Files that may be longer, with the reason. */
const LONG_FILES = new Map<string, string>([
  ['src/util/limits.ts', 'a list: the maximums of clients, and the shared ones'],
  ['src/api/graphql/schema-types.ts', 'generated from the .graphql files'],
  ['src/console/client/schema.ts', 'generated from the GraphQL schema'],
])

/** An import, or a re-export, with the file that it names. */
const IMPORT = /(?:^(?:import|export) (?:[^;'"]*? from )?|\bimport\()'([^']+)'/gm

interface Source {
  readonly name: string
  readonly lines: readonly string[]
  readonly text: string
}

function sources(...folders: string[]): Source[] {
  return folders.flatMap(folder =>
    (readdirSync(join(ROOT, folder), { recursive: true }) as string[])
      .map(name => join(ROOT, folder, name))
      .filter(path => /\.(tsx?|mjs|cpp|h)$/.test(path) && statSync(path).isFile())
      .map(path => {
        const text = readFileSync(path, 'utf8')
        return { name: relative(ROOT, path), lines: text.split('\n'), text }
      }),
  )
}

const product = sources('src', 'workers')
const all = [...product, ...sources('test', 'bench')]

test('no file is longer than it may be', () => {
  const long = product.filter(one => one.lines.length > FILE_LINES_MAX + 1 && !LONG_FILES.has(one.name))
  expect(long.map(one => `${one.name}: ${one.lines.length}`)).toEqual([])
})

test('no function is longer than a screen', () => {
  const long: string[] = []
  for (const { name, lines } of product) {
    if (!/\.tsx?$/.test(name)) continue
    let start = -1
    for (const [index, line] of lines.entries()) {
      if (/^(export )?(async )?function /.test(line)) start = index
      if (line === '}' && start >= 0) {
        if (index - start + 1 > FUNCTION_LINES_MAX)
          long.push(`${name}:${start + 1} has ${index - start + 1} lines`)
        start = -1
      }
    }
  }
  expect(long).toEqual([])
})

test('no line of a comment is longer than it may be', () => {
  const long = all.flatMap(({ name, lines }) =>
    lines.flatMap((line, index) =>
      /^\s*(\/\/|\/\*|\*)/.test(line) && !/biome-ignore/.test(line) && line.length > COMMENT_COLUMNS_MAX
        ? [`${name}:${index + 1}`]
        : [],
    ),
  )
  expect(long).toEqual([])
})

test('the environment is read in config.ts and set-up only, and passed on by process-kit.ts', () => {
  const readers = product.filter(one => /process\.env/.test(one.text)).map(one => one.name)
  expect(readers.sort()).toEqual(['src/database/config.ts', 'src/setup.mjs', 'src/util/process-kit.ts'])
})

test('uWebSockets.js is imported in src/api/http only', () => {
  const users = product.filter(one => /from 'uWebSockets\.js'/.test(one.text)).map(one => one.name)
  expect(users.filter(name => !name.startsWith('src/api/http/'))).toEqual([])
  expect(users.length).toBeGreaterThan(0)
})

test('DuckDB is loaded by the query process, the merge thread and the import process only', () => {
  const texts = new Map(product.map(one => [one.name, one.text]))
  /** Adds what a file imports, statically and not: imports of types alone load nothing. */
  const reach = (name: string, reached = new Set<string>()): Set<string> => {
    if (reached.has(name)) return reached
    reached.add(name)
    for (const [statement, from = ''] of (texts.get(name) ?? '').matchAll(IMPORT)) {
      const isOfTypes = /^(import|export) (type |\{(\s*type \w+( as \w+)?,?)+\s*\})/.test(statement)
      if (!isOfTypes && from.startsWith('.')) reach(join(dirname(name), from), reached)
    }
    return reached
  }
  const entries = [...texts.keys()].filter(name => /^workers\/|^src\/app\/main\.ts$/.test(name))
  const users = entries.filter(name => reach(name).has('src/util/duckdb.ts'))
  expect(users.sort()).toEqual(['workers/merge.ts', 'workers/parquet.ts', 'workers/query.ts'])
  const past = product.filter(one => /^import (?!type )[^']*'@duckdb/m.test(one.text)).map(one => one.name)
  expect(past).toEqual([])
})

test('nothing is left for later', () => {
  const word = new RegExp(['\\b(TO', 'DO|FIX', 'ME|X', 'XX)\\b'].join(''))
  expect(all.filter(one => word.test(one.text)).map(one => one.name)).toEqual([])
})

test('every source says in its head what it is', () => {
  const silent = product.filter(one => one.name.endsWith('.ts') && !/^(#!.*\n)?\/\*\*/.test(one.text))
  expect(silent.map(one => one.name)).toEqual([])
})

test('dependencies are pinned exactly', () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<
    string,
    Record<string, string>
  >
  const loose = Object.entries({ ...manifest['dependencies'], ...manifest['devDependencies'] }).filter(
    ([, version]) => !/^(npm:[^@]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
  )
  expect(loose).toEqual([])
})
