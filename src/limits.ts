/**
 * Every maximum of Weir, each with its reason and what happens beyond it. W-9: nothing between admission
 * and ack is unbounded. No queue, buffer, loop or wait without a line here.
 */
import { assert } from './util/assert.ts'

const KiB = 1024
const MiB = 1024 * KiB

// ── one request ──────────────────────────────────────────────────────────────────────────────────────

/** Decoded body. The protocol's own limit; larger is 413. */
export const BODY_BYTES_MAX = 1_048_320
/** Events in one body. The protocol's own limit; more is 413. */
export const EVENTS_MAX = 500
/** Open JSON containers at once; deeper is 400. Keeps both kernels' stacks small. */
export const DEPTH_MAX = 1024
/** A GraphQL or token request body; larger is 413. */
export const CONTROL_BODY_BYTES_MAX = 1 * MiB
/** After a 413 this much more is read and dropped, so that a client sees the answer and not a reset. */
export const DRAIN_BYTES_MAX = 8 * MiB
/** … and for no longer than this. */
export const DRAIN_MS_MAX = 5_000
/** A connection that was drained to its limit is read no more, and closes this much later: time to see the 413. */
export const DRAIN_GRACE_MS = 1_000
/** A body that is not complete so long after its first byte is given up: 408, connection closed. (Without any byte uWebSockets.js
 *  closes the connection after 8 to 12 s.) */
export const BODY_MS_MAX = 60_000
/** Of a body that comes with less than 16 KiB/s uWebSockets.js closes the connection after 8 to 12 s, without an answer. That time
 *  is begun anew this often: who sends on has BODY_MS_MAX, and its place by STALLED_MS. */
export const BODY_WAIT_ON_MS = 3_000

/** An answer that its client does not read is given up after this: connection closed. */
export const ANSWER_MS_MAX = 10_000
/** A body that is not complete and brought nothing for so long is given up where another wants its place: 408. */
export const STALLED_MS = 1_000
/** One refusal in so many is the last answer of its connection; see api/unread.ts. */
export const REFUSALS_PER_CLOSE = 64
/** Answers up to so many characters fit in CORK_BYTES with their head, whatever UTF-8 makes of them. */
export const SMALL_ANSWER_LENGTH = 4 * KiB
/** The share of them that asks whether those before are still in memory; at random, so that no client can aim between. One that
 *  reads nothing leaves 16 of them on average, and a thousand once in 10^28 connections. */
export const SMALL_ANSWERS_LOOKED_AT = 1 / 16

/** Faulty events put into words in one turn of the main thread; the answers of further ones take turns. */
export const FAULTS_PER_TURN_MAX = 1_000

// ── a pool ───────────────────────────────────────────────────────────────────────────────────────────

/** Unpacked columns of a pool; more is BAD_REQUEST. */
export const COLUMNS_MAX = 500
/** A column's name in UTF-8. */
export const COLUMN_NAME_BYTES_MAX = 128
/** A column's jsonProperty in UTF-8: each message about a bad event repeats it. */
export const JSON_PROPERTY_BYTES_MAX = 1_024
/** A unique name in UTF-8: it labels metrics and stands in URLs. */
export const UNIQUE_NAME_BYTES_MAX = 256
/** A description in UTF-8: all of the catalog is in memory. */
export const DESCRIPTION_BYTES_MAX = 8_192
/** Each of a webhook's user name and password in UTF-8: headers are short. */
export const CREDENTIAL_BYTES_MAX = 1_024
/** A key part longer than this, encoded, is kept as its SHA-256. Leaves an LMDB key below 511 bytes. */
export const KEY_PART_BYTES_MAX = 200

// ── admission ────────────────────────────────────────────────────────────────────────────────────────

/** One slab: bodies and their record headers between admission and ack. Holds the largest body. */
export const SLAB_BYTES = 2 * MiB
/** Slabs in use at once; beyond it requests wait. 128 MiB. */
export const SLABS_MAX = 64
/** A body up to this size that came in one piece shares a slab with others'. */
export const SMALL_BODY_BYTES_MAX = 64 * KiB
/** First chunks held for requests that wait for a slab or the tail; beyond it 429 at once. */
export const WAITING_BYTES_MAX = 128 * MiB
/** Requests that wait at once; beyond it 429 at once. */
export const WAITING_REQUESTS_MAX = 4096
/** A request waits this long for room, then 429 with Retry-After. */
export const WAIT_MS_MAX = 5_000

