import { defineConfig } from 'vitest/config'

/**
 * Minutes each: hundreds of real servers and commands. `npm run test:long` runs them with all others; they are not in
 * `npm test`, so that it stays within minutes on two cores.
 */
const LONG = [
  'dist/test/tools/backup/consistent_under_load.test.js',
  'dist/test/tools/backup/damaged_and_cut_short.test.js',
  'dist/test/bench/bench_ended_from_outside.test.js',
  'dist/test/bench/path_with_peers.test.js',
  'dist/test/tools/kills.test.js',
  'dist/test/tools/operator.test.js',
  'dist/test/tools/repair_of_damage.test.js',
  'dist/test/tools/verify_finds_damage.test.js',
  'dist/test/faults/disk_faults.test.js',
  'dist/test/faults/merge_faults.test.js',
  'dist/test/path/compaction.test.js',
  'dist/test/power/mounted_image.test.js',
]

// Tests run as compiled: the same files that ship, worker threads and native module included.
export default defineConfig(({ mode }) => ({
  test: {
    include: ['dist/test/**/*.test.js'],
    exclude: mode === 'long' ? [] : LONG,
    // A server makes three log files at its first start, and reads one through at each further one: 64 MiB each.
    env: { WEIR_LOG_FILE_BYTES: String(8 * 1024 * 1024) },
    setupFiles: ['dist/test/util/clean-up.js'],
    pool: 'forks',
    maxWorkers: 2,
    // Against hangs alone: a busy machine is ten times slower than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 120_000,
    reporters: ['default', ['json', { outputFile: 'dist/test-results.json' }]],
  },
}))
