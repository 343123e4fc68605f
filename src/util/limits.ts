/**
 * The maximums of Weir that a client or an operator can meet, each with its reason and what happens
 * beyond it, in three parts: the limits that clients see, the tuning values, and the bounds of
 * options that only tests set. A cache that one file keeps for itself has its bound there.
 *
 * W-9: nothing between admission and ack is unbounded. A queue, buffer, loop or wait without a
 * constant is a bug.
 */
import { assert } from './assert.ts'

const KiB = 1024
const MiB = 1024 * KiB

// ═════ Part 1: limits that clients see ═══════════════════════════════════════════════════════════

// ── ingest ──────────────────────────────────────────────────────────────────────────────────────

/**
 * Bytes of a decoded body. The protocol's own limit; a larger body is 413. parse/native/schema.h
 * repeats it.
 */
export const BODY_BYTES_MAX = 1_048_320
/**
 * Events in a body. The protocol's own limit; more events are 413. parse/native/schema.h repeats
 * it.
 */
export const EVENTS_MAX = 500
/**
 * JSON containers open at once; deeper nesting is 400. It keeps the stacks of both kernels small.
 * parse/native/schema.h repeats it.
 */
export const DEPTH_MAX = 1024
/** Chunks of a body below this size are tiny. Each costs the main thread about 1 µs. */
export const TINY_CHUNK_BYTES = 32
/**
 * Tiny chunks in a body, less a credit for larger ones; more are 400. A client that writes each of
 * 500 events and each comma with one call sends 1,000. 2,048 chunks take 2 to 3 ms.
 */
export const TINY_CHUNKS_MAX = 2_048
/**
 * Tiny chunks after that 400 until the connection closes at once. They come in the same read, so
 * the answer is not sent yet.
 */
export const TINY_CHUNKS_CLOSE = 256
/**
 * Tiny chunks forgiven in each API_TICK_MS: 1,000 a second, more than a pipe of lines or a slow
 * link sends.
 */
export const TINY_CHUNKS_PER_TICK = 100
/** Bytes read and dropped after a 413, so that the client sees the answer instead of a reset. */
export const DRAIN_BYTES_MAX = 8 * MiB
/** Time for which bytes are dropped after a 413. */
export const DRAIN_MS_MAX = 5_000
/** Time between the end of dropping and the close of the connection: the client sees the 413. */
export const DRAIN_GRACE_MS = 1_000
/**
 * Time from a body's first byte to its last; a slower body is 408 and the connection closes. Before
 * the first byte uWebSockets.js closes the connection after 8 to 12 s.
 */
export const BODY_MS_MAX = 60_000
/**
 * A slower body gets 408 while another request wants its place. A mobile link sends 20 kB/s.
 */
export const BODY_BYTES_PER_SECOND_MIN = 16 * KiB
/** Time for a client to read an answer; then the connection closes. */
export const ANSWER_MS_MAX = 10_000
/** Time for which a request waits for room; then it is 429 with Retry-After. */
export const WAIT_MS_MAX = 5_000
/** Bytes of a body of other routes, such as a backup's folder (a path: 4 KiB); more is 413. */
export const ROUTE_BODY_BYTES_MAX = 16 * KiB
/** Over node:http: bytes of a request's head; more is 431. This is Node's default. */
export const HTTP_HEAD_BYTES_MAX = 16 * KiB
/** Over node:http: time for a request's head; then 408. uWebSockets.js closes after 8 to 12 s. */
export const HTTP_HEAD_MS_MAX = 10_000
/** Over node:http: time for a whole request; then 408. It exceeds BODY_MS_MAX plus WAIT_MS_MAX. */
export const HTTP_REQUEST_MS_MAX = 75_000
/** Over node:http: time between two requests of a connection; then it closes. */
export const HTTP_IDLE_MS_MAX = 10_000

// ── pools and applications ──────────────────────────────────────────────────────────────────────

/** Unpacked columns of a pool; more are BAD_REQUEST. */
export const COLUMNS_MAX = 500
/** Bytes of a column's name in UTF-8. */
export const COLUMN_NAME_BYTES_MAX = 128
/** Bytes of a column's jsonProperty in UTF-8: each message about a bad event repeats it. */
export const JSON_PROPERTY_BYTES_MAX = 1_024
/** Bytes of a unique name in UTF-8: it labels metrics and stands in URLs. */
export const UNIQUE_NAME_BYTES_MAX = 256
/** Bytes of a description in UTF-8: the whole catalog is in memory. */
export const DESCRIPTION_BYTES_MAX = 8_192
/** Bytes of a webhook's user name, and of its password, in UTF-8: headers are short. */
export const CREDENTIAL_BYTES_MAX = 1_024
/**
 * Characters of an `Authorization` header. The longest valid one is Basic with two credentials of
 * CREDENTIAL_BYTES_MAX in base64: 2,738.
 */
export const AUTHORIZATION_CHARACTERS_MAX = 4 * KiB
/** Data pools of a server. Each has a memtable, a manifest and schemas in memory. */
export const POOLS_MAX = 20_000
/** Data sources of a server. One stays when its pool is deleted. */
export const SOURCES_MAX = 20_000
/** Predefined metrics of a server. */
export const METRICS_MAX = 100_000
/** Dimensions of a metric: as many as a pool has columns. */
export const METRIC_DIMENSIONS_MAX = COLUMNS_MAX
/** Applications of a server. */
export const APPLICATIONS_MAX = 10_000
/** Access policies of one pool: a reader looks through them. */
export const POLICIES_PER_POOL_MAX = 1_000
/** Tables that an Http or S3 data source declares. */
export const SOURCE_TABLES_MAX = 100
/** Characters of the other connection settings of a data source, as JSON. */
export const CONNECTION_SETTINGS_CHARACTERS_MAX = 16 * KiB
/** Characters of a ClickHouse type. */
export const CLICKHOUSE_TYPE_CHARACTERS_MAX = 256
/** Entries of each list of table settings. */
export const TABLE_SETTINGS_NAMES_MAX = 32
/** Bytes of an entry of table settings in UTF-8: an expression over columns. */
export const TABLE_SETTINGS_TEXT_BYTES_MAX = 1_024
/**
 * UTF-8 bytes of an SQL text that a caller gives, such as filterSql. Parsing the worst one takes
 * some 50 ms.
 */
export const SQL_TEXT_BYTES_MAX = 16 * KiB
/** Random bytes of a new secret. */
export const SECRET_BYTES = 32
/** Jobs that have not ended; one more is BAD_REQUEST. */
export const JOBS_UNFINISHED_MAX = 1_000
/** Columns that one update sets, each with an expression of its own. */
export const UPDATED_COLUMNS_MAX = 64
/** Ended jobs that the catalog keeps. The one that ended first goes first. */
export const JOBS_ENDED_MAX = 10_000
/** Days of retention: a hundred years. More is BAD_REQUEST. */
export const RETENTION_DAYS_MAX = 36_500
/**
 * Characters of an application's secret and of the /metrics token, at least. A shorter word that a
 * person chose is soon guessed.
 */
export const CLIENT_SECRET_CHARACTERS_MIN = 16
/** Time for which a token is valid. Clients fetch a new one before. */
export const TOKEN_SECONDS = 3_600
/**
 * Bytes of a token request's body. The longest valid one has an id and a secret of 256 characters,
 * percent-encoded, and all scopes: 2 KiB.
 */
export const TOKEN_BODY_BYTES_MAX = 16 * KiB
/** Fields of a token request's form. Five have a meaning; the others are ignored. */
export const TOKEN_FIELDS_MAX = 64
/**
 * Bytes of `policy_values`. The token carries them, and with them it fits into
 * AUTHORIZATION_CHARACTERS_MAX.
 */