/** Slabs that only small bodies may take: slow uploads of large ones never stop them. */
export const SLABS_SMALL_MIN = 16
/** Bytes at a slab's end that no body covers, so that a kernel may read a little beyond the last one. */
export const SLAB_TAIL_BYTES = 64
/** Waits, slow bodies and drained connections are looked at this often: one timer for all of them. */
export const API_TICK_MS = 100
/** GraphQL, token and other control requests under way at once; one more is 503. */
export const CONTROL_REQUESTS_MAX = 256
/** Streaming answers at once; one more is 503. Each may hold a file in data/tmp, chunks and a pinned manifest. */
export const STREAMS_MAX = 8
/** A stream whose client takes nothing for so long is closed: what it pins must not stay for ever. */
export const STREAM_STALL_MS = 60_000
/** The timer that uWebSockets.js sets on a write that did not fit, 8 to 12 s, is begun anew this often; see api/reply.ts. */
export const STREAM_WAIT_ON_MS = 3_000
/** At SIGTERM streams go on for so long, then they are closed without their end. */
export const STREAM_STOP_MS = 2_000
/** What uWebSockets.js gathers of one corked write. */
const CORK_BYTES = 16 * KiB
/** Bytes of a stream handed to the socket at once: what it does not take waits in memory. With its chunk's frame, and the end of
 *  the head before the first one, it must fit in CORK_BYTES; see api/reply.ts. */
export const STREAM_WRITE_BYTES = CORK_BYTES - 256
/** The same, when the socket was full and takes more. Node's client copies what it read once for each chunk while its own
 *  reader is slow: of small ones it took 2 MB/s. */
export const STREAM_BACKED_BYTES = 256 * KiB
/** … and before those so many, which tell whether what waited has gone. */
export const STREAM_PROBE_BYTES = 1 * KiB
/** Bytes of a stream that are made while the socket is full: more than it takes when a third of it (4 MiB at most on Linux)
 *  is free again; see api/stream-ahead.ts. */
export const STREAM_AHEAD_BYTES = 2 * MiB
/** Pools with a rate bucket; beyond it full buckets are forgotten. */
export const RATE_BUCKETS_MAX = 10_000

// ── parse ────────────────────────────────────────────────────────────────────────────────────────────

/** Bodies of one hand-over to a parse worker: long enough to pay for the 60 µs, short enough to share. */
export const JOB_BYTES_MAX = 512 * KiB
/** What the batches of one hand-over may take, by batchBytesMax(); at least one request goes whatever it may take. */
export const BATCH_BYTES_MAX = 8 * MiB
/** Batches between hand-over and tail; at this no further job is handed over. One job may go beyond it. */
export const BATCHES_UNDER_WAY_BYTES_MAX = 96 * MiB
/** Requests of one hand-over. */
export const JOB_REQUESTS_MAX = 256
/** DEFLATE makes at most 1,032 bytes of one (RFC 1951: 258 bytes in two bits). */
export const GZIP_RATIO_MAX = 1032
/** Jobs from hand-over to answer; more requests gather in their slabs. With an inflated body each they hold 64 MiB. */
export const JOBS_UNDER_WAY_MAX = 64
/** Jobs handed over and not answered, per parse worker: one running, one waiting. More requests batch up. */
export const JOBS_PER_WORKER_MAX = 2
/** While a job of small bodies is cut, further ones gather until there are so many requests or bytes: the hand-overs of a smaller
 *  job cost all threads more than its cut (docs/decisions/0018). */
export const JOB_GATHERED_REQUESTS = 32
export const JOB_GATHERED_BYTES = 64 * KiB
/** … or so much that their batches may take: what cannot share a job does not wait for another. */
export const JOB_GATHERED_CUT_BYTES = BATCH_BYTES_MAX / 2
/** Parse workers, whatever the machine has. */
export const PARSE_WORKERS_MAX = 16

/** Batch memory that a parse worker keeps for its next batches; more is left to the garbage collector. */
export const BATCH_SHELF_BYTES_MAX = 24 * MiB

// ── the log ──────────────────────────────────────────────────────────────────────────────────────────

