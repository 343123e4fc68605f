import { type KeyRun, viewRun } from '../../src/format/key-run.ts'

/** The keys of a run in latin1, with their rows, in the run's order. */
export function keysOf(run: KeyRun): { key: string; row: number }[] {
  const { rows, offsets, bytes } = viewRun(run)
  return Array.from(rows, (row, i) => ({ key: bytes.toString('latin1', offsets[i], offsets[i + 1]), row }))
}