export const POLICY_VALUES_BYTES_MAX = KiB
/** Values in `policy_values`. */
export const POLICY_VALUES_MAX = 32
/** Characters of a name in `policy_values`. */
export const POLICY_VALUE_NAME_CHARACTERS_MAX = 128
/** Characters of a text in `policy_values`. */
export const POLICY_VALUE_CHARACTERS_MAX = 512
/** Keys whose tokens are accepted: the newest, and those that it followed within TOKEN_SECONDS. */
export const SIGNING_KEYS_MAX = 16
/** A token from a later moment is refused, unless the clock was set back by less than this. */
export const TOKEN_CLOCK_STEP_SECONDS = 60

// ── queries and GraphQL ─────────────────────────────────────────────────────────────────────────

/** Time for a query of the largest propellers; then it is interrupted. */
export const QUERY_MS_MAX = 30_000
/**
 * Time for a query to end after its interrupt or after its client has gone; then its process is
 * replaced. DuckDB hears an interrupt between chunks only, and none while it plans.
 */
export const QUERY_END_MS_MAX = 2_000
/**
 * Time for which the queries of an application run in the penalty process after one of them did not
 * end in time: a dashboard that asks the same question each minute stays there.
 */
export const PENALTY_MS = 600_000
/** Queries of all applications that wait; one more is UNAVAILABLE. */
export const QUERIES_WAITING_MAX = 256
/** Filters of a query, nested ones included. */
export const FILTERS_MAX = 500
/** Nesting of a query's filters. */
export const FILTER_DEPTH_MAX = 32
/**
 * Characters of a LIKE pattern, except a text with `%` only at its ends. A search takes up to this
 * many times the length of the text.
 */
export const LIKE_PATTERN_CHARACTERS_MAX = 1_000
/**
 * Patterns of a query that become regular expressions. Each may take RE2's 8 MB in each of its
 * threads, outside DuckDB's memory limit.
 */
export const LIKE_PATTERNS_MAX = 16
/** Different values that the statistics of a dimension list. */
export const UNIQUE_VALUES_MAX = 1_000
/** Rows of a leaderboard. */
export const LEADERBOARD_ROWS_MAX = 1_000
/** Columns by which a question groups: a row of its answer has as many values. */
export const DIMENSIONS_MAX = 32
/** Values that `topValues` lists, and where the query does not say how many. */
export const TOP_VALUES_MAX = 1_000
export const TOP_VALUES_DEFAULT = 10
/** Fractions of a question about percentiles. */
export const PERCENTILE_FRACTIONS_MAX = 20
/** The largest staleness that an operator may allow to queries. */
export const STALENESS_MS_MAX = 60_000
/** Values of an answer, counted before its lists are resolved: 1 to 2 µs each. */
export const GRAPHQL_VALUES_MAX = 100_000
/**
 * Characters of all values of an answer; more are BAD_REQUEST. The main thread writes them as JSON.
 */
export const ANSWER_CHARACTERS_MAX = 8 * MiB
/** Unique ids of a question for their records. */
export const UNIQUE_IDS_MAX = 1_000
/** Records that are answered for unique ids: an id may be that of many. More are BAD_REQUEST. */
export const RECORDS_MAX = 10_000
/** Rows of a page of a grid or a report: the protocol's own limit. */
export const PAGE_ROWS_MAX = 1_000
/** Rows of a page whose number is not given: as many as the React kit asks for. */
export const PAGE_ROWS_DEFAULT = 50
/** Metrics of a report. Each may have FILTERS_MAX filters, which the main thread plans. */
export const REPORT_METRICS_MAX = 32
/** Columns of a grid or of records, repeated ones included: those of a pool, and its own two. */
export const GRID_COLUMNS_MAX = COLUMNS_MAX + 2
/** Intervals of a time series: a week of minutes has 10,080, a year of hours 8,784. */
export const TIME_SERIES_INTERVALS_MAX = 12_000
/** Values of all groups of a time series, and those of all groups together. */
export const TIME_SERIES_VALUES_MAX = 40_000
/** Groups of a time series. */
export const TIME_SERIES_GROUPS_MAX = 1_000
/** Intervals of months or years whose begins stand in the statement as values to compare. */
export const TIME_SERIES_LISTED_MAX = 600
/** Time zones in memory: IANA has some 600 names. */
export const ZONES_MAX = 1_000
/** Changes of a zone's clock until 2100. The most are some 370. */
export const ZONE_CHANGES_MAX = 1_000
/** Openings of comments in an SQL text: DuckDB's lexer takes the square of open ones. */
export const EXPRESSION_COMMENTS_MAX = 32
/** Columns, values, functions and operators of an SQL text. */
export const EXPRESSION_NODES_MAX = 2_000
/** Their nesting. A list of AND or OR is one level. */
export const EXPRESSION_DEPTH_MAX = 64
/** Texts that `||` and concat join in one expression: each may have a body's length. */
export const TEXTS_JOINED_MAX = 16
/**
 * Different medians and quantiles of a query. DuckDB keeps all values of each, outside of its
 * memory limit: 8 over 2M rows take 250 MiB, 16 take 490 MiB.
 */
export const QUANTILES_MAX = 8
/** The number of an interval. */
export const INTERVAL_MAX = 1_000_000
/** Placeholders in the SQL of an access policy. */
export const PLACEHOLDERS_MAX = 64
/** Words of a statement that begin a part, such as SELECT, FROM and JOIN. */
export const STATEMENT_WORDS_MAX = 256
/** SELECTs of a statement, in its WITH clauses and subqueries too. */
export const STATEMENT_SELECTS_MAX = 32
/** Tables that a statement names after FROM and JOIN. Each takes a scan of its segments. */
export const STATEMENT_TABLES_MAX = 16
/** Columns of one SELECT, those of `*` included. */
export const STATEMENT_COLUMNS_MAX = 1_000
/** Rows of a statement's answer; more is BAD_REQUEST. */
export const STATEMENT_ROWS_MAX = 10_000
/** SQL texts that wait for the parser; one more is UNAVAILABLE. */
export const EXPRESSIONS_PARSING_MAX = 1_024
/** Characters of all SQL texts whose trees are cached. A tree takes some 30 bytes for each. */
export const EXPRESSIONS_CACHED_CHARACTERS = 256 * KiB
/** Fields of a document after fragments are spread. Validation compares fields in pairs. */
export const GRAPHQL_FIELDS_MAX = 2_000
/** Nesting of the fields of a document. */
export const GRAPHQL_DEPTH_MAX = 24
/** Fragments of a document. Each may spread the next, and walking them recurses this deep. */
export const GRAPHQL_FRAGMENTS_MAX = 200
/**
 * Of these, values of the schema itself; the whole of it has 23,000. Twenty requests that ask for
 * more of them at once held 200 MB.
 */
export const GRAPHQL_SCHEMA_VALUES_MAX = 30_000
/**
 * Metric queries of a request. The main thread plans each. Dashboards send about 25 at once, and
 * more than QUERIES_WAITING_MAX could not wait.
 */
export const GRAPHQL_QUERIES_MAX = 200
/**
 * Mutations of a request. Each waits for a sync of the catalog: a hundred take 0.1 to 0.3 s.
 */
export const GRAPHQL_MUTATIONS_MAX = 100
/** Characters of an object's name in the audit trail: those of an id or of any unique name. */
export const AUDIT_ID_CHARACTERS_MAX = 256
/**
 * Characters of the inputs of all metric queries of a request, as JSON. The main thread plans their
 * filters; the maximum takes about 12 ms.
 */
export const GRAPHQL_INPUT_CHARACTERS_MAX = 512 * KiB
/**
 * Bytes of a GraphQL body. A pool of COLUMNS_MAX columns with the longest names and jsonProperties
 * takes 611,000.
 */
export const GRAPHQL_BODY_BYTES_MAX = 640 * KiB
/**
 * Objects, lists, commas and comments of a body, counted before it is parsed. COLUMNS_MAX columns
 * or FILTERS_MAX filters take 2,500. Parsing and coercing the maximum takes about 10 ms.
 */