/** One log file, zero-filled or recycled. */
export const LOG_FILE_BYTES = 64 * MiB
/** The smallest that tests may ask for: it still holds what one append may bring. */
export const LOG_FILE_BYTES_MIN = 4 * MiB
/** One group: bytes written and synced together. Keeps one sync below about 10 ms. */
export const GROUP_BYTES_MAX = 8 * MiB
/** Bytes queued for the log: admission's slabs, and inflated bodies beside them. Never reached; asserted. */
export const LOG_QUEUED_BYTES_MAX = 4 * SLABS_MAX * SLAB_BYTES
/** Records that a start cuts again together. Large, so that of thousands of pools that take turns each has several in it: a
 *  pool's become one batch. */
export const REPLAY_CHUNK_BYTES = 16 * MiB
/** Log that a start keeps in memory between checking it and replaying it; more is read twice. Three files: P-7 has room for
 *  them while nothing else is there. */
export const LOG_KEPT_BYTES_MAX = 3 * LOG_FILE_BYTES
/** Empty log files kept ready; one more is made when fewer are left. */
export const SPARE_FILES_MIN = 2
/** Recycled files kept; more are unlinked. */
export const SPARE_FILES_MAX = 8
/** A full disk is tried again this often. */
export const DISK_RETRY_MS = 1_000

// ── tail and seal ────────────────────────────────────────────────────────────────────────────────────

/** Batches of all pools not yet sealed, those of running seals included; beyond it requests wait. */
export const TAIL_BYTES_MAX = 192 * MiB
/** Freed batch memory that waits for jobs: as much as the tail may hold, since all of it may be sealed at once. */
export const FREED_BYTES_MAX = TAIL_BYTES_MAX
/** … and how many buffers go with one job. */
export const FREED_PER_JOB_MAX = 8
/** A pool's tail is sealed at this many rows … */
export const SEAL_ROWS = 131_072
/** … or this many bytes … */
export const SEAL_BYTES = 64 * MiB
/** … or this many batches: handing one to the segment thread costs the main thread about 5 µs each way … */
export const SEAL_ENTRIES = 1_024
/** … or this long after its oldest row, or between half of it and this; each pool has its share (segment/due.ts). P-7 gives a
 *  start 3 s, of which 2,000 pools alone take about 1. 2,000 single events a second leave at most 90,000 to be cut again:
 *  0.3 to 0.5 s (docs/decisions/0016). More of them come due by TAIL_WAITING_BYTES_MAX before … */
export const SEAL_AGE_MS = 60_000
/** … or when so much log was written since its oldest row (a share of it too): the log goes only below the lowest
 *  unsealed sequence of any pool, and a start reads all of it twice: 8 files, 0.5 s, and 0.5 µs a record each time. That is
 *  1.4 s of single events of 450 bytes, and nothing more of full batches. Half of it would double the small seals of
 *  thousands of pools beside one under full load, which reaches it in 2 to 7 s … */
export const LOG_UNSEALED_BYTES = 512 * MiB
/** … or, the largest first, while the tails that wait hold more than this: half of what they may, so that a burst finds room. */
export const TAIL_WAITING_BYTES_MAX = TAIL_BYTES_MAX / 2
/** While the index takes longer than this for a full seal, seals are made smaller (segment/seal-pace.ts) … */
export const SEAL_INDEX_MS_MAX = 1_000
/** … until one takes less than this: readers wait for four or five … */
export const SEAL_SMALLER_MS_MAX = 300
/** … and larger again below this, or where a full one would take less than SEAL_INDEX_MS_MIN: less than half, so that the size
 *  does not swing … */
