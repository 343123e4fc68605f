/**
 * Shared by the steps of set-up: lines for the operator, commands that end with the set-up, stamps
 * of finished steps, and the lock that lets one set-up at a time work in this folder.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of package.json. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
export const dist = join(root, 'dist')
/** Types that `npm run check` makes. No step of set-up reads them. */
export const CONSOLE_TYPES = 'src/console/client/schema.ts'

/**
 * The longest wait for another set-up. npm without a network gives up after two minutes, and a slow
 * machine compiles for minutes.
 */
const LOCK_SECONDS_MAX = 900

/** Characters of a command's output that are kept: enough for the first error. */
const OUTPUT_CHARACTERS_MAX = 1_000_000

let isSilent = true
/** Running commands. A signal that ends the set-up ends them too. */
const children = new Set()

/** @param {string} line */
export function tell(line) {
  process.stderr.write(`set-up: ${line}\n`)
}

/** Reports a step that begins now and takes a while. @param {string} line */
export function tellStep(line) {
  isSilent = false
  tell(line)
}

/** True when tellStep() reported a step. */
export function didSomething() {
  return !isSilent
}

/** @param {string} what @returns {never} */
export function fail(what) {
  tell(what)
  for (const child of children) child.kill()
  process.exit(2)
}

/** @param {'SIGINT' | 'SIGTERM'} signal */
export function endOf(signal) {
  for (const child of children) child.kill(signal)
  process.exit(signal === 'SIGINT' ? 130 : 143)
}

/**
 * Runs a command to its end.
 * @param {string} command @param {string[]} args
 * @param {import('node:child_process').StdioOptions} [stdio]
 * @returns {Promise<{ ok: boolean, code: number | null, output: string }>} `code` is null where the
 *   command is missing
 */
export function run(command, args, stdio = ['ignore', 'pipe', 'pipe']) {
  return new Promise(resolve => {
    const child = spawn(command, args, { cwd: root, stdio })
    children.add(child)
    let output = ''
    const keep = data => {
      if (output.length < OUTPUT_CHARACTERS_MAX) output += data
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    child.on('error', error => {
      children.delete(child)
      resolve({ ok: false, code: null, output: error.message })
    })
    child.on('close', (code, signal) => {
      children.delete(child)
      const killed = signal === null ? '' : `${command} was ended by ${signal}\n`
      resolve({ ok: code === 0, code, output: output + killed })
    })
  })
}

/**
 * Resolves when this process has the lock of this folder. The lock ends with the process at the
 * latest. A read-only folder needs no lock, because no set-up can change it.
 * @returns {Promise<() => void>} releases the lock: the server then runs for months in this process
 */
export async function takeLock() {
  let file
  try {
    mkdirSync(dist, { recursive: true })
    file = openSync(join(dist, 'setup.lock'), 'a')
  } catch {
    return () => undefined // a read-only image; a step that writes reports it
  }
  const release = () => closeSync(file)
  const flock = (...args) => run('flock', ['--exclusive', ...args, '3'], ['ignore', 'ignore', 'pipe', file])
  const first = await flock('--nonblock')
  if (first.ok) return release
  if (first.code === null) {
    tell('flock(1) of util-linux is missing: do not start a second set-up in this folder')
    return release
  }
  tell('another set-up works in this folder: waiting for it')
  const second = await flock('--timeout', String(LOCK_SECONDS_MAX))
  if (!second.ok) fail(`the other set-up did not end in ${LOCK_SECONDS_MAX} s: ${second.output}`)
  return release
}

/**
 * @typedef {object} Inputs
 * @property {string[]} folders of the root, or files of it
 * @property {string[]} endings of the files that count
 * @property {string} [except] a file that does not
 * @property {string} [more] other values that count
 */

/** The files of inputs, in a fixed order. @param {Inputs} inputs */
function filesOf({ folders, endings, except }) {
  return folders.flatMap(folder => {
    const path = join(root, folder)
    if (!existsSync(path)) return []
    if (statSync(path).isFile()) return [folder]
    const names = readdirSync(path, { recursive: true }).map(String).sort()
    return names
      .filter(name => endings.some(ending => name.endsWith(ending)))
      .map(name => join(folder, name))
      .filter(file => file !== except)
  })
}

/** @param {Inputs} inputs @param {(file: string) => string | Buffer} tellFile */
function hashOf(inputs, tellFile) {
  const hash = createHash('sha256').update(inputs.more ?? '')
  for (const file of filesOf(inputs)) hash.update(`\n${file}\n`).update(tellFile(join(root, file)))
  return hash.digest('hex')
}

/** Hash of sizes and times: cheap enough for every start. @param {Inputs} inputs */
function quickOf(inputs) {
  return hashOf(inputs, file => {
    const { size, mtimeMs } = statSync(file)
    return `${size} ${mtimeMs}`
  })
}

/**
 * Hash of the bytes. A copied folder or image keeps them, but not always the times.
 * @param {Inputs} inputs
 */
export function contentOf(inputs) {
  return hashOf(inputs, file => readFileSync(file))
}

/**
 * The stamp of a step. Each step has its own file, so steps do not overwrite each other.
 * @param {string} step
 */
const stampOf = step => join(dist, 'setup', `${step}.json`)

/** @param {string} step @returns {Record<string, unknown>} */
export function readStamp(step) {
  try {
    return JSON.parse(readFileSync(stampOf(step), 'utf8'))
  } catch {
    return {} // missing or unfinished: the step runs again
  }
}

/** @param {string} step @param {Record<string, unknown>} value */
export function writeStamp(step, value) {
  mkdirSync(dirname(stampOf(step)), { recursive: true })
  const made = `${stampOf(step)}.${process.pid}.tmp`
  writeFileSync(made, JSON.stringify(value))
  renameSync(made, stampOf(step))
}

/**
 * Call it before a step changes its output: a killed set-up must leave no stamp.
 * @param {string} step
 */
export function removeStamp(step) {
  rmSync(stampOf(step), { force: true })
}

/** True when the step is finished for these inputs. @param {string} step @param {Inputs} inputs */
export function isDone(step, inputs) {
  const stamp = readStamp(step)
  if (stamp['content'] === undefined) return false
  if (stamp['quick'] === quickOf(inputs)) return true
  if (stamp['content'] !== contentOf(inputs)) return false
  try {
    done(step, inputs)
  } catch {
    // A read-only image keeps the old stamp, so each start compares the bytes.
  }
  return true
}

/** Writes the stamp of a finished step. @param {string} step @param {Inputs} inputs */
export function done(step, inputs) {
  writeStamp(step, { quick: quickOf(inputs), content: contentOf(inputs) })
}
