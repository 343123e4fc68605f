/**
 * Finds the descriptors of LMDB in this process. It has its file open twice, for data pages and for
 * meta pages.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { must } from '../../src/util/errors.ts'

const O_DSYNC = 0o10000

/** LMDB writes its meta pages through a descriptor that syncs each write. */
export function lmdbDescriptor(file: string, which: 'meta' | 'data'): number {
  const found = readdirSync('/proc/self/fd').find(fd => {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== file) return false
      const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1]
      return ((Number.parseInt(flags ?? '0', 8) & O_DSYNC) !== 0) === (which === 'meta')
    } catch {
      return false // the descriptor of this listing
    }
  })
  return Number(must(found, `an open file ${file}`))
}
