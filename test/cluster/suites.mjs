/**
 * The tests of the real server that run again with each server as a node of a cluster:
 *
 *   WEIR_TEST_STORE=chdb|clickhouse18 npx vitest run --mode cluster-store [files]
 *
 * See suites-setup.ts. What they are skipped for stands here, beside the files that are not run.
 */

const VERSION_COLUMN = 'a version column is refused in a cluster'
const FOLDER = 'it is about the data folder'
const GIVEN_ADMIN = 'nodes are given the first application, so they print no first steps'
const STAGES = 'it names the parts of the local store'
const PLACES = 'received-at has the slot of the node in its low digits'

/** Files below test/, and the tests of each that are skipped, by how their titles begin. */
const SUITES = {
  'clients/airbyte': {
    'records that replace each other are listed': VERSION_COLUMN,
    'a full reset deletes': VERSION_COLUMN,
  },
  'clients/client_documents_validate': {},
  'clients/counters_model': {},
  'clients/grids_as_sent': {},
  'clients/grids_model': {},
  'clients/metric_questions': {},
  'clients/oauth_simple': {},
  'clients/requests_as_sent': {},
  'clients/sample_documents_answer': {},
  'clients/sql': { 'the SQL that ran is told': 'it compares the SQL of DuckDB' },
  'clients/terraform_operations': {},
  'clients/ui-kit/hooks': {},
  'cluster/analyst_questions': {},
  'cluster/retention': {},
  'console/sessions': {},
  'jobs/replay_rejected': {},
  'jobs/replays_are_exact': {},
  'jobs/rewrite_rules': { 'of a pool with settings': VERSION_COLUMN },
  'jobs/rewrite_values': { 'minus zero becomes zero': 'a FLOAT is no text in a cluster' },
  'path/arrow_stream': {
    'a stalled client': FOLDER,
    'a pool deleted in the middle': FOLDER,
    'SIGTERM in the middle': FOLDER,
    'a stream that searches too many long texts': 'such a stream runs in a cluster',
  },
  'path/byte_order_marks': {
    'columns, values, ids and properties': 'after its questions it rebuilds the index',
  },
  'path/ended_access': {},
  'path/exports': {},
  'path/generic_pools': {},
  'path/guesses_at_secrets': {},
  'path/handed_secret': {},
  'path/ids_of_another_server': { 'a command finds a pool by it': FOLDER },
  'path/imports': { 'parquet: the job of a body': FOLDER, 'ndjson: the job of a body': FOLDER },
  'path/ingest_contract': {},
  'path/keys_end_to_end': {},
  'path/load_and_deletion': {},
  'path/log_lines': {
    'every line from start to stop': GIVEN_ADMIN,
    'an error that ends the command': FOLDER,
    'a flush that fails': FOLDER,
    'the line about an internal error': FOLDER,
    '--log-level warn': GIVEN_ADMIN,
  },
  'path/messages': { 'a new folder where': FOLDER },
  'path/metrics': {
    'counters, by a sequence': STAGES,
    'the memtable grows': STAGES,
  },
  'path/metrics_and_policies': {},
  'path/openapi': {
    'what the commands ask': 'it takes a backup',
    'a second backup': 'it takes a backup',
    'backUp is refused': 'a node refuses every backup',
    'every documented answer came': 'a node answers no backup',
  },
  'path/presets_over_http': {},
  'path/query_route': {},
  'path/received_at_rises': {
    'every event is stored': 'it removes the index',
    'a DELETE with a received-at of six digits': PLACES,
  },
  'path/rejected_events': {},
  'path/rejected_events_pool': {},
  'path/senders': {},
  'path/staleness': { 'a query may miss rows': 'a question of a cluster sees everything acknowledged' },
  'path/table_settings': {
    'the highest ': VERSION_COLUMN,
    'is required in every event': VERSION_COLUMN,
    'decides among the events': VERSION_COLUMN,
    'keeps rows for ever': VERSION_COLUMN,
  },
  'path/tail': {},
  'path/tls': {
    'a renewed certificate': GIVEN_ADMIN,
    'files that do not fit': GIVEN_ADMIN,
  },
  'path/traces': {
    'a line of the log names the trace': FOLDER,
    'that never answers fills a queue': 'a request has a stage less, so the queue stays open',
  },
  'path/values_end_to_end': {},
  'path/waiting_applications': {},
  'path/who_may_see_what': { 'files of the data folder': FOLDER },
  'path/who_reads_rejected_events': {},
  'tools/sources_command': { 'a stopped folder': FOLDER },
}