export const GRAPHQL_BODY_PARTS_MAX = 10_000
/** Tokens of a document. COLUMNS_MAX columns or FILTERS_MAX filters take 7,000. */
export const GRAPHQL_TOKENS_MAX = 10_000
/** Lines of a document, those in its strings included. */
export const GRAPHQL_LINES_MAX = 20_000
/**
 * Characters of a name in a document. An unknown name is compared with all known names: 20 names of
 * 30,000 characters took 70 ms.
 */
export const GRAPHQL_NAME_CHARACTERS_MAX = 1_024
/** Brackets open at once in a document or in variables. It keeps the parser's stack small. */
export const GRAPHQL_NESTING_MAX = 256
/**
 * Fields of all operations and fragments, with their fragments spread: validation walks them all.
 */
export const GRAPHQL_SPREAD_FIELDS_MAX = 10_000
/**
 * Fragments that are spread, and for each operation the variables in all its fragments.
 * GRAPHQL_FRAGMENTS_MAX fragments that each spread the next make 20,000.
 */
export const GRAPHQL_SPREADS_MAX = 25_000
/**
 * Pairs of fields with one name at one place, which validation compares in 0.4 µs each. 100
 * fragments that all ask for `id` make 4,950.
 */
export const GRAPHQL_PAIRS_MAX = 10_000

// ═════ Part 2: tuning values ═════════════════════════════════════════════════════════════════════

// ── admission ───────────────────────────────────────────────────────────────────────────────────

/**
 * Bytes of a slab: bodies and their record headers between admission and ack. It holds any body.
 */
export const SLAB_BYTES = 2 * MiB
/** Slabs in use at once, 128 MiB; beyond it requests wait. */
export const SLABS_MAX = 64
/** Slabs that only small bodies may take, so that slow uploads of large bodies never stop them. */
export const SLABS_SMALL_MIN = 16
/** Bytes at a slab's end that no body covers, so that a kernel may read a little past a body. */
export const SLAB_TAIL_BYTES = 64
/** Largest body that shares a slab with others. It must come in one piece. */
export const SMALL_BODY_BYTES_MAX = 64 * KiB
/**
 * Bytes of places that incomplete bodies of one pool hold; further bodies wait. A quarter of the
 * large slabs is left for other pools, whose batches then find a place at once.
 */
export const POOL_PLACES_BYTES_MAX = ((SLABS_MAX - SLABS_SMALL_MIN) * SLAB_BYTES * 3) / 4
/** First chunks of requests that wait for a slab or the memtable; beyond it 429 at once. */
export const WAITING_BYTES_MAX = 128 * MiB
/** Requests that wait at once; beyond it 429 at once. */
export const WAITING_REQUESTS_MAX = 4096
/**
 * Window in which a body's bytes are counted. A waiting request gets its place after one window.
 */
export const BODY_WINDOW_MS = 500
/**
 * Interval at which the timer of uWebSockets.js is set again. It closes a connection with less than
 * 16 KiB/s after 8 to 12 s without an answer. A body that goes on has BODY_MS_MAX.
 */
export const BODY_WAIT_ON_MS = 3_000
/** Interval of the one timer for waiting requests, slow bodies and drained connections. */
export const API_TICK_MS = 100
/** Pools whose rate is remembered; beyond it the least recently used one is forgotten. */
export const RATE_POOLS_MAX = 10_000
/** Bad events described in one turn of the main thread; the answers of further ones take turns. */
export const EVENT_ERRORS_PER_TURN = 1_000

// ── imports ─────────────────────────────────────────────────────────────────────────────────────

/** Imports at once; one more is 503. Each has a thread and some 8 MiB. */
export const IMPORTS_MAX = 4
/**
 * Imports of one application without the scope admin; one more is 503. A place is left for another
 * application, however slowly these send.
 */
export const IMPORTS_PER_APPLICATION_MAX = 2
/** Imports for callers with the scope admin only, so that slow senders never keep them out. */
export const IMPORTS_ADMIN_MIN = 1
/**
 * Uploads whose caller is being identified; one more is 503. Callers with a guessed secret wait
 * here too, and leave places.
 */
export const UPLOADS_BEGINNING_MAX = 128
/**
 * Batches of an import between its thread and the answer of ingest: while one is synced, the next
 * ones are parsed. They take at most a third of the slabs for large bodies.
 */
export const IMPORT_BATCHES_MAX = 4
/** Bytes of a row as JSON: it fits into a body with its brackets. A longer row is refused. */
export const IMPORT_ROW_BYTES_MAX = BODY_BYTES_MAX - 2
/** Interval at which an import's progress is written to the catalog, at least. */
export const IMPORT_JOURNAL_MS = 1_000
/** Characters of the label of an import. */
export const IMPORT_LABEL_CHARACTERS_MAX = 256
/** Imports of a pool that are listed: the newest. */
export const IMPORTS_LISTED_MAX = 100
/** Columns of a CSV or Parquet file. Those beyond the pool's stand in the payload. */
export const IMPORT_COLUMNS_MAX = 20_000
/**
 * Free bytes of the data folder's disk that Parquet bodies, spilled rows and copies leave to the
 * log and the segments.
 */
export const SPOOL_FREE_BYTES_MIN = 1024 * MiB
/** Bytes of a Parquet body between two looks at the free space. */
export const SPOOL_CHECK_BYTES = 16 * MiB
/**
 * DuckDB's memory for one Parquet body: a row group of each column that it reads. A file with
 * larger ones is refused.
 */
export const PARQUET_MEMORY_BYTES = 512 * MiB
/**
 * Weight of a row of a Parquet body that takes one of the 2,048 places of a chunk (row-weight.ts).
 * So the rows of a chunk weigh at most 2 MiB. Their JSON takes up to 12 times that, and DuckDB
 * holds it about five times.
 */
export const PARQUET_PLACE_BYTES = 1 * KiB
/** Megabytes of JavaScript values in the process that reads a Parquet body: a chunk's events. */
export const PARQUET_HEAP_MIB = 256
/**
 * Bytes that the system gives the process that reads a Parquet body: the last resort, beyond what
 * rows by their weight take. It counts addresses: 4,000 columns need 1.5 GiB of them, and 350 MB of
 * memory.
 */
export const PARQUET_DATA_BYTES_MAX = PARQUET_MEMORY_BYTES + 1_152 * MiB
/** Refused rows that the answer lists if the client does not say how many. */
export const IMPORT_ERRORS_DEFAULT = 100
/** Refused rows that a client may ask for. Each takes some 200 bytes until the end. */
export const IMPORT_ERRORS_MAX = 10_000
/** Time without a byte after which an upload ends, unless Weir itself pauses it. */
export const UPLOAD_STALL_MS = 60_000
/** Bytes of an upload that wait on the main thread; beyond it the socket is paused. */
export const UPLOAD_HELD_BYTES = 1 * MiB
/** Chunks of an upload are gathered into pieces of this size. */
export const UPLOAD_PIECE_BYTES = 256 * KiB
/** Decoded bytes that the thread of an import makes at once. */
export const INFLATED_PIECE_BYTES = 128 * KiB
/**
 * Window of a zstd frame, which the thread of an import holds. Levels up to 19 take at most this,
 * and RFC 8878 asks decoders for it; levels 20 to 22 and --long take 32 to 128 MiB.
 */
export const ZSTD_WINDOW_BYTES_MAX = 8 * MiB
/** Wait before a batch that found no room is tried again. It waited WAIT_MS_MAX for it already. */
export const IMPORT_RETRY_MS = 100

// ── connections ─────────────────────────────────────────────────────────────────────────────────

/**
 * File descriptors that are not for connections. An idle server on two cores has 52, and each parse
 * worker takes 5. 30 queries, 8 streams, a backup and merges took 61 more.
 */
