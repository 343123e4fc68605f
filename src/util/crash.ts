/**
 * Named places where a test may kill the process, as a power cut or `kill -9` would.
 * Off unless the hidden option `--crash-at name[:nth]` names one; each thread is told through its workerData.
 */

import { disk } from './disk.ts'
import { endNow } from './end-now.ts'
import { armFaults } from './fault.ts'

let wanted = ''
let countdown = 0

/** Arms the point `spec` (`name` or `name:nth`) in this thread. Empty: none. The disk's faults (fault.ts) with it. */
export function armCrash(spec: string): void {
  armFaults(disk)
  const [name = '', nth = '1'] = spec.split(':')
  wanted = name
  countdown = Number(nth)
}

/** Kills this process with SIGKILL if `name` is the armed point and this is its nth passing. */
export function crashPoint(name: string): void {
  if (wanted !== name) return
  countdown -= 1
  if (countdown > 0) return
  endNow()
}
