/** Backups over HTTP, and servers on restored folders. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BackupLine } from '../../../src/tools/backup/backup-client.ts'
import { fetchToken, startServer, type TestServer } from '../../util/server.ts'
import { weir } from '../folder.ts'

export interface Asked {
  readonly status: number
  readonly problem: { readonly code?: string; readonly detail?: string } | undefined
  readonly lines: readonly BackupLine[]
}

/** Sends POST /v1/admin/backup and reads to its end. `onLine` gets each line as it arrives. */
export async function askBackup(
  server: TestServer,
  body: unknown,
  onLine: (line: BackupLine) => void = () => undefined,
  signal?: AbortSignal,
): Promise<Asked> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/admin/backup`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
  if (answer.status !== 200 || answer.body === null)
    return { status: answer.status, problem: (await answer.json()) as never, lines: [] }
  const lines: BackupLine[] = []
  let rest = ''
  for await (const chunk of answer.body) {
    rest += Buffer.from(chunk).toString()
    const whole = rest.split('\n')
    rest = whole.pop() ?? ''
    for (const text of whole) {
      const line = JSON.parse(text) as BackupLine
      lines.push(line)
      onLine(line)
    }
  }
  return { status: answer.status, problem: undefined, lines }
}

/** Makes a backup in a folder or a bucket, which must succeed. */
export async function backUp(server: TestServer, folder: string) {
  const to = folder.startsWith('s3://') ? { bucket: folder, keep: 1 } : { folder }
  const { lines } = await askBackup(server, to)
  const last = lines.at(-1)
  if (last === undefined || !('done' in last)) throw new Error(`no backup: ${JSON.stringify(last)}`)
  return last
}

/** Restores into a new folder and starts a server on it. */
export async function restoreAndStart(folder: string, dataDir: string): Promise<TestServer> {
  const { code, output } = await weir(['restore', folder, '--data-dir', dataDir])
  if (code !== 0) throw new Error(`restore: ${code} ${output}`)
  return await startServer({ dataDir })
}

/** The content of BACKUP. */
export function readBackup(folder: string) {
  return JSON.parse(readFileSync(join(folder, 'BACKUP'), 'utf8')) as {
    readonly format: number
    readonly damaged?: readonly { readonly path: string; readonly what: string }[]
    readonly sequence: number
    readonly files: readonly { readonly path: string; readonly bytes: number }[]
  }
}