export const DESCRIPTORS_RESERVED = 200
/** Connections at once, whatever RLIMIT_NOFILE says: each may hold 4 KiB of an incomplete head. */
export const CONNECTIONS_MAX = 10_000
/** Connections at once, at least, so that Weir can be reached at all. */
export const CONNECTIONS_MIN = 16
/** One refusal in this many is the last answer of its connection (api/connections.ts). */
export const REFUSALS_PER_CLOSE = 64
/** Characters of an answer that fits in CORK_BYTES with its head, whatever UTF-8 makes of it. */
export const SMALL_ANSWER_LENGTH = 4 * KiB
/**
 * Share of small answers that check whether earlier ones are still in memory. The choice is random,
 * so no client can evade it. A client that reads nothing leaves 16 answers on average.
 */
export const SMALL_ANSWERS_CHECKED = 1 / 16
/** Over node:http: interval at which the times of heads and requests are checked. */
export const HTTP_CHECK_MS = 2_000
/** Over node:http: bytes of a waiting request's body that are read ahead, besides 64 KiB. */
export const HTTP_UNREAD_BODY_BYTES = 16 * KiB
/** Over node:http: requests behind an unanswered one of their connection; one more closes it. */
export const HTTP_PIPELINED_MAX = 64

// ── control requests ────────────────────────────────────────────────────────────────────────────

/** Complete GraphQL, token and other control requests without an answer; one more is 503. */
export const CONTROL_REQUESTS_MAX = 256
/**
 * Control requests whose bodies are incomplete; one more gives the oldest 408. A connection has one
 * at a time, and those that go on sending are complete before they are the oldest.
 */
export const CONTROL_INCOMPLETE_MAX = 1_024
/** Bytes of incomplete bodies of control requests; beyond it the oldest gets 408. */
export const CONTROL_INCOMPLETE_BYTES_MAX = 32 * MiB
/** GraphQL requests of one application from its token to its answer; one more is 429. */
export const GRAPHQL_APPLICATION_REQUESTS_MAX = 128
/**
 * GraphQL requests of all applications; one more is 429. Slow queries must not keep out tokens,
 * backups and Arrow streams, which have the rest of CONTROL_REQUESTS_MAX.
 */
export const GRAPHQL_REQUESTS_MAX = 160
/** List items that GraphQL inspects per value charged. */
export const GRAPHQL_INSPECTED_PER_VALUE = 16
/**
 * Values after which the next list is resolved item by item, so that it can be interrupted: 0.5 ms.
 */
export const GRAPHQL_UNCUT_VALUES = 256
/** Time after which GraphQL pauses inside a list, so that other work gets a turn. */
export const GRAPHQL_SLICE_MS = 5
/** Share of the main thread that GraphQL may take over time. */
export const GRAPHQL_SHARE = 0.5
/**
 * Time that GraphQL may use before its share counts, so that the requests of one page do not wait.
 */
export const GRAPHQL_CREDIT_MS = 20
/** Validated documents in the cache. The least recently used goes first. */
export const GRAPHQL_DOCUMENTS_CACHED = 128
/** Characters of a document in that cache; longer ones are not cached. */
export const GRAPHQL_CACHED_CHARACTERS_MAX = 32 * KiB

// ── guessed secrets ─────────────────────────────────────────────────────────────────────────────

/**
 * Wrong secrets of one application from one address that are answered at once. People mistype, and
 * several clients start together.
 */
export const GUESSES_FREE = 10
/**
 * Interval of further checks for that pair. Ten a second are 864,000 a day; 16 random characters
 * take 10^20 days.
 */
export const GUESS_INTERVAL_MS = 100
/** Wrong secrets from one address, for all applications, that are answered at once. */
export const GUESSES_ADDRESS_FREE = 50
/** Interval of further checks for that address. */
export const GUESS_ADDRESS_INTERVAL_MS = 50
/** Wrong secrets of one application, from all addresses, that are answered at once. */
export const GUESSES_APPLICATION_FREE = 100
/** Interval of further checks for that application, for addresses that have failed with it. */
export const GUESS_APPLICATION_INTERVAL_MS = 10
/**
 * Time for which a secret waits for its check; in a longer queue it is 429. Clients wait longer.
 */
export const GUESS_WAIT_MS_MAX = 5_000
/** Secrets of all applications that wait; one more is refused. Other requests keep their places. */
export const GUESSES_WAITING_MAX = CONTROL_REQUESTS_MAX / 4
/** Addresses, applications, and pairs of both that are remembered: about 1 MiB each. */
export const GUESSES_KEYS_MAX = 10_000
/** Wrong credentials of one webhook from one address that are answered at once. */
export const TARPIT_FREE = 10
/** Interval after which one more wrong credential is answered at once. */
export const TARPIT_INTERVAL_MS = 1_000
/** Delay of the answers to further wrong credentials. */
export const TARPIT_HOLD_MS = 1_000
/** Delayed answers at once; one more is answered at once. */
export const TARPIT_HELD_MAX = 1_024
/** Pairs of address and webhook that are remembered. */
export const TARPIT_KEYS_MAX = 10_000

// ── streaming answers ───────────────────────────────────────────────────────────────────────────

/**
 * Streams at once; one more is 503. Each may hold a file in data/tmp, chunks and a pinned manifest.
 */
export const STREAMS_MAX = 8
/**
 * Streams of one application, stalled ones included; one more is 503. Two places are left for other
 * applications, and three stalled readers leave two for the same application.
 */
export const STREAMS_PER_APPLICATION_MAX = 5
/** Streams for routes of scope admin only, so that readers never keep a backup out. */
export const STREAMS_ADMIN_MIN = 1
/** Time for which a client may take nothing; then its stream closes and unpins its files. */
export const STREAM_STALL_MS = 60_000
/**
 * Time after which a stream gives its place to one that waits, if its client took less than
 * STREAM_BYTES_PER_SECOND_MIN meanwhile. A full socket reports room when a third of it, up to
 * 1.3 MiB, is free again: in this time a reader of 140 kB/s makes that much room. A slower one may
 * look idle although it reads (seen with 20 and 100 kB/s).
 */
export const STREAM_IDLE_MS = 10_000
/** Bytes a second that the server sees a stream's client take; below, it counts as idle. */
export const STREAM_BYTES_PER_SECOND_MIN = 16 * KiB
/** Time for which a stream waits for a place; then it is 503. It outlasts readers that idle. */
export const STREAM_WAIT_MS = STREAM_IDLE_MS + 2_000
/** Streams that wait for a place; one more is 503. Each is one of CONTROL_REQUESTS_MAX. */
export const STREAMS_WAITING_MAX = 32
/** Of them, streams of one application. */
export const STREAMS_WAITING_PER_APPLICATION_MAX = 8
/**
 * Exports to Parquet at once. Each is a file in data/tmp from its copy to the end of its download.
 */
export const FILE_EXPORTS_MAX = 3
/** Of them, exports of one application. */
export const FILE_EXPORTS_PER_APPLICATION_MAX = 1
/**
 * Interval at which the write timer of uWebSockets.js (8 to 12 s) is set again (api/http/uws.ts).
 */
export const STREAM_WAIT_ON_MS = 3_000
/** Time for streams to go on after SIGTERM; then they close without their end. */
export const STREAM_STOP_MS = 2_000
/** Bytes that uWebSockets.js gathers of one corked write. */
const CORK_BYTES = 16 * KiB
/**
 * Bytes of a stream handed to the socket at once; the rest waits in memory. With its frame and the
 * end of the head it must fit in CORK_BYTES.
 */
export const STREAM_WRITE_BYTES = CORK_BYTES - 256
/**
 * Bytes handed to a socket that was full and takes more. Node's client copies what it read for each
 * chunk while its reader is slow: with small chunks it took 2 MB/s.
 */
export const STREAM_BACKED_BYTES = 256 * KiB
/** Bytes handed to such a socket first, to learn whether the waiting bytes have gone. */
export const STREAM_PROBE_BYTES = 1 * KiB
/**
 * Bytes of a stream that are made while the socket is full. The socket takes less when a third of
 * it (at most 4 MiB on Linux) is free again (api/stream.ts).
 */
