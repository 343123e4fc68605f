import { defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'

/**
 * Tests that take a minute or more, the longest first. They start before all others: one that
 * starts last would run alone, with the second worker idle.
 */
const LONGEST = [
  'crash/kills_at_named_points',
  'tools/repair_keeps_what_is_readable',
  'path/records_model',
  'faults/disk_faults',
  'tools/verify_finds_damage',
  'faults/merge_faults',
  'path/compaction',
  'bench/each_question',
  'tools/mistakes_get_one_line',
  'crash/kills_at_random_moments',
  'tools/backup/consistent_under_load',
  'tools/backup/damaged_backups_are_refused',
  'tools/killed_commands_run_again',
  'bench/path_with_peers',
]

class LongestFirst extends BaseSequencer {
  /** @param {Parameters<BaseSequencer['sort']>[0]} files */
  async sort(files) {
    const rankOf = ({ moduleId }) => {
      const rank = LONGEST.findIndex(name => moduleId.endsWith(`/${name}.test.js`))
      return rank < 0 ? LONGEST.length : rank
    }
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b))
  }
}

// Tests run as compiled: the same files that ship, worker threads and native module included.
export default defineConfig({
  test: {
    include: ['dist/test/**/*.test.js'],
    // A server creates three log files at its first start, and reads one at each later start: 64
    // MiB each by default.
    env: { WEIR_LOG_FILE_BYTES: String(8 * 1024 * 1024) },
    setupFiles: ['dist/test/util/clean-up.js'],
    pool: 'forks',
    maxWorkers: 2,
    // Ends a test that hangs: a busy machine is ten times slower than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 120_000,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', ['json', { outputFile: 'dist/test-results.json' }]],
  },
})