export const SEAL_SMALLER_MS_MIN = 140
export const SEAL_INDEX_MS_MIN = 480
/** … when for so long none took too long … */
export const SEAL_GROW_MS = 5_000
/** … down to this part: 8,192 rows that each update a page of their own are 0.4 s … */
export const SEAL_SHRINK_MAX = 16
/** … as long as half the size takes less than this part of the time: else it is not the rows that cost … */
export const SEAL_SHRINK_GAIN = 0.8
/** … and then they stay as they are for this long; as long as they are small, they are doubled this often for a try. */
export const SEAL_SHRINK_REST_MS = 20_000
/** Without a full seal of known cost for so long, the next ones are full again. */
export const SEAL_CALM_MS = 60_000
/** The tails are looked at this often for age, log and memory. */
export const SEAL_TICK_MS = 250
/** What a batch in a tail takes beside its bytes: its objects on both sides of V8, as a standalone script measured. */
export const TAIL_ENTRY_BYTES = 1 * KiB
/** Rows of one seal, which may begin with kept rows of a newer small segment. */
const SEAL_ROWS_MAX = 2 * SEAL_ROWS
/** Rows of a small segment that the next seal takes along; see segment/tail.ts. */
export const KEPT_ROWS_MAX = 98_304
/** Batches of a small segment that the next seal takes along, and of that seal with it. */
export const KEPT_ENTRIES_MAX = 2_048
/** Batches kept in memory, of all pools, for seals to take along. */
export const KEPT_BYTES_MAX = 64 * MiB
/** Full seals under way at once, all pools: one in Parquet, one in the index, one waiting. */
export const SEALS_MAX = 3
/** … of which each may be so many small ones instead: they share the log's sync and the index's transaction. */
export const SEALS_SMALL = 16
/** Files of a segment of so many bytes or more are written past the page cache: mostly seals under load; those that readers ask
 *  for, and read at once, are small (decision 0021). */
export const DIRECT_WRITE_BYTES_MIN = 1 * MiB
/** Rows of one Parquet row group. Small enough to prune, large enough to compress. */
export const ROW_GROUP_ROWS = 65_536

// ── compaction ───────────────────────────────────────────────────────────────────────────────────────

/** Rows of one merge, marked ones included: its keys are in memory, and in one transaction of the index. A merge of
 *  917k rows reached 849 MB resident, one of 229k rows 359 MB. */
export const COMPACT_ROWS_MAX = 524_288
/** … and beside ingest as few as the index moves in about this time by what its last transactions took: seals wait for it … */
export const SWAP_MS_MAX = 1_000
/** … while no rows come in this time … */
export const SWAP_MS_ALONE_MAX = 10_000
/** … but so many at least: else segments of small seals stay for ever. 1.5 s where each key updates a page of its own. */
export const SWAP_ROWS_FLOOR = 32_768
/** … and as many before the pool's first transaction says what its keys take: 6 s at the worst … */
export const SWAP_ROWS_UNKNOWN = 4 * SWAP_ROWS_FLOOR
/** … which counts half after this, so that no pool is left alone for ever for what was dear once. */
export const SWAP_COST_MS = 600_000
/** Keys of a transaction from which on its time tells what a key costs: its flush alone takes some milliseconds. */
export const KEY_COST_KEYS_MIN = 4_096
/** Bytes of one merge's inputs. */
export const COMPACT_BYTES_MAX = 512 * MiB
/** Segments that one merge joins: open files, and a bound on what a look at a pool costs. */
export const COMPACT_INPUTS_MAX = 32
/** So many small neighbours are worth a merge: a row is written again about log₄ n times. */
export const COMPACT_FAN_IN = 4
/** A segment with fewer rows counts as this many: below it a merge costs the same whatever its size. */
export const COMPACT_ROWS_FLOOR = 1_024
/** Small segments side by side that no tier joins; at more the cheapest ones are joined whatever their sizes. */
export const COMPACT_RUN_MAX = 32
/** A segment is rewritten when more than this part of its rows is marked. */
export const COMPACT_MARKED_SHARE = 0.25
/** Looks at what there is to merge are this far apart, and so are starts of merges that wait. */
export const COMPACT_TICK_MS = 1_000
/** Pools looked at in one tick: a look takes some 10 µs. The others come with the next ticks … */
export const COMPACT_LOOKS_PER_TICK = 256
/** … and looks of one tick end after this, one of each kind at least: a pool of 10,000 small segments takes some 4 ms. */
export const COMPACT_LOOK_MS_MAX = 4
/** A pool without a seal for so many ticks gives up its kept rows, so that their segments can be merged. */
export const COMPACT_QUIET_TICKS = 60
/** Rows came within this time: merges go beside ingest. Afterwards they take what there is. */
export const COMPACT_INGEST_MS = 5_000
/** No merge starts while the seals under way hold more … */
export const COMPACT_TAIL_BYTES_MAX = TAIL_BYTES_MAX / 4
/** … nor while seals come as fast as the index takes their keys, up to so many small segments: queries read them still … */
export const COMPACT_SLOW_SEGMENTS_MAX = 256
/** … unless one has waited for so long: steady full load must not stop compaction for good. */
export const COMPACT_WAIT_MS_MAX = 60_000
/** After a failed merge the next one comes DISK_RETRY_MS later, then after twice that, up to this. */
export const COMPACT_RETRY_MS_MAX = 60_000
/** Days of retention: a hundred years. More is BAD_REQUEST. */
export const RETENTION_DAYS_MAX = 36_500

