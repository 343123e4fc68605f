/**
 * The maximums that several files share, and those of clients, each with its reason and what
 * happens beyond it. A bound of one file stands at that file's head.
 *
 * W-9: nothing between admission and ack is unbounded. A queue, buffer, loop or wait without a
 * constant is a bug.
 */
import { assert } from './errors.ts'

export const KiB = 1024
export const MiB = 1024 * KiB

// ═════ Part 1: limits that clients see ═══════════════════════════════════════════════════════════

// ── ingest ──────────────────────────────────────────────────────────────────────────────────────

/** Bytes of a decoded body; more are 413: the protocol's limit. Also in parse/native/schema.h. */
export const BODY_BYTES_MAX = 1_048_320
/** Events in a body; more are 413: the protocol's limit. Also in parse/native/schema.h. */
export const EVENTS_MAX = 500
/** JSON containers open at once; more are 400. It keeps stacks small. Also in schema.h. */
export const DEPTH_MAX = 1024
/** Time between the end of dropping and the close of the connection: the client sees the 413. */
export const DRAIN_GRACE_MS = 1_000
/**
 * Time from a body's first byte to its last; a slower body is 408 and the connection closes. Before
 * the first byte uWebSockets.js closes the connection after 8 to 12 s.
 */
export const BODY_MS_MAX = 60_000
/** A slower body gets 408 while another request wants its space. Mobile links send 20 kB/s. */
export const BODY_BYTES_PER_SECOND_MIN = 16 * KiB
/** Time for a client to read an answer; then the connection closes. */
export const ANSWER_MS_MAX = 10_000
/** Time for which a request waits for room; then it is 429 with Retry-After. */
export const WAIT_MS_MAX = 5_000
/** Bytes of a body of other routes, such as a backup's folder (a path: 4 KiB); more is 413. */
export const ROUTE_BODY_BYTES_MAX = 16 * KiB
/**
 * Bytes of a request's head; more is 431. This is Node's default. uWebSockets.js takes more of a
 * head that comes in one piece.
 */
export const HTTP_HEAD_BYTES_MAX = 16 * KiB
/** Over node:http: time for a request's head; then 408. uWebSockets.js closes after 8 to 12 s. */
export const HTTP_HEAD_MS_MAX = 10_000
/** Over node:http: time for a whole request; then 408. It exceeds BODY_MS_MAX plus WAIT_MS_MAX. */
export const HTTP_REQUEST_MS_MAX = 75_000
/**
 * Over node:http: time between two requests of a connection, where --keep-alive says nothing else;
 * then it closes. Most balancers keep theirs for 60 s, and should be the first to close.
 */
export const HTTP_IDLE_MS_MAX = 75_000

// ── pools and applications ──────────────────────────────────────────────────────────────────────

/** Unpacked columns of a pool; more are BAD_REQUEST. */
export const COLUMNS_MAX = 500
/** Bytes of a column's name in UTF-8. */
export const COLUMN_NAME_BYTES_MAX = 128
/** Bytes of a column's jsonProperty in UTF-8: each message about a bad event repeats it. */
export const JSON_PROPERTY_BYTES_MAX = 1_024
/** Bytes of a webhook's user name, and of its password, in UTF-8: headers are short. */
export const CREDENTIAL_BYTES_MAX = 1_024
/** Characters of an `Authorization` header. Two credentials in base64 take 2,738. */
export const AUTHORIZATION_CHARACTERS_MAX = 4 * KiB
/** Dimensions of a metric: as many as a pool has columns. */
export const METRIC_DIMENSIONS_MAX = COLUMNS_MAX
/** Access policies of one pool: a reader looks through them. */
export const POLICIES_PER_POOL_MAX = 1_000
/** Bytes of an SQL text of a caller, such as filterSql. Parsing the worst one takes 50 ms. */
export const SQL_TEXT_BYTES_MAX = 16 * KiB
/** Random bytes of a new secret. */
export const SECRET_BYTES = 32
/**
 * Time in which a sender may hand over its secret after an operator asked for it: whoever knows the
 * URL could do so. The operator creates the webhook at the sender meanwhile.
 */