export const STREAM_AHEAD_BYTES = 2 * MiB

// ── parse ───────────────────────────────────────────────────────────────────────────────────────

/** Bytes of bodies in a parse task: long enough to pay for its 60 µs, short enough to share. */
export const PARSE_TASK_BYTES_MAX = 512 * KiB
/** Requests in a parse task. */
export const PARSE_TASK_REQUESTS_MAX = 256
/** Bytes of the batches of a parse task, by batchBytesMax(). One request goes whatever it takes. */
export const BATCH_BYTES_MAX = 8 * MiB
/**
 * Bytes of batches between hand-over and memtable; at this no task starts. One may go beyond it.
 */
export const BATCHES_UNDER_WAY_BYTES_MAX = 96 * MiB
/** DEFLATE makes at most 1,032 bytes of one (RFC 1951: 258 bytes from two bits). */
export const GZIP_RATIO_MAX = 1032
/** Batches from the start of their parse to their last answer; more requests gather in slabs. */
export const BATCHES_UNDER_WAY_MAX = 64
/** Parse tasks per parse worker without an answer: one runs, one waits. More requests gather. */
export const PARSE_TASKS_PER_WORKER_MAX = 2
/**
 * Requests that gather while a task of small bodies is parsed. Handing over a smaller task costs
 * all threads more than parsing it (docs/decisions/0018).
 */
export const PARSE_TASK_GATHERED_REQUESTS = 32
/** Bytes that gather while a task of small bodies is parsed. */
export const PARSE_TASK_GATHERED_BYTES = 64 * KiB
/** Bytes of batches of gathered requests. Requests that cannot share a task do not wait. */
export const PARSE_TASK_GATHERED_PARSED_BYTES = BATCH_BYTES_MAX / 2
/**
 * Time for which a cut-over holds a pool's bodies until those under way have their sequences. It is
 * below WAIT_MS_MAX, so that waiting requests get no 429 (src/app/cut-over.ts).
 */
export const CUT_OVER_MS_MAX = 2_000
/** Jobs that run at once, each on another pool. More wait. */
export const JOBS_RUNNING_MAX = 4
/** Times in a row that the query process may fail a job, which then FAILED. */
export const JOB_ENGINE_TRIES_MAX = 5
/** A job tells how far it is at most this often: each time is a synced change. */
export const JOB_PROGRESS_MS = 1_000
/**
 * Rows of a row group in a file of row changes. DuckDB holds one in memory, whatever its values.
 */
export const CHANGES_GROUP_ROWS = 8_192
/** Flushes that a job waits for until none holds a segment that it reserves. */
export const RESERVE_FLUSHES_MAX = 100
/** Time after which a job tries again that the log, the disk or the catalog refused. */
export const JOB_RETRY_MS = 1_000
/** Parse workers, whatever the machine has. */
export const PARSE_WORKERS_MAX = 16
/** Sizes of last batches that are remembered, by pool, kind and magnitude of the body. */
export const BATCH_SIZES_MAX = 32_768

// ── the log ─────────────────────────────────────────────────────────────────────────────────────

/** Bytes of the largest log file. The log begins with smaller ones. */
export const LOG_FILE_BYTES = 64 * MiB
/**
 * Bytes of the first log files, of the files in a backup, and of the largest file that tests may
 * ask for at least. Such a file holds the largest append.
 */
export const LOG_FILE_BYTES_MIN = 4 * MiB
/** A log that fills a file within this time makes the next one twice as large. */
export const LOG_FILE_FILLED_SOON_MS = 10_000
/** Bytes of a group, which is written and synced at once. It keeps a sync below about 10 ms. */
export const GROUP_BYTES_MAX = 8 * MiB
/** Bytes queued for the log: slabs, and inflated bodies beside them. Asserted, never reached. */
export const LOG_QUEUED_BYTES_MAX = 4 * SLABS_MAX * SLAB_BYTES
/**
 * Bytes of a replay chunk. A start parses its records together, and each pool's records become one
 * batch. A large chunk has several records of each of thousands of pools that take turns.
 */
export const REPLAY_CHUNK_BYTES = 16 * MiB
/**
 * Bytes of log files that a start keeps in memory between checking and replaying them; it reads
 * further ones twice. Goal P-7 (docs/figures) has room for three files at a start.
 */
export const LOG_CACHE_BYTES_MAX = 3 * LOG_FILE_BYTES
/** Spare log files that are ready. The spare thread makes one when there are fewer. */
export const SPARE_FILES_MIN = 2
/** Spare log files, recycled ones included; at this number old log files are removed instead. */
export const SPARE_FILES_MAX = 8
/** Interval at which Weir tries again while the disk is full. */
export const DISK_RETRY_MS = 1_000

// ── memtable and flush ──────────────────────────────────────────────────────────────────────────

/** Bytes of unflushed batches of all pools, running flushes included; beyond it requests wait. */
export const MEMTABLE_BYTES_MAX = 192 * MiB
/** Bytes of all memtables above which the largest are flushed first, so that a burst finds room. */
export const MEMTABLE_WAITING_BYTES_MAX = MEMTABLE_BYTES_MAX / 2
/**
 * Bytes of objects per batch in a memtable, on both sides of V8. A standalone script measured it.
 */
export const MEMTABLE_ENTRY_BYTES = 1 * KiB
/** Bytes of unused batch memory that waits for parse tasks: a flush of all memtables frees it. */
export const FREED_BYTES_MAX = MEMTABLE_BYTES_MAX
/** Time after which batch memory that no parse task took is left to the garbage collector. */
export const FREED_TRIM_MS = 10_000
/** Rows of a full memtable. A full memtable is flushed. */
export const FLUSH_ROWS = 131_072
/** Bytes of a full memtable. */
export const FLUSH_BYTES = 64 * MiB
/**
 * Batches of a full memtable. Each costs the main thread about 5 µs to the flush thread and back.
 */
export const FLUSH_ENTRIES = 1_024
/**
 * Age of the oldest row at which a memtable is flushed. Each pool uses between half of it and all
 * (store/flush/flush-policy.ts). Goal P-7 gives a start 3 s, and 2,000 pools take about 1 s of it.
 * 2,000 events a second leave at most 90,000 to parse again: 0.3 to 0.5 s (docs/decisions/0016).
 */
export const FLUSH_AGE_MS = 60_000
/**
 * Log bytes written since the oldest row at which a memtable is flushed; each pool uses its share.
 * A start reads the log above the lowest unflushed sequence twice: 8 files take 0.5 s, and each
 * record 0.5 µs each time, which is 1.4 s for single events of 450 bytes. Half of this limit would
 * double the small flushes of thousands of pools beside one under full load, which reaches the
 * limit in 2 to 7 s.
 */
export const LOG_UNFLUSHED_BYTES = 512 * MiB
/** Index time of a full flush above which flushes get smaller (store/flush/flush-policy.ts). */
export const FLUSH_INDEX_MS_MAX = 1_000
/** Index time that smaller flushes aim at: a reader waits for four or five flushes. */
export const FLUSH_SMALLER_MS_MAX = 300
/**
 * Index time of a smaller flush below which flushes grow: below half of the aim, against swings.
 */
export const FLUSH_SMALLER_MS_MIN = 140
/** Estimated index time of a full flush below which flushes grow. */
export const FLUSH_INDEX_MS_MIN = 480
/** Time without a slow flush before flushes grow. */
export const FLUSH_GROW_MS = 5_000
/** The smallest flush is this part of a full one: 8,192 rows with a page update each take 0.4 s. */
export const FLUSH_SHRINK_MAX = 16
/** Share of the time that a flush of half the size may take. Above it, rows are not the cause. */
export const FLUSH_SHRINK_GAIN = 0.8
/**
 * Time for which the size stays after a trial without gain, and between two trials of double size.
 */