// ── the index and the catalog ────────────────────────────────────────────────────────────────────────

/** LMDB maps of the index and of the catalog: address space, not memory. Set large up front. */
export const INDEX_MAP_BYTES = 64 * 1024 * MiB
export const CATALOG_MAP_BYTES = 4 * 1024 * MiB
/** Records read or removed in one step; dropping a pool takes a transaction per step (a few ms). */
export const INDEX_SLICE_RECORDS = 10_000
/** A rebuild puts small segments into one transaction, which is one flush: up to so many bytes of keys … */
export const REBUILD_COMMIT_BYTES = 16 * MiB
/** … or so many segments. */
export const REBUILD_COMMIT_SEGMENTS = 256
/** Mark records that a run of the index adds to one segment before it joins the short ones into one … */
export const MARK_RECORDS_MAX = 64
/** … short: up to this. Longer ones stay, so that a join reads and writes at most 64 of them: 2 MiB. */
export const MARK_RECORD_JOIN_BYTES_MAX = 32 * KiB
/** Lists of marks that the manifest keeps of one segment; at more they are read again as one. */
export const MARK_PARTS_MAX = 64

// ── backup ───────────────────────────────────────────────────────────────────────────────────────────

/** What a backup of a running server copies a second, so that ingest and its syncs do not suffer. A stopped folder: no limit. */
export const BACKUP_BYTES_PER_SECOND = 64 * MiB
/** Bytes copied at once; between pieces the thread hears that it is to stop. */
export const BACKUP_CHUNK_BYTES = 1 * MiB
/** Bytes written between syncs: the log's sync queues behind ours. */
export const BACKUP_SYNC_BYTES = 8 * MiB
/** One file of the log in a backup: the smallest that holds every record. */
export const BACKUP_LOG_FILE_BYTES = LOG_FILE_BYTES_MIN
/** A backup whose answer nobody begins to read is given up after this. */
export const BACKUP_BEGIN_MS_MAX = 10_000
/** The seals before a backup may take this long; what is not sealed then is copied from the log. */
export const BACKUP_SEAL_MS_MAX = 30_000
/** A line of progress at most this often, and at least each second while it waits. */
export const BACKUP_PROGRESS_MS = 250

// ── queries ──────────────────────────────────────────────────────────────────────────────────────────

/** Queries run at once in the query worker; the rest queue by application. */
export const QUERIES_RUNNING_MAX = 2
/** Queries that wait, of all applications; one more is refused (UNAVAILABLE). */
export const QUERIES_WAITING_MAX = 256
/** A query is interrupted after this. */
export const QUERY_MS_MAX = 30_000
/** The query worker is started so long after ready where no query was quicker: until then a start has the processor to itself. */
export const ENGINE_WARM_MS = 5_000
/** DuckDB's memory; beyond it it spills to data/tmp. */
export const QUERY_MEMORY_BYTES = 384 * MiB
/** Marks kept as tables between queries, of all segments: 64 MiB. The longest unused go first. */
export const MARKS_CACHED_MAX = 8_388_608
/** Column lists kept between queries, one per pool and plan version; beyond it they are read again. */
export const SCHEMAS_CACHED_MAX = 4_096
/** Filters of one query, nested ones counted, and how deep they nest. */
export const FILTERS_MAX = 500
export const FILTER_DEPTH_MAX = 32
/** A LIKE pattern that is more than a text with `%` after or before it: a search takes up to this times the length of what is searched. */
export const LIKE_PATTERN_CHARACTERS_MAX = 1_000
/** Patterns of one query that become regular expressions: each may take RE2's 8 MB in each of its threads, outside of DuckDB's memory. */
export const LIKE_PATTERNS_MAX = 16
/** GraphQL: fields of one document after fragments are spread, and their nesting. Validation compares fields in pairs. */
export const GRAPHQL_FIELDS_MAX = 2_000
export const GRAPHQL_DEPTH_MAX = 24
/** GraphQL: fragments of one document. Each may spread the next: what walks them recurses this deep. */
export const GRAPHQL_FRAGMENTS_MAX = 200
/** GraphQL: values of one answer, as counted before its lists are resolved. Each takes 1 to 2 µs of the main thread. */
export const GRAPHQL_VALUES_MAX = 100_000
/** GraphQL: metric queries of one request, each planned on the main thread. Dashboards send some 25 at once; more than QUERIES_WAITING_MAX could not wait. */
export const GRAPHQL_QUERIES_MAX = 200
/** GraphQL: inputs of all metric queries of one request as JSON. Filters are planned on the main thread, some 0.1 s for all of this. */
export const GRAPHQL_INPUT_CHARACTERS_MAX = 4 * MiB