export const HANDSHAKE_MS = 300_000
/** Jobs that have not ended, in shares of applications; one more is BAD_REQUEST. */
export const JOBS_UNFINISHED_MAX = 2_000
/** Ended jobs that the catalog keeps. The one that ended first goes first. */
export const JOBS_ENDED_MAX = 10_000
/** Characters of a secret or the /metrics token, at least. A shorter word is soon guessed. */
export const CLIENT_SECRET_CHARACTERS_MIN = 16
/** Time for which a token is valid. Clients fetch a new one before. */
export const TOKEN_SECONDS = 3_600
/** Bytes of a token request's body. The longest valid one has 2 KiB. */
export const TOKEN_BODY_BYTES_MAX = 16 * KiB
/** Fields of a token request's form. Five have a meaning; the others are ignored. */
export const TOKEN_FIELDS_MAX = 64
/** Verified tokens in memory, with AUTHORIZATION_CHARACTERS_MAX at most; they have 300. */
export const TOKENS_REMEMBERED_MAX = 2_048
/**
 * A token from a later moment is refused, unless the clock was set back by less than this. Nodes of
 * a cluster take each other's tokens, and their clocks are apart.
 */
export const TOKEN_CLOCK_STEP_SECONDS = 300

// ── queries and GraphQL ─────────────────────────────────────────────────────────────────────────

/** Time for a query of the largest propellers; then it is interrupted. */
export const QUERY_MS_MAX = 30_000
/**
 * Time for a query to end after its interrupt or after its client has gone; then its process is
 * replaced. DuckDB hears an interrupt between chunks only, and none while it plans.
 */
export const QUERY_END_MS_MAX = 2_000
/** Time for which an application stays in the penalty process: longer than a dashboard's round. */
export const PENALTY_MS = 600_000
/**
 * Bytes of memory of the queries that wait, which applications share (shares.ts); an application
 * that has used up its share gets UNAVAILABLE.
 */
export const QUERIES_WAITING_BYTES_MAX = 128 * MiB
/** Filters of a query, nested ones included. */
export const FILTERS_MAX = 500
/** Nesting of a query's filters. */
export const FILTER_DEPTH_MAX = 32
/** Characters of a LIKE pattern but for `%text%`. A search takes up to as many times the text. */
export const LIKE_PATTERN_CHARACTERS_MAX = 1_000
/** Characters of a regular expression, as often as they are repeated: 10 ns each for a byte. */
export const REGEX_SIZE_MAX = 500
/** Patterns of a query that become regular expressions, of 8 MB in each of its threads. */
export const LIKE_PATTERNS_MAX = 16
/** Different values that the statistics of a dimension list. */
export const UNIQUE_VALUES_MAX = 1_000
/** Values that `topValues` lists, and where the query does not say how many. */
export const TOP_VALUES_MAX = 1_000
export const TOP_VALUES_DEFAULT = 10
/** Values of an answer, counted before its lists are resolved: 1 to 2 µs each. */
export const GRAPHQL_VALUES_MAX = 100_000
/** Characters of all values of an answer; more are BAD_REQUEST. The main thread writes them. */
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
/** Intervals of months or years whose begins stand in the statement as values to compare. */
export const TIME_SERIES_LISTED_MAX = 600
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
/** Words of a statement that begin a part, such as SELECT, FROM and JOIN. */
export const STATEMENT_WORDS_MAX = 256
/** SELECTs of a statement, in its WITH clauses and subqueries too. */
export const STATEMENT_SELECTS_MAX = 32
/** Tables that a statement names after FROM and JOIN. Each takes a scan of its segments. */
export const STATEMENT_TABLES_MAX = 16
/** Nodes of the tree of a statement in DuckDB's own SQL: a text of 16 KiB has 8,000 at most. */
export const STATEMENT_NODES_MAX = 10_000
/** Their nesting: a sum of so many values nests as deep. DuckDB's own limit is 1,000. */
export const STATEMENT_DEPTH_MAX = 300
/** Tables that it reads, those inside of a table of WITH once for each time that it is named. */
export const STATEMENT_READS_MAX = 64
/** Rows of a statement's answer; more is BAD_REQUEST. */
export const STATEMENT_ROWS_MAX = 10_000
/**
 * Rows of a statement's answer that streams, if the client does not say how many; more is
 * BAD_REQUEST. A notebook holds so many, and a statement that lacks a condition ends soon.
 */