export const FLUSH_SHRINK_REST_MS = 20_000
/** Time without a full flush of known cost after which flushes are full again. */
export const FLUSH_CALM_MS = 60_000
/** Interval at which the memtables are inspected for age, log and memory. */
export const FLUSH_TICK_MS = 250
/** Rows of one flush, with those of recent flushes that it writes again. */
const FLUSH_ROWS_MAX = 2 * FLUSH_ROWS
/**
 * Rows of a small segment that the pool's next flush may write again
 * (store/flush/recent-flushes.ts).
 */
export const RECENT_FLUSH_ROWS_MAX = 98_304
/** Batches of a small segment that the pool's next flush may write again, and of both together. */
export const RECENT_FLUSH_ENTRIES_MAX = 2_048
/** Bytes of the recent flushes of all pools. */
export const RECENT_FLUSH_BYTES_MAX = 64 * MiB
/** Full flushes of all pools at once: one writes Parquet, one is in the index, one waits. */
export const FLUSHES_MAX = 3
/** Small flushes that may run in place of a full one, with one log sync and index transaction. */
export const FLUSHES_SMALL = 16
/**
 * Bytes of a segment's file that is written past the page cache. Readers that ask for a flush read
 * its files at once, and those are small (decision 0021).
 */
export const DIRECT_WRITE_BYTES_MIN = 1 * MiB
/** Rows of a Parquet row group: small enough to prune, large enough to compress. */
export const ROW_GROUP_ROWS = 65_536
/** Time for the running flushes when the server stops flushing: part of STOP_MS_MAX. */
export const FLUSHES_END_MS_MAX = 1_000

// ── picking compactions ─────────────────────────────────────────────────────────────────────────

/**
 * Rows of a merge, deleted ones included. Its keys are in memory and in one transaction of the
 * index. A merge of 917k rows reached 849 MB resident, one of 229k rows 359 MB.
 */
export const COMPACT_ROWS_MAX = 524_288
/**
 * Time of a compaction commit beside ingest: flushes wait for it. A merge takes as many rows as the
 * index moves in this time, by the cost of the pool's last transactions.
 */
export const COMPACTION_COMMIT_MS_MAX = 1_000
/** Time of a compaction commit while no rows come in. */
export const COMPACTION_COMMIT_MS_ALONE_MAX = 10_000
/**
 * Rows that one merge may always take; else segments of small flushes would stay for ever. The
 * commit takes 1.5 s where each key changes a page of its own.
 */
export const COMPACTION_COMMIT_ROWS_FLOOR = 32_768
/** Rows of a merge before the pool's first transaction shows the cost of its keys: at most 6 s. */
export const COMPACTION_COMMIT_ROWS_UNKNOWN = 4 * COMPACTION_COMMIT_ROWS_FLOOR
/** Half-life of a measured cost of keys: a pool whose keys were expensive once is merged again. */
export const COMPACTION_COMMIT_COST_MS = 600_000
/** Keys of a transaction that shows the cost per key. The sync alone takes some milliseconds. */
export const KEY_COST_KEYS_MIN = 4_096
/** Bytes of a merge's inputs. */
export const COMPACT_BYTES_MAX = 512 * MiB
/** Segments of a merge. It bounds open files and the time to inspect a pool. */
export const COMPACT_INPUTS_MAX = 32
/** Small neighbours that are worth a merge. A row is written again about log₄ n times. */
export const COMPACT_FAN_IN = 4
/** Rows that a smaller segment counts as: below it a merge costs the same. */
export const COMPACT_ROWS_FLOOR = 1_024
/**
 * Adjacent small segments that stay although no window of them is worth a merge. Where there are
 * more, the cheapest window is merged whatever the sizes.
 */
export const COMPACT_RUN_MAX = 32
/** Share of deleted rows above which a segment is rewritten. */
export const COMPACT_DELETED_SHARE = 0.25
/** Interval at which pools are inspected for merges and waiting merges start. */
export const COMPACT_TICK_MS = 1_000
/** Pools inspected in one tick, about 10 µs each. The next ticks inspect the others. */
export const COMPACT_INSPECTIONS_PER_TICK = 256
/** Time after which a tick inspects no further pool: 10,000 small segments take about 4 ms. */
export const COMPACT_INSPECT_MS_MAX = 4
/** Ticks without a flush after which a pool's recent flushes leave memory and can be merged. */
export const COMPACT_QUIET_TICKS = 60
/**
 * Time after the last ingested rows in which merges are throttled. Later they run at full speed.
 */
export const COMPACT_INGEST_MS = 5_000
/** Memory of the running flushes above which no merge starts, until COMPACT_WAIT_MS_MAX passed. */
export const COMPACT_MEMTABLE_BYTES_MAX = MEMTABLE_BYTES_MAX / 4
/**
 * Small segments up to which merges wait while flushes come as fast as the index takes their keys.
 */
export const COMPACT_SLOW_SEGMENTS_MAX = 256
/**
 * Time after which a waiting merge starts beside any load: steady full load must not stop
 * compaction for good.
 */
export const COMPACT_WAIT_MS_MAX = 60_000
/** The same for the rewrite of a segment by a job: somebody waits for the job. */
export const REWRITE_WAIT_MS_MAX = 5_000
/** A rewrite that has not begun after this is given back to its job, which tries again. */
export const REWRITE_BEGIN_MS_MAX = 120_000
/** Longest pause after failed merges. It begins with DISK_RETRY_MS and doubles. */
export const COMPACT_RETRY_MS_MAX = 60_000

// ── the merge thread ────────────────────────────────────────────────────────────────────────────

/**
 * DuckDB's memory in a merge; beyond it the sort spills to data/tmp. It sorts 1M rows of 400 bytes.
 */
export const MERGE_MEMORY_BYTES = 256 * MiB
/** DuckDB's memory in a merge of very long rows: one row group read and one written. */
export const MERGE_MEMORY_BYTES_MAX = 512 * MiB
/** Bytes of a merge, stored and uncompressed, that leaves its DuckDB open for the next one. */
export const MERGE_REUSE_BYTES_MAX = 16 * MiB
/** Average bytes of rows that are sorted. DuckDB takes 2,048 rows from its sort at once. */
export const MERGE_SORTED_ROW_BYTES_MAX = 32 * KiB
/** Bytes of a row group that a merge writes. Writers and readers hold one, uncompressed. */
export const MERGE_GROUP_BYTES = 16 * MiB
/** Bytes of a merge's file that are copied and synced at once: a log sync waits for one piece. */
export const MERGE_PIECE_BYTES = 4 * MiB
/** Share of a core that a merge beside ingest takes. */
export const MERGE_CPU_SHARE = 0.3
/** Bytes that a merge beside ingest reads and writes in a second. */
export const MERGE_BYTES_PER_S = 50_000_000
/** Smallest rest of a throttled merge: a timer is no finer. */
export const MERGE_REST_MS_MIN = 5
/** Credit that a merge gains from waits for syncs and commits: small merges mostly wait. */
export const MERGE_CREDIT_MS_MAX = 50
/** Wait before the merge thread asks DuckDB again where it has no task yet. */
export const MERGE_IDLE_MS = 1
/** Tasks that an interrupted statement may still run. */
export const MERGE_INTERRUPTED_STEPS_MAX = 1_000
/** Deleted rows that a merge handles between two rests: some 20 ms. */
export const MERGE_SLICE = 65_536
/** Time without a merge after which the thread ends. DuckDB and the key reader give memory back. */
export const MERGE_THREAD_IDLE_MS = 10_000

// ── the index and the catalog ───────────────────────────────────────────────────────────────────

/** LMDB map of the index: address space, not memory. Set large up front. */
export const INDEX_MAP_BYTES = 64 * 1024 * MiB
/** LMDB map of the catalog: address space, not memory. */
export const CATALOG_MAP_BYTES = 4 * 1024 * MiB
/**
 * Bytes of an encoded key part; a longer part is stored as its SHA-256. parse/native/schema.h
 * repeats it.
 */