/** GraphQL: tokens of one document (500 columns or filters written out take 7,000), and brackets open at once in document or variables. Keep the parser's stack small. */
export const GRAPHQL_TOKENS_MAX = 20_000
export const GRAPHQL_NESTING_MAX = 256
/** Checked documents kept, the least recently used going first: dashboards send the same few over and over. */
export const GRAPHQL_DOCUMENTS_KEPT = 128
/** A longer document is not kept. */
export const GRAPHQL_KEPT_CHARACTERS_MAX = 32 * KiB
/** A token is valid this long; clients fetch a new one before. */
export const TOKEN_SECONDS = 3_600

// ── rows that leave ──────────────────────────────────────────────────────────────────────────────────

/** Segments copied together on their way out: at most so many rows … */
export const EXPORT_GROUP_ROWS = 262_144
/** … and files, DuckDB opens all of a copy; a larger segment is copied alone. */
export const EXPORT_GROUP_FILES = 256
/** Rows of one Arrow record batch … */
export const EXPORT_BATCH_ROWS = 16_384
/** … and about its bytes. At least one row, which may be as large as a body. */
export const EXPORT_BATCH_BYTES = 8 * MiB
/** A copy of one group is interrupted after this. */
export const EXPORT_COPY_MS_MAX = 120_000
/** Row groups of an exported Parquet file: up to ROW_GROUP_ROWS and this many bytes as the segments hold them, compressed;
 *  DuckDB holds some tenfold of it, per thread. Never below 2,048 rows, its least. */
export const EXPORT_ROW_GROUP_BYTES = 4 * MiB
/** … and the whole export as Parquet, which is one statement, after this. */
export const EXPORT_FILE_MS_MAX = 24 * 3_600_000
/** A file goes to standard output in pieces of this. */
export const EXPORT_PIECE_BYTES = 1 * MiB
/** How much of a file is written is looked at this often. */
export const PROGRESS_LOOK_MS = 250

// ── metrics ──────────────────────────────────────────────────────────────────────────────────────────

/** Lines of weir_events_total (pool, result, code); pools beyond it are counted together as `other`. */
export const METRIC_SERIES_MAX = 10_000
/** Syncs that wait to be sorted into the histogram, or until the page is read: some 0.2 ms of work. */
export const METRIC_SYNCS_HELD = 256
/** Pools whose own debt is on the page: those with the most. A line for each of thousands would say less. */
export const METRIC_DEBT_POOLS_MAX = 20

// ── commands ─────────────────────────────────────────────────────────────────────────────────────────

/** Progress of a command is a line so often where standard error is no terminal. */
export const PROGRESS_LINE_MS = 5_000
/** A command on a stopped folder gives up sealing what it replayed after this: the log has it still. */
export const OFFLINE_SEAL_MS_MAX = 600_000

/** After Ctrl-C a command that cannot put away what it holds in this time leaves it as a crash would. */
export const INTERRUPT_MS_MAX = 5_000
/** `weir inspect` checks segments up to this size by the checksum of all their bytes, larger ones by their footer. */
export const INSPECT_CHECKSUM_BYTES = 256 * KiB
/** Pools that a message about an unknown one names: an operator sees a mistyped name, not a page. */
export const POOLS_NAMED_MAX = 10
/** A process that reads a whole index, in case it is damaged, is given up after this. */
export const PROBE_MS_MAX = 3_600_000
/** Findings of `weir verify` that are told one by one; further ones are counted. */
export const FINDINGS_TOLD_MAX = 1_000

// ── threads ────────────────────────────────────────────────────────────────────────────────────────────

/** Nice value of the seal and index threads: a higher one is a smaller share of the processor, so acks go first. */
export const BACKGROUND_NICE = 5

// ── the merge thread ─────────────────────────────────────────────────────────────────────────────────

