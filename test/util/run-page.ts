/**
 * The commands of a page, run as a reader pastes them, and their output beside the stated answers.
 *
 * A block of `sh` is what a reader pastes. A block that directly follows it is the answer, its
 * standard output. `…` in an answer stands for any text, and a line that is `…` for any lines. A
 * block without an answer prints nothing and succeeds. One that begins with "# In a second shell"
 * or "# In a third shell" runs beside the rest of the page, until its answer is there.
 */
import { execFile } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { type TestServer, temporaryFolder } from './server.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const BASE = 'http://127.0.0.1:8420'
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
  const script = blocks.map(({ script }, index) => (BESIDE.test(script) ? besideText(script, index) : script))
  const { stdout } = await run(
    'bash',
    // With job control each part that runs beside has a process group of its own.
    ['-c', `set -um\n${[...script, ''].join(`\nprintf '\\n${NEXT} %s\\n' $?\n`)}`]
      .map(text => text.replaceAll(BASE, server.base))
      .map(text => text.replaceAll('dist/src/app/main.js', MAIN)),
    { cwd: folder },
  )
  const outputs = stdout.replaceAll(server.base, BASE).split(new RegExp(`\\n${NEXT} (\\d+)\\n`))
  for (const [index, block] of blocks.entries())
    if (BESIDE.test(block.script)) await endBeside(folder, index, block)
    else compare(block, outputs[2 * index] ?? '', outputs[2 * index + 1] ?? '')
}

/** Begins a block, and waits until it has printed its first byte. */
function besideText(script: string, index: number): string {
  const out = `beside-${index}`
  return `( ${script} ) > ${out} 2> ${out}.notes & echo $! > ${out}.pid
until [ -s ${out} ] || [ -s ${out}.notes ]; do sleep 0.1; done`
}

async function endBeside(folder: string, index: number, block: Block): Promise<void> {
  const read = (ending: string) => readFileSync(join(folder, `beside-${index}${ending}`), 'utf8')
  try {
    await expect.poll(() => read('')).toMatch(patternOf(block.answer ?? ''))
  } finally {
    process.kill(-Number(read('.pid')), 'SIGKILL')
  }
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