/** Functions, and positions in ORDER BY. */
const LACKED = '18.16 lacks what its questions have'
const QUESTIONS = { '': LACKED }
const ONE_AT_A_TIME = 'chdb runs one statement at a time'

/** What a vehicle lacks: tests that are skipped on it alone. */
const LACKS = {
  chdb: {
    // Two answers stand still at the same time.
    'path/ended_access': {
      'after its deletion (basic) an Arrow': ONE_AT_A_TIME,
      'after a new secret (token) an Arrow': ONE_AT_A_TIME,
      'after a new secret (basic) an Arrow': ONE_AT_A_TIME,
      'after a new signing key (token) an Arrow': ONE_AT_A_TIME,
    },
    'path/load_and_deletion': { 'eight heavy queries': ONE_AT_A_TIME },
  },
  clickhouse18: {
    'clients/counters_model': QUESTIONS,
    'clients/grids_as_sent': QUESTIONS,
    'clients/grids_model': QUESTIONS,
    'clients/metric_questions': QUESTIONS,
    'clients/requests_as_sent': QUESTIONS,
    'clients/sample_documents_answer': QUESTIONS,
    'clients/sql': QUESTIONS,
    'clients/terraform_operations': { 'a custom metric': LACKED },
    'clients/ui-kit/hooks': QUESTIONS,
    'cluster/analyst_questions': QUESTIONS,
    'cluster/retention': QUESTIONS,
    'jobs/replay_rejected': QUESTIONS,
    'jobs/replays_are_exact': QUESTIONS,
    'jobs/rewrite_values': QUESTIONS,
    'path/arrow_stream': QUESTIONS,
    'path/ended_access': QUESTIONS,
    'path/exports': QUESTIONS,
    'path/generic_pools': QUESTIONS,
    'path/guesses_at_secrets': { 'at a webhook': 'its events take longer than it counts on' },
    'path/ids_of_another_server': { 'so are the pools': LACKED },
    'path/imports': QUESTIONS,
    'path/load_and_deletion': { 'eight heavy queries': LACKED },
    'path/metrics_and_policies': QUESTIONS,
    'path/openapi': { 'rows leave as Arrow': LACKED, 'HEAD is answered': LACKED },
    'path/query_route': QUESTIONS,
    'path/received_at_rises': QUESTIONS,
    'path/rejected_events': QUESTIONS,
    'path/rejected_events_pool': { 'answers wait for no row': LACKED },
    'path/senders': {
      'the first header of a name': LACKED,
      'columns are proposed': LACKED,
      'a kill replays contexts': LACKED,
    },
    'path/tail': QUESTIONS,
    'path/traces': { 'a query has its plan': LACKED },
    'path/values_end_to_end': QUESTIONS,
    'path/waiting_applications': QUESTIONS,
    'path/who_reads_rejected_events': QUESTIONS,
  },
}

/** Models of questions, with their rows in ClickHouse 26.9. None is about files or DuckDB. */
export const MODELS = [
  'query/counter_plans',
  'query/dates_in_zones',
  'query/filters_model',
  'query/leaderboard_model',
  'query/names_of_columns',
  'query/percentile_model',
  'query/policies',
  'query/relative_ranges',
  'query/time_intervals',
  'query/time_series_model',
  'query/expression/attack_corpus',
  'query/expression/evaluated',
  'query/expression/random_calls',
  'query/expression/regex_patterns',
  'query/expression/whole_numbers_model',
  'query/sql/attack_corpus',
  'query/sql/statements_answered',
]

