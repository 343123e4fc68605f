/** Compares one file of a segment with its checksum: the work of the check thread. */
import { dirname } from 'node:path'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { MessagePort } from 'node:worker_threads'
import { restingChecksum } from '../../util/crc32.ts'
import { type Disk, disk as realDisk } from '../../util/disk.ts'
import { CHECKSUM_DIFFERS, Damaged, isUnreadable, SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { serve } from '../../util/thread-server.ts'

/** Bytes that a check reads between two turns of its thread: some 15 ms. */
const CHECK_TURN_BYTES = 16 * MiB

export interface FileToCheck {
  /** Absolute. */
  readonly file: string
  /** The CRC-32 that it should have. */
  readonly checksum: number
  /** Without it the check is as fast as the disk and the processor allow. */
  readonly bytesPerSecond?: number
}

/** The calls of the check thread. They reject with SegmentDamaged or Unavailable. */
export interface CheckCalls {
  check(file: FileToCheck): void
}

/** Compares a file with its checksum. Rejects as CheckCalls does. */
export type CheckFile = (file: FileToCheck) => Promise<void>

/**
 * Reads a file. Rejects with SegmentDamaged where it is missing, unreadable or not what was
 * written, and with Unavailable where the system refuses for now.
 * @param rest awaited after each piece, with its bytes
 */
export async function checkFile(
  { file, checksum }: FileToCheck,
  rest: (bytes: number) => Promise<void>,
  on: Disk = realDisk,
): Promise<void> {
  let found: number
  try {
    found = await restingChecksum(on, file, rest)
  } catch (error) {
    if (error instanceof Unavailable) throw error
    const { message } = error as Error
    const isDamage = error instanceof Damaged || isUnreadable(error, file)
    if (isDamage) throw new SegmentDamaged(file, message)
    throw new Unavailable('check_io', message.replaceAll(`${dirname(file)}/`, '')) // clients see it
  }
  if (found !== checksum) throw new SegmentDamaged(file, CHECKSUM_DIFFERS)
}

/** Serves `port` until it is told to stop. A paced check lets the others go first. */
export function serveChecks(port: MessagePort): void {
  const stopping = new AbortController()
  const { signal } = stopping
  const throwIfStopping = () => {
    if (signal.aborted) throw new Unavailable('stopping', 'Weir is stopping')
  }
  serve<CheckCalls>(
    port,
    {
      check: async task => {
        const { bytesPerSecond } = task
        let unrested = 0
        await checkFile(task, async bytes => {
          unrested += bytes
          if (bytesPerSecond !== undefined)
            await delay((1000 * bytes) / bytesPerSecond, undefined, { signal }).catch(() => undefined)
          else if (unrested >= CHECK_TURN_BYTES) {
            unrested = 0
            await nextTurn()
          }
          throwIfStopping()
        })
      },
    },
    { interrupt: () => stopping.abort() },
  )
}