export const STREAM_ROWS_DEFAULT = 1_000_000
/** Rows that a client may ask for. DuckDB copies some 10M narrow rows in the time of a query. */
export const STREAM_ROWS_MAX = 10_000_000
/** SQL texts that wait for the parser, in shares of applications; beyond a share UNAVAILABLE. */
export const EXPRESSIONS_PARSING_MAX = 1_024
/** Characters of all SQL texts whose trees are cached. A tree takes some 30 bytes for each. */
export const EXPRESSIONS_CACHED_CHARACTERS = 256 * KiB
/** Fragments of a document. Each may spread the next, and walking them recurses this deep. */
export const GRAPHQL_FRAGMENTS_MAX = 200
/** Characters of an object's name in the audit trail: those of an id or of any unique name. */
export const AUDIT_ID_CHARACTERS_MAX = 256
/** Bytes of a GraphQL body. A pool of COLUMNS_MAX columns with the longest names has 611,000. */
export const GRAPHQL_BODY_BYTES_MAX = 640 * KiB
/** Tokens of a document. COLUMNS_MAX columns or FILTERS_MAX filters take 7,000. */
export const GRAPHQL_TOKENS_MAX = 10_000
/** Brackets open at once in a document or in variables. It keeps the parser's stack small. */
export const GRAPHQL_NESTING_MAX = 256

// ═════ Part 2: tuning values ═════════════════════════════════════════════════════════════════════

// ── admission ───────────────────────────────────────────────────────────────────────────────────

/** Bytes of a slab: bodies and record headers between admission and ack. It holds any body. */
export const SLAB_BYTES = 2 * MiB
/** Slabs in use at once, 128 MiB; beyond it requests wait. */
export const SLABS_MAX = 64
/** Slabs that only small bodies may take, so that slow uploads of large bodies never stop them. */
export const SLABS_SMALL_MIN = 16
/** First chunks of requests that wait for a slab or the memtable; beyond it 429 at once. */
export const WAITING_BYTES_MAX = 128 * MiB
/** Requests that wait at once; beyond it 429 at once. */
export const WAITING_REQUESTS_MAX = 4096
/** Interval at which the timer of uWebSockets.js is set again, which closes slow connections. */
export const BODY_WAIT_ON_MS = 3_000

// ── imports ─────────────────────────────────────────────────────────────────────────────────────

/** Imports at once; others wait, then 503. Each has a thread and some 8 MiB. */
export const IMPORTS_MAX = 4
/** Uploads whose caller is being identified, guessed secrets too; one more is 503. */
export const UPLOADS_BEGINNING_MAX = 128
/**
 * Batches of an import between its thread and the answer of ingest: while one is synced, the next
 * ones are parsed. They take at most a third of the slabs for large bodies.
 */
export const IMPORT_BATCHES_MAX = 4
/** Bytes of a row as JSON: it fits into a body with its brackets. A longer row is refused. */
export const IMPORT_ROW_BYTES_MAX = BODY_BYTES_MAX - 2
/** Free bytes of the disk that Parquet bodies, spilled rows and copies leave to the log. */
export const SPOOL_FREE_BYTES_MIN = 1024 * MiB
/** DuckDB's memory for one Parquet body: a row group of each column. Larger ones are refused. */
export const PARQUET_MEMORY_BYTES = 512 * MiB
/** Refused rows that the answer lists if the client does not say how many. */
export const IMPORT_ERRORS_DEFAULT = 100
/** Refused rows that a client may ask for. Each takes some 200 bytes until the end. */
export const IMPORT_ERRORS_MAX = 10_000
/** Chunks of an upload are gathered into pieces of this size. */
export const UPLOAD_PIECE_BYTES = 256 * KiB

// ── connections ─────────────────────────────────────────────────────────────────────────────────