/**
 * By file: why tests whose titles begin so are skipped.
 * @param {string | undefined} vehicle
 */
export function skippedOn(vehicle) {
  if (vehicle !== 'chdb' && vehicle !== 'clickhouse18')
    throw new Error('WEIR_TEST_STORE is chdb or clickhouse18')
  /** @type {Record<string, Record<string, string>>} */
  const lacks = LACKS[vehicle]
  return Object.fromEntries(
    Object.entries(SUITES).map(([file, skipped]) => [file, { ...skipped, ...lacks[file] }]),
  )
}

/**
 * The files that run on a vehicle.
 * @param {string | undefined} vehicle
 */
export function suitesOn(vehicle) {
  return Object.entries(skippedOn(vehicle)).flatMap(([file, skipped]) => ('' in skipped ? [] : [file]))
}

/** Files that start a server and are not run again, and why. */
export const LOCAL_ONLY = {
  'clients/python/main': 'npm run test:python',
  'console/files': 'files of the console, which no store has',
  'crash/': 'kills at points of the local log; faults.test.ts kills nodes and servers',
  'faults/': 'faults of the disk below the data folder',
  'flips/': 'flipped bits in files of the data folder',
  'golden/': 'data folders of earlier versions',
  'index/': 'the key index',
  'jobs/': 'jobs over segments and kills of the local log; rewritten_tables.test.ts kills nodes',
  'path/added_columns': 'merges, a rebuilt index, a backup and its restore',
  'path/added_columns_beside_versions': 'version columns, a rebuilt index',
  'path/clock_steps': 'segments and retention by the wall clock of the machine',
  'path/compaction': 'merges of segments',
  'path/damage_': 'damage to files of the data folder',
  'path/deploy_examples': 'metrics of the local store',
  'path/first_process_of_a_container': 'the query process',
  'path/job_pages': 'pages that run commands on a data folder',
  'path/metrics_of_the_machine': 'the disk of the data folder',
  'path/mounted_data_folder': 'the data folder as a volume',
  'path/operation': 'commands, locks and starts of a data folder',
  'path/pools_deleted_during_flushes': 'flushes',
  'path/priorities': 'threads of flushes and merges',
  'path/query_process': "DuckDB's process",
  'path/readme_commands': 'pages that start a server of their own',
  'path/records_model': 'merges, rebuilds, verify and segments that others read',
  'path/replay_of_more_than_a_flush': 'the log',
  'path/retention': 'merges that remove rows',
  'path/second_process_on_a_folder': 'the lock of the data folder',
  'path/thread_names': 'threads of the local store',
  'power/': 'power cuts of the data folder',
  'query/arrow/export_command': 'a command that reads a data folder',
  'setup/': 'the package',
  'terraform/': 'npm run test:terraform',
  'tools/': 'commands over a data folder',
}

/**
 * Which of these files run on which version, as lines of a page:
 *
 *   node -e "import('./test/cluster/suites.mjs').then(({ table }) => console.log(table()))"
 */
export function table() {
  /** @param {Record<string, string>} skipped */
  const cell = skipped => {
    const why = [...new Set(Object.values(skipped))].join('; ')
    if ('' in skipped) return `none: ${skipped['']}`
    return why === '' ? 'all' : `all but some: ${why}`
  }
  const vehicles = [skippedOn('chdb'), skippedOn('clickhouse18')]
  const rows = Object.keys(SUITES).map(file => [file, ...vehicles.map(skips => cell(skips[file] ?? {}))])
  const lines = [...rows, ...MODELS.map(file => [file, 'all', `none: ${LACKED}`])].sort()
  const same = (cells = ['']) =>
    cells[0] !== 'all' && cells[0] === cells[1] ? [cells[0], 'the same'] : cells
  return ['| Tests | On 26.9 | On 18.16 |', '| --- | --- | --- |']
    .concat(lines.map(([file, ...cells]) => `| \`${file}\` | ${same(cells).join(' | ')} |`))
    .join('\n')
}
