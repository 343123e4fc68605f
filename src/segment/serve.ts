/** The segment thread: takes jobs from its port one after the other, in order. */
import type { MessagePort } from 'node:worker_threads'
import { toWire } from '../errors.ts'
import { armCrash } from '../util/crash.ts'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import { tryNative } from '../util/native.ts'
import { assemblerJs, tryAssemblerNative } from './assembler.ts'
import { tryEncoderNative } from './encoder.ts'
import type { SegmentAnswer, SegmentRequest, SegmentWorkerData } from './protocol.ts'
import { unlinkSegments } from './publish.ts'
import { buffersOf } from './runs.ts'
import { Writer } from './write.ts'

/** Serves `port` until it is told to stop. */
export async function serveSegment(
  port: MessagePort,
  data: SegmentWorkerData,
  disk: Disk = realDisk,
): Promise<void> {
  armCrash(data.crashAt)
  const niceThread = tryNative()?.['niceThread'] as ((nice: number) => boolean) | undefined
  if (data.nice !== 0) niceThread?.(data.nice)
  const isNative = data.assembler === 'native'
  const assembler = (isNative ? tryAssemblerNative() : undefined) ?? assemblerJs
  const encoder = (isNative ? tryEncoderNative() : undefined) ?? (await import('./encoder-js.ts')).encoderJs
  const writer = new Writer(assembler, encoder, disk)
  port.on('message', (request: SegmentRequest) => {
    const answer = answerTo(request, writer, disk)
    port.postMessage(answer, movedWith(answer))
    if (request.do === 'stop') port.close()
  })
}

function answerTo(request: SegmentRequest, writer: Writer, disk: Disk): SegmentAnswer {
  const { id } = request
  try {
    if (request.do === 'seal') return { id, done: writer.write(request.job) }
    if (request.do === 'unlink') unlinkSegments(disk, request.folder, request.segments)
    return { id }
  } catch (error) {
    // Only the disk may refuse. Anything else is our own fault: the thread ends, and with it the process.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    return { id, error: toWire(error), entries: request.do === 'seal' ? request.job.entries : [] }
  }
}

function movedWith(answer: SegmentAnswer): ArrayBuffer[] {
  if ('error' in answer) return buffersOf(answer.entries)
  if (answer.done === undefined) return []
  const { keys, entries } = answer.done
  return keys === undefined ? buffersOf(entries) : [keys, ...buffersOf(entries)]
}
