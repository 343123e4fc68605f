import { defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'
import { skippedOn, suitesOn } from './test/cluster/suites.mjs'

/**
 * Only `npm run test:long` runs these: minutes each.
 */
const LONG = [
  'bench/bench_ended_from_outside',
  'bench/path_with_peers',
  'faults/disk_faults',
  'faults/every_kind_of_file',
  'faults/merge_faults',
  'jobs/fifty_cut_overs',
  'tools/repair_keeps_what_is_readable',
]

/**
 * CI runs these by `npm run test:more`, after `npm test`: attacks, commands, the bench, the other
 * HTTP library, repetitions with other seeds, and limits that take their time. What guards
 * acknowledged events is in `npm test`.
 */
const MORE = [
  'abuse/',
  'api/over_node_http',
  'bench/',
  'crash/imports_resume',
  'crash/kills_at_later_points',
  'crash/kills_at_random_moments',
  'flips/',
  'golden/old_folders_in_commands',
  'jobs/jobs_survive_kills',
  'parse/import/parquet_becomes_rows',
  'path/clock_steps',
  'path/damage_is_not_laundered',
  'path/guesses_at_secrets',
  'path/over_node_http',
  'path/query_process',
  'query/deleted_rows_within_memory',
  'query/engine_lanes',
  'query/engine_under_load',
  'query/spill',
  'query/statement/offending_applications',
  'setup/packed',
  'tools/',
]

/** In `npm test` a few of their cases run, and in CI's further tests all. */
const MORE_CASES = ['golden/old_folders_are_opened']

/**
 * The tests that take half a minute or more on two cores, the longest first. They start before all
 * others: a long test that starts last runs alone, with the second worker idle.
 */
const LONGEST = [
  'crash/kills_at_named_points',
  'tools/repair_keeps_what_is_readable',
  'faults/disk_faults',
  'faults/every_kind_of_file',
  'jobs/jobs_survive_kills',
  'query/engine_lanes',
  'api/over_node_http',
  'abuse/main_thread',
  'bench/each_question',
  'golden/old_folders_are_opened',
  'golden/old_folders_in_commands',
  'tools/verify_finds_damage',
  'faults/merge_faults',
  'crash/kills_at_random_moments',
  'crash/kills_at_later_points',
  'path/records_model',
  'path/compaction',
  'path/job_pages',
  'abuse/bodies',
  'path/over_node_http',
  'flips/few_flips',
  'parse/import/parquet_becomes_rows',
  'path/damage_is_not_laundered',
  'tools/backup/every_row_is_restored',
  'tools/mistakes_get_one_line',
  'tools/backup/consistent_under_load',
  'query/arrow/export_command',
  'path/operation',
  'api/stream_replies',
  'path/added_columns',
  'path/clock_steps',
  'bench/path_with_peers',
  'abuse/connections',
  'tools/killed_commands_run_again',
  'jobs/jobs_match_model',
  'query/hidden_rows_plans',
  'setup/packed',
]

/** Their tests leave nothing in their process, so files share one: 0.4 s of processor time each. */
const SHARED = [
  'api/',
  'catalog/',
  'clients/',
  'format/',
  'index/',
  'jobs/',
  'log/',
  'parse/',
  'path/',
  'query/',
  'store/',
  'util/',
]

/**
 * One needs memory of WebAssembly that others of a process may have used up. One makes globals of a
 * browser, with which lmdb does not load.
 */
const ALONE = ['parse/sender/zstd_bodies', 'clients/ui-kit/hooks']

const files = names => names.map(name => `dist/test/${name}${name.endsWith('/') ? '**/*' : ''}.test.js`)
const ALL = ['dist/test/**/*.test.js']

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

/** Pages in Chromium: `npm run test:browser`. */
const BROWSER = ['browser/']

/** With servers of Debian's packages: `npm run test:cluster`. */
const CLUSTER = ['cluster/']
/** Those of CLUSTER that do not run in the long mode: it has what guards acknowledged events. */
const NOT_LONG = ['cluster/!(faults|lost_replica)']

/** What `npm test` leaves to runs of their own. */
const OTHER_RUNS = [...MORE, ...BROWSER, ...CLUSTER]

/** Modes whose results stand beside those of `npm test`. */
const OWN_RESULTS = ['reach', 'more', 'browser', 'cluster', 'cluster-modern', 'cluster-store']

/** The files of a run. One that the command line names runs, whichever list it is in. */
function filesOf(mode) {
  const isNamed = process.argv.slice(2).some(argument => argument.includes('dist/test/'))
  if (isNamed) return { include: ALL, exclude: [] }
  if (mode === 'long') return { include: ALL, exclude: files([...BROWSER, ...NOT_LONG]) }
  if (mode === 'browser') return { include: files(BROWSER), exclude: [] }
  if (mode === 'cluster' || mode === 'cluster-modern') return { include: files(CLUSTER), exclude: [] }
  if (mode === 'cluster-store')
    return { include: files(suitesOn(process.env['WEIR_TEST_STORE'])), exclude: [] }
  if (mode === 'reach')
    return { include: JSON.parse(process.env.WEIR_TEST_FILES), exclude: files([...LONG, ...OTHER_RUNS]) }
  if (mode === 'more') return { include: files([...MORE, ...MORE_CASES]), exclude: files(LONG) }
  return { include: ALL, exclude: files([...LONG, ...OTHER_RUNS]) }
}

// Tests run as compiled, worker threads and native module included; servers that they start are
// bundled, as they ship.
export default defineConfig(({ mode }) => {
  const { include, exclude } = filesOf(mode)
  const isShared = include === ALL
  // A project extends this file in a mode of its own, so it gets the mode's settings here.
  const env = {
    WEIR_TEST_LONG: mode === 'long' ? '1' : '',
    WEIR_TEST_MORE: mode === 'more' || mode === 'long' ? '1' : '',
  }
  return {
    test: {
      // Log files grow to 64 MiB by default. With smaller ones, tests with load change files, and a
      // start reads less.
      env: {
        WEIR_LOG_FILE_BYTES: String(8 * 1024 * 1024),
        ...(mode === 'cluster-store'
          ? { WEIR_TEST_SKIPPED: JSON.stringify(skippedOn(process.env['WEIR_TEST_STORE'])) }
          : {}),
      },
      setupFiles: ['dist/test/util/clean-up.js'],
      globalSetup: mode === 'cluster-store' ? ['dist/test/cluster/suites-setup.js'] : [],
      pool: 'forks',
      // Node imports the compiled files itself: a file starts half a second earlier.
      experimental: { viteModuleRunner: false, nodeLoader: false },
      // The tests of `npm test` wait for a third of their time: a third worker keeps two cores busy.
      maxWorkers: mode === 'test' ? 3 : 2,
      // Ends a test that hangs: a busy machine is ten times slower than a quiet one.
      expect: { poll: { timeout: 30_000 } },
      // One of four runs of all pages beside each other had a page that stayed empty for 20 s.
      retry: mode === 'browser' ? 2 : 0,
      testTimeout: 300_000,
      hookTimeout: 120_000,
      sequence: { sequencer: LongestFirst },
      reporters: [
        'default',
        ['json', { outputFile: `dist/test-results${OWN_RESULTS.includes(mode) ? `-${mode}` : ''}.json` }],
      ],
      projects: [
        project('real', { env, include, exclude: isShared ? [...exclude, ...files(SHARED)] : exclude }),
        ...(isShared
          ? [
              project('alone', { env, include: files(ALONE), exclude }),
              project('shared', {
                env,
                include: files(SHARED),
                exclude: [...exclude, ...files(ALONE)],
                isolate: false,
              }),
            ]
          : []),
      ],
    },
  }
})

function project(name, test) {
  return { extends: true, test: { name, ...test } }
}