/**
 * File descriptors that are not for connections. An idle server on two cores has 52, and each parse
 * worker takes 5. 30 queries, 8 streams, a backup and merges took 61 more.
 */
export const DESCRIPTORS_RESERVED = 200
/** Connections at once, whatever RLIMIT_NOFILE says: each may hold 4 KiB of an incomplete head. */
export const CONNECTIONS_MAX = 10_000
/** Characters of an answer that fits in CORK_BYTES with its head, whatever UTF-8 makes of it. */
export const SMALL_ANSWER_LENGTH = 4 * KiB
/** Over node:http: interval at which the times of heads and requests are checked. */
export const HTTP_CHECK_MS = 2_000
/** Over node:http: bytes of a waiting request's body that are read ahead, besides 64 KiB. */
export const HTTP_UNREAD_BODY_BYTES = 16 * KiB
/** Over node:http: requests behind an unanswered one of their connection; one more closes it. */
export const HTTP_PIPELINED_MAX = 64

// ── control requests ────────────────────────────────────────────────────────────────────────────

/**
 * Bytes of complete GraphQL, token and other control requests without an answer; beyond it 503.
 * Each route has bounds of its own below this, so no route keeps out another one.
 */
export const CONTROL_BYTES_MAX = 192 * MiB
/** Bytes that a control request is counted with, besides its body: socket, head and promises. */
export const CONTROL_REQUEST_BYTES = 8 * KiB
/** Bytes of GraphQL requests from their tokens to their answers, as estimated; beyond it 429. */
export const GRAPHQL_BYTES_MAX = 256 * MiB
/** Bytes that a GraphQL request is counted with, besides its body, document and rows. */
export const GRAPHQL_REQUEST_BYTES = 32 * KiB
/** Bytes of the body and its values, for each byte of the body. */
export const GRAPHQL_BYTES_PER_BODY_BYTE = 8
export const GRAPHQL_BYTES_PER_TOKEN = 256

// ── guessed secrets ─────────────────────────────────────────────────────────────────────────────

/** Secrets of all applications that wait; one more is refused. Other requests keep their slots. */
export const GUESSES_WAITING_MAX = 64

// ── streaming answers ───────────────────────────────────────────────────────────────────────────

/**
 * Time after which a stream gives its slot to one that waits, if its client took less than
 * STREAM_BYTES_PER_SECOND_MIN meanwhile. A full socket reports room when a third of it, up to
 * 1.3 MiB, is free again: in this time a reader of 140 kB/s makes that much room. A slower one may
 * look idle although it reads (seen with 20 and 100 kB/s).
 */
export const STREAM_IDLE_MS = 10_000
/** Bytes that uWebSockets.js gathers of one corked write. */
export const CORK_BYTES = 16 * KiB
/** Bytes handed to a socket that was full. Node's client took 2 MB/s of small chunks. */
export const STREAM_BACKED_BYTES = 256 * KiB

// ── parse ───────────────────────────────────────────────────────────────────────────────────────

/** Bytes of bodies in a parse task: long enough to pay for its 60 µs, short enough to share. */
export const PARSE_TASK_BYTES_MAX = 512 * KiB
/** Requests in a parse task. */
export const PARSE_TASK_REQUESTS_MAX = 256
/** Bytes of the batches of a parse task, by batchBytesMax(). One request goes whatever it takes. */
export const BATCH_BYTES_MAX = 8 * MiB
/** Batches from the start of their parse to their last answer; more requests gather in slabs. */
export const BATCHES_UNDER_WAY_MAX = 64
/** Requests that gather while a task of small bodies is parsed (docs/decisions/0018). */
export const PARSE_TASK_GATHERED_REQUESTS = 32
/** Bytes that gather while a task of small bodies is parsed. */
export const PARSE_TASK_GATHERED_BYTES = 64 * KiB
/** Jobs that run at once, each on another pool, in shares of applications. More wait. */
export const JOBS_RUNNING_MAX = 4

// ── the log ─────────────────────────────────────────────────────────────────────────────────────