/** DuckDB's memory in a merge; beyond it the sort spills to data/tmp. It holds 1M rows of 400 bytes, spilled. */
export const MERGE_MEMORY_BYTES = 256 * MiB
/** … of a merge whose rows are too long for that: one row group of its inputs, read and written, at a time. */
export const MERGE_MEMORY_BYTES_MAX = 512 * MiB
/** A merge of at most so much, stored and uncompressed, leaves its DuckDB open for the next one. */
export const MERGE_KEPT_BYTES_MAX = 16 * MiB
/** Rows longer than this on average are not sorted: DuckDB takes 2,048 of them from its sort at once. */
export const MERGE_SORTED_ROW_BYTES_MAX = 32 * KiB
/** Values of one row group that a merge writes: its writer and the next merge's reader hold one, uncompressed. */
export const MERGE_GROUP_BYTES = 16 * MiB
/** A merge's file is copied to its place in pieces, each synced: a log sync waits for one piece at most. */
export const MERGE_PIECE_BYTES = 4 * MiB
/** Part of a core that a merge beside ingest takes at most … */
export const MERGE_CPU_SHARE = 0.3
/** … and bytes that it reads and writes in a second. */
export const MERGE_BYTES_PER_S = 50_000_000
/** A merge rests when it owes at least this much: a timer is no finer. */
export const MERGE_REST_MS_MIN = 5
/** Waits for syncs and swaps pay for the steps after them, up to this: small merges mostly wait. */
export const MERGE_SAVED_MS_MAX = 50
/** DuckDB has nothing to do yet, or frees what was interrupted: asked again after this … */
export const MERGE_IDLE_MS = 1
/** … and as often as this after an interrupt. */
export const MERGE_INTERRUPTED_STEPS_MAX = 1_000
/** Marks, deletes or keys handled between two looks at the pace: some 20 ms. */
export const MERGE_SLICE = 65_536
/** Nice value of the merge thread: seals and the index go first. */
export const MERGE_NICE = 10
/** The merge thread ends when no merge came for so long: DuckDB and the key reader give their memory back. */
export const MERGE_THREAD_IDLE_MS = 10_000

// ── stopping ─────────────────────────────────────────────────────────────────────────────────────────

/** SIGTERM to exit. */
export const STOP_MS_MAX = 10_000
/** A signal this soon after another is the same one, passed on by npm. */
export const SIGNAL_ECHO_MS = 300
/** The seals under way when sealing is given up: part of STOP_MS_MAX. */
export const SEALS_END_MS_MAX = 1_000

assert(BODY_BYTES_MAX + 256 <= SLAB_BYTES, 'a slab holds the largest body with its record header')
assert(
  JOB_GATHERED_REQUESTS <= JOB_REQUESTS_MAX && JOB_GATHERED_BYTES <= JOB_BYTES_MAX,
  'what gathered is one job',
)
assert(SLABS_SMALL_MIN < SLABS_MAX, 'large bodies have slabs too')
assert(GROUP_BYTES_MAX >= SLAB_BYTES, 'a group holds a slab')
assert(LOG_FILE_BYTES >= 2 * GROUP_BYTES_MAX, 'a log file holds a group')
assert(LOG_FILE_BYTES_MIN >= 2 * SLAB_BYTES, 'the smallest log file holds a slab')
assert(
  SWAP_ROWS_FLOOR >= COMPACT_INPUTS_MAX * COMPACT_ROWS_FLOOR,
  'the smallest segments are merged at any cost',
)
assert(SEAL_ROWS_MAX <= COMPACT_ROWS_MAX / 2, 'a merge takes several seals')
assert(
  COMPACT_FAN_IN <= COMPACT_RUN_MAX && COMPACT_FAN_IN <= COMPACT_INPUTS_MAX,
  'a full tier fits in a merge',
)
assert(SEAL_INDEX_MS_MIN < SEAL_INDEX_MS_MAX, 'a seal that is full again is not made smaller at once')
assert(SEAL_SMALLER_MS_MIN < SEAL_SMALLER_MS_MAX / 2, 'a seal of half the size is not made larger at once')
assert(SEAL_BYTES * SEALS_MAX <= TAIL_BYTES_MAX, 'the seals under way fit in the tail')
assert(SEAL_BYTES <= TAIL_WAITING_BYTES_MAX, 'a tail fills before it is sealed for its memory')
