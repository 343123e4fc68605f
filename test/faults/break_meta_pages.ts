/**
 * Loaded into a server before its own code (`node --import`): at SIGUSR2 no meta page of an LMDB file can be written any more.
 * The descriptor that LMDB writes them through becomes one of a device that is always full, so that the number is never free
 * for another file. `--fault-at` does not reach LMDB, which makes its system calls itself.
 *
 *   WEIR_TEST_META_OF   the LMDB file, absolute
 */
import { closeSync, openSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { must } from '../../src/util/assert.ts'
import { say } from '../../src/util/say.ts'
import { lmdbDescriptor } from '../util/lmdb-descriptor.ts'

/** Descriptors below it may have become free meanwhile. */
const TRIES_MAX = 100

/** Threads inherit the option, and this file with it. */
if (isMainThread)
  process.on('SIGUSR2', () => {
    const wanted = lmdbDescriptor(must(process.env['WEIR_TEST_META_OF'], 'a file'), 'meta')
    closeSync(wanted)
    for (let i = 0; i < TRIES_MAX; i++) if (openSync('/dev/full', 'r+') === wanted) break
    say('meta pages cannot be written')
  })
