/** The export thread: opens copies, and reads them one batch a call. */
import type { MessagePort } from 'node:worker_threads'
import { must } from '../../util/assert.ts'
import { moved, serve } from '../../util/thread-server.ts'
import { openBatches, schemaMessage } from './copied-batches.ts'
import type { BatchSource, ExportCalls } from './export-types.ts'

/** Serves `port` until it is told to stop. */
export function serveExports(port: MessagePort): void {
  const open = new Map<number, BatchSource>()
  let files = 0
  const sourceOf = (file: number) => must(open.get(file), 'an open file')
  serve<ExportCalls>(port, {
    open: async copied => {
      const source = await openBatches(copied)
      files += 1
      open.set(files, source)
      return files
    },
    next: async ({ file, room }) => {
      const bytes = await sourceOf(file).next(room)
      return moved(bytes, bytes === undefined ? [] : [bytes.buffer as ArrayBuffer])
    },
    close: async file => {
      const source = sourceOf(file)
      open.delete(file)
      await source.close()
    },
    schema: columns => new Uint8Array(schemaMessage(columns)),
  })
}