export const KEY_PART_BYTES_MAX = 200
/**
 * Columns of a key. Eight texts of KEY_PART_BYTES_MAX make a key of 1,608 bytes; a key in LMDB has
 * at most 1,978.
 */
export const KEY_COLUMNS_MAX = 8
/** Footers of orphans that the sweep reads in one turn of the index thread: about 5 ms. */
export const SWEEP_FOOTERS_PER_TURN = 32
/** Index entries read or removed in one step: a few ms per transaction when a pool is dropped. */
export const INDEX_SLICE_ENTRIES = 10_000
/** Bytes of keys of small segments that a rebuild puts into one transaction, which is one sync. */
export const REBUILD_COMMIT_BYTES = 16 * MiB
/** Small segments that a rebuild puts into one transaction. */
export const REBUILD_COMMIT_SEGMENTS = 256
/** Deletion vector entries that the index adds to one segment before it combines the short ones. */
export const DELETION_VECTOR_ENTRIES_MAX = 64
/** Bytes of a short deletion vector entry. Combining reads and writes 64 of them: 2 MiB. */
export const DELETION_VECTOR_MERGE_BYTES_MAX = 32 * KiB
/** Parts of a segment's deletion vector in the manifest; more are read again as one. */
export const DELETION_VECTOR_PARTS_MAX = 64

// ── the query process ───────────────────────────────────────────────────────────────────────────

/** Queries that run at once; the others wait, in turn by application. */
export const QUERIES_RUNNING_MAX = 2
/**
 * Queries that run at once in the penalty process, of all applications there: so none of them dies
 * beside another.
 */
export const PENALTY_RUNNING_MAX = 1
/** Part of the query process's memory that the penalty process has: both fit into P-7. */
export const PENALTY_MEMORY_SHARE = 1 / 2
/** The penalty process ends when it had no query for this long: idle it takes 30 MB of its own. */
export const PENALTY_IDLE_MS = 60_000
/** Time after ready at which the query process starts if no query came: the start goes first. */
export const ENGINE_WARM_MS = 5_000
/**
 * Wait before the query process starts again after its second failure. The first restart is at
 * once, and each further one waits twice as long, up to ENGINE_RESTART_MS_MAX.
 */
export const ENGINE_RESTART_MS_MIN = 100
/** Queries wait for up to QUERY_MS_MAX, so they outlast a few of these. */
export const ENGINE_RESTART_MS_MAX = 10_000
/**
 * A query process that ran for this long without a query failed for a new reason: its restart is at
 * once.
 */
export const ENGINE_STEADY_MS = 60_000
/**
 * Megabytes of JavaScript values in the query process: the rows of two answers, of 2M values each,
 * take 250. A process that needs more aborts, and another one starts.
 */
export const QUERY_HEAP_MIB = 512
/**
 * Bytes of the query process besides the memory of its propellers: Node and the rows of answers,
 * and DuckDB's states that its own limit does not count. Two queries that sorted and grouped 4M
 * rows in two propellers took 260 MiB, and two answers of the largest size 300 MiB.
 */
export const QUERY_OVERHEAD_BYTES = 320 * MiB
/** Bytes of a thread's stack, which the system counts whole. */
export const THREAD_STACK_BYTES = 8 * MiB
/**
 * Bytes of deletion vectors that the query process keeps: 8M deleted rows. Those that do not fit
 * are sent with each query. The native module keeps as many bytes of its own sets; a pool with more
 * is read by joins.
 */
export const DELETION_VECTORS_BYTES_MAX = 32 * MiB
/**
 * DuckDB's memory for the largest propeller; beyond it DuckDB spills to data/tmp. The others have a
 * part of it (query/duckdb/duckdb-limits.ts).
 */
export const QUERY_MEMORY_BYTES = 384 * MiB
/**
 * Bytes that the queries of one propeller spill to data/tmp together; then they fail. A join of
 * large tables could fill the disk otherwise, which ingest needs.
 */
export const QUERY_SPILL_BYTES_MAX = 8 * 1024 * MiB
/**
 * Interval between two looks at the free space of the disk while queries write temporary files.
 * DuckDB wrote 20 to 60 MB in it, on two cores.
 */
export const ROOM_CHECK_MS = 50
/** Rows of DuckDB's chunks. */
export const CHUNK_ROWS = 2_048
/**
 * Time that the text operations of a statement may take for one chunk, at the slowest rates that
 * were measured: DuckDB hears an interrupt only between chunks.
 */
export const CHUNK_WORK_MS_MAX = 2_000
/**
 * Nanoseconds for a byte below which nothing is checked. A scanned chunk is at most a row group, of
 * FLUSH_BYTES: 2 s.
 */
export const CHUNK_WORK_NS_UNCHECKED = 30
/**
 * Bytes of texts that a statement makes of one chunk, in each of DuckDB's threads. DuckDB keeps
 * them outside its memory limit. A row group of FLUSH_BYTES in lower case takes as much.
 */
export const CHUNK_TEXT_BYTES_MAX = 64 * MiB
/** Files, and columns of files, of which the bytes of a chunk are known: some 200 bytes each. */
export const TEXT_LENGTHS_CACHED_MAX = 20_000
/** Cached column lists, one per pool and schema version. */
export const SCHEMAS_CACHED_MAX = 4_096

// ── exported rows ───────────────────────────────────────────────────────────────────────────────

/**
 * Rows of segments that are copied together; a larger segment is copied in ranges. The smallest
 * propeller copies so many payloads of 450 bytes in about a second, of the ten that it has.
 */
export const EXPORT_GROUP_ROWS = 262_144
/** Files that are copied together: DuckDB opens all of them. */
export const EXPORT_GROUP_FILES = 256
/** Rows of an Arrow record batch. */
export const EXPORT_BATCH_ROWS = 16_384
/** Approximate bytes of an Arrow record batch, which has at least one row of up to a body. */
export const EXPORT_BATCH_BYTES = 8 * MiB
/** Time for a copy of a job or of a command: that of one group or segment. */
export const EXPORT_COPY_MS_MAX = 120_000
/**
 * Compressed bytes of a row group in an exported Parquet file, besides ROW_GROUP_ROWS. Each DuckDB
 * thread holds about ten times that. A row group has at least 2,048 rows, DuckDB's minimum.
 */
export const EXPORT_ROW_GROUP_BYTES = 4 * MiB
/** Time for a whole export as Parquet, which is one statement. */
export const EXPORT_FILE_MS_MAX = 24 * 3_600_000
/** Time for the copy of a Parquet file that is downloaded: it takes the place of a query. */
export const EXPORT_DOWNLOAD_MS_MAX = 600_000
/** Bytes of a file that go to standard output, or to a socket, at once. */
export const EXPORT_PIECE_BYTES = 1 * MiB
/** Interval at which the size of an export is checked for its progress. */
export const PROGRESS_CHECK_MS = 250

// ── backup ──────────────────────────────────────────────────────────────────────────────────────

/** Bytes a second that a backup of a running server copies, so that ingest does not suffer. */
export const BACKUP_BYTES_PER_SECOND = 64 * MiB
/** Bytes copied at once. The thread hears of a stop between two chunks. */
export const BACKUP_CHUNK_BYTES = 1 * MiB
/** Bytes written between two syncs: the log's sync queues behind them. */
export const BACKUP_SYNC_BYTES = 8 * MiB
/** Time for a client to begin to read a backup's answer; then the backup ends. */
export const BACKUP_BEGIN_MS_MAX = 10_000
/** Time for the flushes before a backup. Rows that are not flushed then are copied from the log. */
export const BACKUP_FLUSH_MS_MAX = 30_000
/** Interval of progress lines, at least. A waiting backup writes one each second. */
export const BACKUP_PROGRESS_MS = 250
/** Bytes of a line of a running backup's answer; a longer line does not come from Weir. */
export const BACKUP_LINE_BYTES_MAX = 1 * MiB
/** Bytes of the file BACKUP, which is parsed in memory: 150 a file, so over a million segments. */
export const BACKUP_FILE_BYTES_MAX = 256 * MiB

