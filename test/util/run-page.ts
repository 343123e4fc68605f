/**
 * The commands of a page, run as a reader pastes them, and their output beside the stated answers.
 *
 * A block of `sh` is what a reader pastes. A block that directly follows it is the answer, its
 * standard output. `…` in an answer stands for any text, and a line that is `…` for any lines. A
 * block without an answer prints nothing and succeeds. One that begins with "# In a second shell"
 * or "# In a third shell" runs beside the rest of the page, until its answer is there. Port 8420 is
 * that of the server of the test, and 8421 a free one.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { freePort, type TestServer, temporaryFolder } from './server.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
/** The address of the server in the pages. */
export const BASE = 'http://127.0.0.1:8420'
/** The port of a server that a page starts. */
const SECOND_PORT = '8421'
const NEXT = '--- next'
const BESIDE = /^# In a (second|third) shell\./
const BLOCK = /^```sh\n([\s\S]*?)^```\n(?:\n```(json|text|csv)\n([\s\S]*?)^```\n)?/gm

export function readPage(name: string): string {
  return readFileSync(join(ROOT, name), 'utf8')
}

interface Block {
  readonly script: string
  /** The language of the answer. */
  readonly kind: string | undefined
  readonly answer: string | undefined
}

export function blocksOf(page: string): Block[] {
  return [...page.matchAll(BLOCK)].map(([, script = '', kind, answer]) => ({ script, kind, answer }))
}

/** Blocks of code that no command and no answer is: nothing runs them. */
export function blocksLeftOver(page: string): string[] {
  return page.replaceAll(BLOCK, '').match(/^```.*$/gm) ?? []
}

/**
 * Runs the blocks in one shell, in a folder whose `data` is that of the server, and compares.
 * @param before blocks that a reader pastes first; they print nothing
 */
export async function runPage(server: TestServer, page: string, before: readonly Block[] = []) {
  const blocks = [...before, ...blocksOf(page)]
  const folder = temporaryFolder('weir-page-')
  symlinkSync(server.dataDir, join(folder, 'data'))
  const port = await freePort()
  const script = blocks.map(({ script }, index) => (BESIDE.test(script) ? besideText(script, index) : script))
  const asShown = (text: string) =>
    text.replaceAll(server.base, BASE).replaceAll(`:${port}`, `:${SECOND_PORT}`)
  try {
    const { stdout } = await run(
      'bash',
      // With job control each part that runs beside has a process group of its own.
      ['-c', `set -um\n${[...script, ''].join(`\nprintf '\\n${NEXT} %s\\n' $?\n`)}`]
        .map(text => text.replaceAll(SECOND_PORT, port).replaceAll(BASE, server.base))
        .map(text => text.replaceAll('dist/src/app/main.js', MAIN)),
      { cwd: folder },
    )
    const outputs = asShown(stdout).split(new RegExp(`\\n${NEXT} (\\d+)\\n`))
    for (const [index, block] of blocks.entries())
      if (BESIDE.test(block.script)) await compareBeside(folder, index, block, asShown)
      else compare(block, outputs[2 * index] ?? '', outputs[2 * index + 1] ?? '')
  } finally {
    endBeside(folder)
  }
}

/** Begins a block, and waits until it has printed its first byte. */
function besideText(script: string, index: number): string {
  const out = `beside-${index}`
  return `( ${script} ) > ${out} 2> ${out}.notes & echo $! > ${out}.pid
until [ -s ${out} ] || [ -s ${out}.notes ]; do sleep 0.1; done`
}

async function compareBeside(folder: string, index: number, block: Block, asShown: (text: string) => string) {
  const read = () => asShown(readFileSync(join(folder, `beside-${index}`), 'utf8'))
  await expectShown(read, block.answer ?? '')
}

/** Ends what runs beside a page, also where the page failed. */
function endBeside(folder: string): void {
  for (const name of readdirSync(folder).filter(name => /^beside-\d+\.pid$/.test(name)))
    try {
      process.kill(-Number(readFileSync(join(folder, name), 'utf8')), 'SIGKILL')
    } catch {} // it has ended
}

/** Waits until the output is what a page shows of it. */
export async function expectShown(output: () => string, shown: string): Promise<void> {
  await expect.poll(output).toMatch(patternOf(shown))
}

function compare({ script, kind, answer }: Block, output: string, status: string): void {
  if (answer === undefined) expect([script, output.trim(), status]).toEqual([script, '', '0'])
  else if (kind === 'json')
    expect([script, parsed(output)]).toEqual([script, JSON.parse(answer, anyText) as unknown])
  else expect([script, `${output}\n`]).toEqual([script, expect.stringMatching(patternOf(answer))])
}

function parsed(output: string): unknown {
  try {
    return JSON.parse(output)
  } catch {
    return output // the comparison shows it
  }
}

/** `…` in an answer stands for what differs from server to server. */
function anyText(_key: string, value: unknown): unknown {
  return typeof value === 'string' && value.includes('…')
    ? expect.stringMatching(new RegExp(`^${anyOf(value)}$`, 's'))
    : value
}

/** Matches an output that is the answer, whatever ends its lines. */
function patternOf(answer: string): RegExp {
  const lines = answer.trimEnd().split('\n')
  const patterns = lines.map(line => (line === '…' ? '(?:.*\\r?\\n)*?' : `${anyOf(line)}\\s*?\\n`))
  return new RegExp(`^${patterns.join('')}\\s*$`)
}

function anyOf(text: string): string {
  return text.split('…').map(escaped).join('.+')
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