/** Bytes of the largest log file. The log begins with smaller ones. */
export const LOG_FILE_BYTES = 64 * MiB
/** Bytes of the first log files and of those in a backup. One holds the largest append. */
export const LOG_FILE_BYTES_MIN = 4 * MiB
/** Bytes of a group, which is written and synced at once. It keeps a sync below about 10 ms. */
export const GROUP_BYTES_MAX = 8 * MiB
/** Bytes queued for the log: slabs, and inflated bodies beside them. Asserted, never reached. */
export const LOG_QUEUED_BYTES_MAX = 4 * SLABS_MAX * SLAB_BYTES
/** Spare log files, recycled ones included; at this number old log files are removed instead. */
export const SPARE_FILES_MAX = 8
/** Interval at which Weir tries again while the disk is full. */
export const DISK_RETRY_MS = 1_000

// ── memtable and flush ──────────────────────────────────────────────────────────────────────────

/** Bytes of unflushed batches of all pools, running flushes included; beyond it requests wait. */
export const MEMTABLE_BYTES_MAX = 192 * MiB
/** Bytes of all memtables above which the largest are flushed first, so that a burst finds room. */
export const MEMTABLE_WAITING_BYTES_MAX = MEMTABLE_BYTES_MAX / 2
/** Rows of a full memtable. A full memtable is flushed. */
export const FLUSH_ROWS = 131_072
/** Bytes of a full memtable. */
export const FLUSH_BYTES = 64 * MiB
/**
 * Log bytes written since the oldest row at which a memtable is flushed; each pool uses its share.
 * A start reads the log above the lowest unflushed sequence twice: 8 files take 0.5 s, and each
 * record 0.5 µs each time, which is 1.4 s for single events of 450 bytes. Half of this limit would
 * double the small flushes of thousands of pools beside one under full load, which reaches the
 * limit in 2 to 7 s.
 */
export const LOG_UNFLUSHED_BYTES = 512 * MiB
/** Rows of one flush, with those of recent flushes that it writes again. */
const FLUSH_ROWS_MAX = 2 * FLUSH_ROWS
/** Rows of a small segment that the next flush may write again (recent-flushes.ts). */
export const RECENT_FLUSH_ROWS_MAX = 98_304
/** Bytes of the recent flushes of all pools. */
export const RECENT_FLUSH_BYTES_MAX = 64 * MiB
/** Full flushes of all pools at once: one writes Parquet, one is in the index, one waits. */
export const FLUSHES_MAX = 3
/** Small flushes that may run in place of a full one, with one log sync and index transaction. */
export const FLUSHES_SMALL = 16
/** Rows of a Parquet row group: small enough to prune, large enough to compress. */
export const ROW_GROUP_ROWS = 65_536

// ── picking compactions ─────────────────────────────────────────────────────────────────────────

/**
 * Rows of a merge, deleted ones included. Its keys are in memory and in one transaction of the
 * index. A merge of 917k rows reached 849 MB resident, one of 229k rows 359 MB.
 */
export const COMPACT_ROWS_MAX = 524_288
/**
 * Rows that one merge may always take; else segments of small flushes would stay for ever. The
 * commit takes 1.5 s where each key changes a page of its own.
 */
export const COMPACTION_COMMIT_ROWS_FLOOR = 32_768
/** Segments of a merge. It bounds open files and the time to inspect a pool. */
export const COMPACT_INPUTS_MAX = 32
/** Small neighbours that are worth a merge. A row is written again about log₄ n times. */
export const COMPACT_FAN_IN = 4
/** Rows that a smaller segment counts as: below it a merge costs the same. */
export const COMPACT_ROWS_FLOOR = 1_024
/** Adjacent small segments that stay unmerged. Of more, the cheapest window is merged. */
export const COMPACT_RUN_MAX = 32

// ── the index and the catalog ───────────────────────────────────────────────────────────────────

/** Index entries read or removed in one step: a few ms per transaction when a pool is dropped. */
export const INDEX_SLICE_ENTRIES = 10_000

// ── the query process ───────────────────────────────────────────────────────────────────────────

/**
 * Queries that run at once at least; the others wait, in turn by application. On more than five
 * cores more do (query/duckdb/duckdb-limits.ts).
 */