// ── checks of segments ──────────────────────────────────────────────────────────────────────────

/** Bytes that a check reads between two turns of its thread: some 15 ms. */
export const CHECK_TURN_BYTES = 16 * MiB
/** Time without a check after which the thread ends. It gives its memory back. */
export const CHECK_THREAD_IDLE_MS = 10_000
/** Time after ready at which the scrub begins: a start, and the queries after it, go first. */
export const SCRUB_BEGIN_MS = 60_000
/** Time in which the scrub reads every file once. */
export const SCRUB_PASS_MS = 7 * 24 * 3_600_000
/**
 * Bytes a second that the scrub reads at least, 4 % of what a slow disk gives. Above 2.4 TiB it
 * reads faster, to end in time.
 */
export const SCRUB_BYTES_PER_S_MIN = 4 * MiB

// ── metrics ─────────────────────────────────────────────────────────────────────────────────────

/**
 * Lines of weir_events_total (pool, result, code). Further pools are counted together as `other`.
 */
export const METRIC_SERIES_MAX = 10_000
/** Syncs that wait until they are sorted into the histogram: about 0.2 ms of work. */
export const METRIC_SYNCS_HELD = 256
/** Applications with lines of their own about waiting queries. Further ones are `other`. */
export const METRIC_APPLICATIONS_MAX = 100
/** Pools with a compaction debt of their own on the page: those with the largest. */
export const METRIC_DEBT_POOLS_MAX = 20
/** Running jobs with lines of their own about their progress: the oldest ones. */
export const METRIC_JOBS_MAX = 20

// ── commands ────────────────────────────────────────────────────────────────────────────────────

/** Tries of an import that brings no row further; then the command gives up. */
export const IMPORT_TRIES_MAX = 12
/** Wait before the second try; each further one waits twice as long, up to IMPORT_WAIT_MS_MAX. */
export const IMPORT_WAIT_MS_MIN = 500
export const IMPORT_WAIT_MS_MAX = 15_000
/** Bytes at the beginning and at the end of a file that tell it from others. */
export const FINGERPRINT_BYTES = 1 * MiB
/** Interval of a command's progress lines where standard error is no terminal. */
export const PROGRESS_LINE_MS = 5_000
/** Time for a command on a stopped folder to flush what it replayed. The log still has the rows. */
export const OFFLINE_FLUSH_MS_MAX = 600_000
/** Time for a command to clean up after Ctrl-C; then it ends as a crash would. */
export const INTERRUPT_MS_MAX = 5_000
/** Bytes of a segment whose checksum `weir inspect` checks; of larger ones it checks the footer. */
export const INSPECT_CHECKSUM_BYTES = 256 * KiB
/** Pools that a message about an unknown pool names. */
export const POOLS_NAMED_MAX = 10
/**
 * Jobs in one answer of the admin route, and ids that one request names: 180 kB, which the main
 * thread writes in a millisecond. As many ids fit into ROUTE_BODY_BYTES_MAX.
 */
export const JOBS_LISTED_MAX = 400
/** Interval at which `weir jobs --follow` asks. A job's progress changes as often. */
export const FOLLOW_POLL_MS = 1_000
/** Time for an answer to `weir jobs --follow`; then the server is asked again. */
export const FOLLOW_ANSWER_MS_MAX = 30_000
/** Time for which `weir jobs --follow` waits for a server that does not answer. */
export const FOLLOW_LOST_MS_MAX = 600_000
/** Bars that `weir jobs --follow` draws. Further jobs are counted. */
export const FOLLOW_BARS_MAX = 10
/** Time for the process that reads a whole index to see whether it is damaged. */
export const PROBE_MS_MAX = 3_600_000
/** Findings that `weir verify` prints one by one; it counts further ones. */
export const FINDINGS_TOLD_MAX = 1_000

// ── threads and the process ─────────────────────────────────────────────────────────────────────

/**
 * Nice value of the flush and index threads. A higher value is a smaller share, so acks go first.
 */
export const BACKGROUND_NICE = 5
/** Nice value of threads that run queries or encode rows: acks, flushes and the index go first. */
export const QUERY_NICE = 7
/** Nice value of the merge thread: everything else goes first. */
export const MERGE_NICE = 10
/**
 * Time for all threads of libuv's pool to set their nice value at the start. It takes about 1 ms.
 */
export const NICE_POOL_MS_MAX = 2_000
/** Time from SIGTERM to exit. */
export const STOP_MS_MAX = 10_000
/** Time in which a second signal is a copy of the first, which npm forwarded. */
export const SIGNAL_ECHO_MS = 300
/** Bytes of the file FORMAT: `weir`, a number of any likely length, a line break. */
export const FORMAT_FILE_BYTES_MAX = 64
/** Bytes of a file that is read as a whole. Log and delete files are much smaller. */
export const WHOLE_FILE_BYTES_MAX = 2 * 1024 * MiB

// ═════ How the limits fit together ═══════════════════════════════════════════════════════════════

assert(BODY_BYTES_MAX + 256 <= SLAB_BYTES, 'a slab holds the largest body with its record header')
assert(
  AUTHORIZATION_CHARACTERS_MAX >= 'Basic '.length + 4 * Math.ceil((2 * CREDENTIAL_BYTES_MAX + 1) / 3),
  'a header holds the longest credentials',
)
assert(
  PARSE_TASK_GATHERED_REQUESTS <= PARSE_TASK_REQUESTS_MAX &&
    PARSE_TASK_GATHERED_BYTES <= PARSE_TASK_BYTES_MAX,
  'gathered requests are one parse task',
)
assert(HTTP_REQUEST_MS_MAX > BODY_MS_MAX + WAIT_MS_MAX, 'node:http lets a slow body wait for room')
assert(GRAPHQL_REQUESTS_MAX + GUESSES_WAITING_MAX < CONTROL_REQUESTS_MAX, 'tokens have places')
assert(GUESSES_WAITING_MAX <= UPLOADS_BEGINNING_MAX / 2, 'guessed secrets leave places to uploads')
assert(
  IMPORTS_MAX * IMPORT_BATCHES_MAX <= (SLABS_MAX - SLABS_SMALL_MIN) / 3,
  'imports leave slabs to other clients',
)
assert(SLABS_SMALL_MIN < SLABS_MAX, 'large bodies have slabs too')
assert(GROUP_BYTES_MAX >= SLAB_BYTES, 'a group holds a slab')
assert(LOG_FILE_BYTES >= 2 * GROUP_BYTES_MAX, 'a log file holds a group')
assert(LOG_FILE_BYTES_MIN >= 2 * SLAB_BYTES, 'the smallest log file holds a slab')
assert(
  COMPACTION_COMMIT_ROWS_FLOOR >= COMPACT_INPUTS_MAX * COMPACT_ROWS_FLOOR,
  'the smallest segments are merged at any cost',
)
assert(FLUSH_ROWS_MAX <= COMPACT_ROWS_MAX / 2, 'a merge takes several flushes')
assert(
  COMPACT_FAN_IN <= COMPACT_RUN_MAX && COMPACT_FAN_IN <= COMPACT_INPUTS_MAX,
  'a full tier fits in a merge',
)
assert(FLUSH_INDEX_MS_MIN < FLUSH_INDEX_MS_MAX, 'a flush that is full again is not made smaller at once')
assert(FLUSH_SMALLER_MS_MIN < FLUSH_SMALLER_MS_MAX / 2, 'a flush of half the size is not made larger at once')
assert(FLUSH_BYTES * FLUSHES_MAX <= MEMTABLE_BYTES_MAX, 'the running flushes fit in the memtable')
assert(FLUSH_BYTES <= MEMTABLE_WAITING_BYTES_MAX, 'a memtable fills before it is flushed for its memory')
