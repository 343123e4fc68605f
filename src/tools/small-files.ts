/** Small files that a command reads whole, and standard input as one of them. */
import { createReadStream } from 'node:fs'
import { CannotRun } from '../util/errors.ts'

/**
 * The bytes of a file; `-` is standard input.
 * @throws CannotRun it cannot be read, or has more than `bytesMax` bytes
 */
export async function readSmallFile(path: string, bytesMax: number): Promise<Uint8Array> {
  const name = nameOf(path)
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of path === '-' ? process.stdin : createReadStream(path)) {
      bytes += (piece as Buffer).length
      if (bytes > bytesMax) throw new CannotRun(`${name} has more than ${bytesMax} bytes`)
      pieces.push(piece as Buffer)
    }
  } catch (error) {
    if (error instanceof CannotRun) throw error
    throw new CannotRun(`${name} cannot be read: ${(error as Error).message}`)
  }
  return Buffer.concat(pieces)
}

/**
 * The JSON object or list in a file. @throws CannotRun as readSmallFile, or it holds another value
 */
export async function readJsonFile(path: string, bytesMax: number): Promise<object> {
  const text = Buffer.from(await readSmallFile(path, bytesMax)).toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new CannotRun(`${nameOf(path)} is no JSON: ${(error as Error).message}`)
  }
  if (typeof value === 'object' && value !== null) return value
  throw new CannotRun(`${nameOf(path)} holds no JSON object or list`)
}

function nameOf(path: string): string {
  return path === '-' ? 'standard input' : path
}