export const QUERIES_RUNNING_MIN = 2
/**
 * Bytes of a waiting query besides its texts and segments: its plan, and its part of a document and
 * of the answer. 600 counters took 28.9 kB each, 1,816 time series 30.3.
 */
export const QUERY_WAITING_BYTES_MIN = 32 * KiB
/** One more may run while all have run for this long, and only for this long (query-turns.ts). */
export const QUERY_SHORT_MS = 1_000
/** Queries that run at once in the penalty process: none dies beside another. */
export const PENALTY_RUNNING_MAX = 1
/** DuckDB's memory for the largest propeller (duckdb-limits.ts). Beyond it DuckDB spills. */
export const QUERY_MEMORY_BYTES = 384 * MiB
/** Rows of DuckDB's chunks. */
export const CHUNK_ROWS = 2_048
/**
 * Bytes of texts that a statement makes of one chunk, in each of DuckDB's threads. DuckDB keeps
 * them outside its memory limit. A row group of FLUSH_BYTES in lower case takes as much.
 */
export const CHUNK_TEXT_BYTES_MAX = 64 * MiB

// ── exported rows ───────────────────────────────────────────────────────────────────────────────

/** Time for a copy of a job or of a command: that of one group or segment. */
export const EXPORT_COPY_MS_MAX = 120_000
/** Rows of an Arrow record batch. */
export const EXPORT_BATCH_ROWS = 16_384
/** Approximate bytes of an Arrow record batch, which has at least one row of up to a body. */
export const EXPORT_BATCH_BYTES = 8 * MiB
/** Bytes of a file that go to standard output, or to a socket, at once. */
export const EXPORT_PIECE_BYTES = 1 * MiB

// ── a cluster ───────────────────────────────────────────────────────────────────────────────────

/** A request waits for no longer for its INSERT: its client has its own limit. */
export const INSERT_MS_MAX = 15_000
/** No row is sent later after it began to take its version (see purge-tombstones.ts). */
export const INSERT_SENT_MS_MAX = 30_000

// ── backup ──────────────────────────────────────────────────────────────────────────────────────

/** Bytes copied at once. The thread hears of a stop between two chunks. */
export const BACKUP_CHUNK_BYTES = 1 * MiB

// ── checks of segments ──────────────────────────────────────────────────────────────────────────

/** Time after ready at which the scrub begins: a start, and the queries after it, go first. */
export const SCRUB_BEGIN_MS = 60_000

// ── metrics ─────────────────────────────────────────────────────────────────────────────────────

/** Applications with lines of their own about waiting queries. Further ones are `other`. */
export const METRIC_APPLICATIONS_MAX = 100
/** Pools with a compaction debt of their own on the page: those with the largest. */
export const METRIC_DEBT_POOLS_MAX = 20

// ── commands ────────────────────────────────────────────────────────────────────────────────────

/** Jobs in one answer, and ids in one request, of the admin route. The answer has 180 kB. */
export const JOBS_LISTED_MAX = 400

// ── threads and the process ─────────────────────────────────────────────────────────────────────

/** Nice value of the flush and index threads: acks go first. */
export const BACKGROUND_NICE = 5
/** Nice value of threads that run queries or encode rows: acks, flushes and the index go first. */
export const QUERY_NICE = 7

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
assert(
  GRAPHQL_BYTES_MAX / Math.min(GRAPHQL_REQUEST_BYTES / CONTROL_REQUEST_BYTES, GRAPHQL_BYTES_PER_BODY_BYTE) +
    GUESSES_WAITING_MAX * (GRAPHQL_BODY_BYTES_MAX + CONTROL_REQUEST_BYTES) <=
    (5 / 6) * CONTROL_BYTES_MAX,
  'GraphQL and guessed secrets leave room to other control requests',
)
assert(GUESSES_WAITING_MAX <= UPLOADS_BEGINNING_MAX / 2, 'guessed secrets leave slots to uploads')
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
assert(FLUSH_BYTES * FLUSHES_MAX <= MEMTABLE_BYTES_MAX, 'the running flushes fit in the memtable')
assert(FLUSH_BYTES <= MEMTABLE_WAITING_BYTES_MAX, 'a memtable fills before it is flushed for its memory')
