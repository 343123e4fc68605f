/** Lines of operation that this process writes, for tests of its parts. */
import { onTestFinished, vi } from 'vitest'
import { logSettings, setLog } from '../../src/util/say.ts'

export interface LogLine {
  readonly time: string
  /** A line of the audit trail has none, and no message. */
  readonly level?: 'error' | 'warn' | 'info'
  readonly message?: string
  readonly requestId?: string
  readonly trace_id?: string
  readonly audit?: unknown
}

/** The objects of a text in the format `json`, of which every line must be one. */
export function readLog(text: string): readonly LogLine[] {
  return text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as LogLine)
}

/** The lines on standard error from now to the end of the test. They do not reach the terminal. */
export function recordLog(): LogLine[] {
  const lines: LogLine[] = []
  const before = logSettings()
  setLog({ format: 'json', level: 'info' })
  const written = vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    lines.push(...readLog(String(text)))
    return true
  })
  onTestFinished(() => {
    written.mockRestore()
    setLog(before)
  })
  return lines
}
