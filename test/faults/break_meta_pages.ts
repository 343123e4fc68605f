/**
 * A server loads this file before its own code (`node --import`). After SIGUSR2 no meta page of an
 * LMDB file can be written: LMDB's descriptor for them becomes one of a device that is always full.
 * The number stays in use, so no other file gets it. `--fault-at` does not reach LMDB, which makes
 * its system calls itself.
 *
 *   WEIR_TEST_META_OF   the LMDB file, absolute
 */
import { closeSync, openSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { must } from '../../src/util/errors.ts'
import { say } from '../../src/util/say.ts'
import { lmdbDescriptor } from '../util/lmdb-descriptor.ts'

/** Attempts to get the descriptor's number: lower numbers may be free. */
const TRIES_MAX = 100

/** Worker threads inherit the option and load this file too. */
if (isMainThread)
  process.on('SIGUSR2', () => {
    const wanted = lmdbDescriptor(must(process.env['WEIR_TEST_META_OF'], 'a file'), 'meta')
    closeSync(wanted)
    for (let i = 0; i < TRIES_MAX; i++) if (openSync('/dev/full', 'r+') === wanted) break
    say('meta pages cannot be written')
  })
