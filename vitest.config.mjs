import { defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'

/**
 * `npm test` leaves these out, so that CI ends within 30 minutes also on a slow day. `npm run
 * test:long` runs them with all others.
 */
const LONG = [
  'dist/test/bench/bench_ended_from_outside.test.js',
  'dist/test/bench/path_with_peers.test.js',
  'dist/test/faults/disk_faults.test.js',
  'dist/test/faults/every_kind_of_file.test.js',
  'dist/test/faults/merge_faults.test.js',
  'dist/test/jobs/fifty_cut_overs.test.js',
  'dist/test/tools/repair_keeps_what_is_readable.test.js',
]

/**
 * The tests that take half a minute or more on two cores, the longest first. They start before all
 * others: a long test that starts last runs alone, with the second worker idle.
 */
const LONGEST = [
  'crash/kills_at_named_points',
  'tools/repair_keeps_what_is_readable',
  'faults/disk_faults',
  'faults/every_kind_of_file',
  'abuse/main_thread',
  'tools/verify_finds_damage',
  'faults/merge_faults',
  'query/engine_lanes',
  'bench/each_question',
  'crash/kills_at_random_moments',
  'path/compaction',
  'golden/old_folders_are_opened',
  'golden/old_folders_in_commands',
  'path/records_model',
  'abuse/bodies',
  'path/over_node_http',
  'jobs/jobs_survive_kills',
  'jobs/jobs_match_model',
  'tools/mistakes_get_one_line',
  'tools/backup/consistent_under_load',
  'path/clock_steps',
  'tools/backup/every_row_is_restored',
  'tools/backup/damaged_backups_are_refused',
  'bench/path_with_peers',
  'abuse/connections',
  'path/damage_is_not_laundered',
  'flips/few_flips',
  'tools/killed_commands_run_again',
  'api/over_node_http',
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
export default defineConfig(({ mode }) => ({
  test: {
    include: ['dist/test/**/*.test.js'],
    exclude: mode === 'long' ? [] : LONG,
    // A server creates three log files at its first start, and reads one at each later start: 64
    // MiB each by default.
    env: { WEIR_LOG_FILE_BYTES: String(8 * 1024 * 1024), WEIR_TEST_LONG: mode === 'long' ? '1' : '' },
    setupFiles: ['dist/test/util/clean-up.js'],
    pool: 'forks',
    maxWorkers: 2,
    // Ends a test that hangs: a busy machine is ten times slower than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 120_000,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', ['json', { outputFile: 'dist/test-results.json' }]],
  },
}))
