/**
 * `weir import <pool> <file…>`: gives files to a running server, one after another, and prints the
 * rows that it refused.
 *
 * The server knows how far an import is durable, by a label that the command makes of the file. So
 * the command goes on after a restart of the server, and after its own end with --resume. Rows
 * between the durable ones and the end may be sent twice: in pools with both key columns they
 * change nothing.
 */
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportJob } from '../api/openapi/components.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { disk, withFile } from '../util/disk.ts'
import { CannotRun, must } from '../util/errors.ts'
import { IMPORT_ERRORS_DEFAULT, IMPORT_ERRORS_MAX, MiB } from '../util/limits.ts'
import { note, printable, say } from '../util/say.ts'
import { withProgress } from './progress.ts'
import { authorizationOf, baseOf, DEFAULT_URL } from './running-server.ts'
import { countText } from './text-tables.ts'
import { type ImportAnswer, type ImportedFile, listImports, type Server, upload } from './upload.ts'

/** Tries of an import that brings no row further; then the command gives up. */
const IMPORT_TRIES_MAX = 12
/** Wait before the second try; each further one waits twice as long, up to IMPORT_WAIT_MS_MAX. */
const IMPORT_WAIT_MS_MIN = 500
const IMPORT_WAIT_MS_MAX = 15_000
/** Bytes at the beginning and at the end of a file that tell it from others. */
const FINGERPRINT_BYTES = 1 * MiB

interface Options {
  readonly server: Server
  readonly pool: string
  readonly format: string | undefined
  readonly resume: boolean
  readonly errorsMax: number
  /** The parameters of the request that name columns. */
  readonly mapping: string
}

/** A file on its way to the server. */
interface Source extends ImportedFile {
  readonly name: string
}

/** The sums of all tries of one file. */
interface Sum {
  accepted: number
  rejected: number
  listed: number
  /** The fields and columns without each other are told. */
  isCompared: boolean
  /** Imports that are counted already, or belong to earlier runs of the command. */
  readonly seen: Set<string>
}

/** Runs `weir import`. The exit code is 1 where rows were refused. */
export async function importFiles({ config, positionals, flags }: CommandInput): Promise<number> {
  const [pool = '', ...files] = positionals
  const options: Options = {
    server: { base: baseOf(flags.get('url') ?? DEFAULT_URL), authorization: authorizationOf(config) },
    pool,
    format: formatFlag(flags.get('format')),
    resume: flags.has('resume'),
    errorsMax: errorsFlag(flags.get('errors-max')),
    mapping: mappingOf(flags),
  }
  if (files.filter(file => file === '-').length > 1)
    throw new CannotRun('standard input is one file: give - once')
  const sources = files.map(file => sourceOf(file, options)) // a mistake is found before anything is sent
  let refused = 0
  for (const source of sources) refused += await importOne(source, options)
  return refused === 0 ? CLEAN : DAMAGED
}

const FORMATS: Readonly<Record<string, string>> = {
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  json: 'ndjson',
  csv: 'csv',
  parquet: 'parquet',
}

function formatFlag(text: string | undefined): string | undefined {
  if (text === undefined || ['ndjson', 'csv', 'parquet'].includes(text)) return text
  throw new CannotRun(`--format is one of ndjson, csv, parquet, not "${text}"`)
}

/** The parameters of the request, in the order in which the server keeps them. */
function mappingOf(flags: CommandInput['flags']): string {
  const pairs = flags.get('map')?.split('\n') ?? []
  const parameters = new URLSearchParams()
  for (const pair of pairs) parameters.append('map', pair)
  const by = flags.get('by')
  if (by !== undefined) parameters.append('by', by)
  if (flags.has('ignore-unknown')) parameters.append('ignoreUnknown', 'true')
  return parameters.toString()
}

function errorsFlag(text: string | undefined): number {
  if (text === undefined) return IMPORT_ERRORS_DEFAULT
  if (/^\d{1,5}$/.test(text) && Number(text) <= IMPORT_ERRORS_MAX) return Number(text)
  throw new CannotRun(`--errors-max is a number up to ${IMPORT_ERRORS_MAX}, not "${text}"`)
}

function sourceOf(file: string, { format, resume }: Options): Source {
  if (file === '-') {
    if (resume) throw new CannotRun('--resume needs a file: standard input cannot be read again')
    const name = 'standard input'
    return {
      name,
      path: undefined,
      bytes: undefined,
      format: format ?? 'ndjson',
      encoding: 'identity',
      label: '',
    }
  }
  const match = /^(.*?)(?:\.(gz|zst))?$/s.exec(basename(file).toLowerCase())
  const plain = match?.[1] ?? ''
  const extension = plain.includes('.') ? plain.slice(plain.lastIndexOf('.') + 1) : ''
  const known = format ?? (Object.hasOwn(FORMATS, extension) ? FORMATS[extension] : undefined)
  if (known === undefined)
    throw new CannotRun(`${file}: its name does not say its format: give --format ndjson, csv or parquet`)
  const encoding = { gz: 'gzip', zst: 'zstd' }[match?.[2] ?? ''] ?? 'identity'
  const { bytes, label } = fingerprint(file)
  return { name: printable(file), path: file, bytes, format: known, encoding, label }
}

/** The length of a file, and a text that tells it from others, whatever its name. */
function fingerprint(path: string): { readonly bytes: number; readonly label: string } {
  try {
    return withFile(disk, path, 'r', file => {
      const bytes = disk.size(path)
      const hash = createHash('sha256').update(String(bytes))
      const part = new Uint8Array(FINGERPRINT_BYTES)
      for (const position of [0, Math.max(0, bytes - FINGERPRINT_BYTES)])
        hash.update(part.subarray(0, disk.read(file, part, position)))
      return { bytes, label: `sha256:${hash.digest('hex')}` }
    })
  } catch (error) {
    throw new CannotRun(`${path} cannot be read: ${(error as Error).message}`)
  }
}

/** Imports one file. Returns the number of refused rows. */
async function importOne(source: Source, options: Options): Promise<number> {
  // Asked without --resume too: it fails at once where no server answers, and earlier imports of
  // this file are not taken for this one.
  const earlier = await listImports(options.server, options.pool, source)
  const sum: Sum = {
    accepted: 0,
    rejected: 0,
    listed: 0,
    isCompared: false,
    seen: new Set(earlier.map(({ id }) => id)),
  }
  const known = options.resume ? await endedImport(source, options) : undefined
  if (known?.status === 'SUCCEEDED') {
    say(`${source.name}: imported already, ${countText(known.rows)} rows`)
    return 0
  }
  const skipped = known?.durableRows ?? 0
  if (skipped > 0) note(`${source.name}: resumes behind ${countText(skipped)} rows`)
  const mapping = skipped > 0 ? resumedMapping(source, options, known?.mapping ?? '') : options.mapping
  const rows = await sendUntilDone(source, { ...options, mapping }, sum, skipped)
  const others = skipped > 0 ? `, ${countText(skipped)} left out` : ''
  say(
    `${source.name}: ${countText(rows)} rows: ${countText(sum.accepted)} stored, ${countText(sum.rejected)} refused${others}`,
  )
  if (sum.rejected > sum.listed)
    note(`${source.name}: ${countText(sum.rejected - sum.listed)} further refused rows are not listed`)
  return sum.rejected
}

/** The mapping of the rows that are durable, which the others get too. @throws CannotRun */
function resumedMapping({ name }: Source, { mapping }: Options, known: string): string {
  if (mapping === '' || mapping === known) return known
  const before =
    known === '' ? 'without --by, --map and --ignore-unknown' : `with ${decodeURIComponent(known)}`
  throw new CannotRun(
    `${name}: its first rows were imported ${before}: leave these flags out to resume, or import it without --resume`,
  )
}

/** Sends the file until the server has all of it. Returns its rows. */
async function sendUntilDone(source: Source, options: Options, sum: Sum, skipRows: number): Promise<number> {
  let durable = skipRows
  for (let tries = 1; ; tries += 1) {
    const answer = await sendOnce(source, options, durable)
    if ('status' in answer) {
      add(source, sum, answer)
      if (answer.status === 200) return answer.rows
    }
    const why = printable('status' in answer ? answer.detail : answer.lost)
    const isFinal = 'status' in answer && !answer.retryable
    if (isFinal || source.path === undefined || tries >= IMPORT_TRIES_MAX)
      throw new CannotRun(
        `${source.name}: ${why}${source.path === undefined || isFinal ? '' : '; go on later with --resume'}`,
      )
    note(`${source.name}: ${why}; it is tried again`)
    await sleep(Math.min(IMPORT_WAIT_MS_MAX, IMPORT_WAIT_MS_MIN * 2 ** (tries - 1)))
    const reached = 'status' in answer ? answer.durableRows : await durableAfterLoss(source, options, sum)
    if (reached > durable) tries = 0
    durable = Math.max(durable, reached)
  }
}

async function sendOnce(source: Source, options: Options, skipRows: number) {
  return await withProgress(`importing ${source.name}`, progress =>
    upload(options.server, {
      ...{ ...source, pool: options.pool, skipRows, errorsMax: options.errorsMax, mapping: options.mapping },
      onBytes: bytes =>
        progress.step(Math.ceil(bytes / MiB), Math.ceil((source.bytes ?? bytes) / MiB), 'MiB'),
    }),
  )
}

/** Counts an answer, and prints its refused rows and what it says of the fields. */
function add({ name }: Source, sum: Sum, answer: ImportAnswer): void {
  const { import: id, accepted, rejected, refused } = answer
  sum.accepted += accepted
  sum.rejected += rejected
  sum.listed += refused.length
  sum.seen.add(id)
  for (const { line, code, message } of refused) note(printable(`${name}:${line}: ${code}: ${message}`))
  tellFields(name, sum, answer)
}

/** Names that a line lists. */
const NAMES_TOLD_MAX = 10

/** Prints the fields and the columns of the first answer that have no counterpart. */
function tellFields(name: string, sum: Sum, { unknownFields, unfilledColumns }: ImportAnswer): void {
  if (sum.isCompared || unknownFields.length + unfilledColumns.length === 0) return
  sum.isCompared = true
  const near = unknownFields.filter(({ column }) => column !== null)
  for (const { field, column } of near.slice(0, NAMES_TOLD_MAX))
    note(printable(`${name}: "${field}" is no column, "${column}" may be meant: ${wayOf(field, column)}`))
  const others = unknownFields.filter(({ column }) => column === null).map(({ field }) => field)
  if (others.length > 0) note(`${name}: no columns, and kept in the payload alone: ${listOf(others)}`)
  if (unfilledColumns.length > 0) note(`${name}: nothing filled the columns: ${listOf(unfilledColumns)}`)
}

function wayOf(field: string, column: string | null): string {
  return field === column ? '--by column' : `--map ${JSON.stringify(`${field}=${column}`)}`
}

function listOf(names: readonly string[]): string {
  const more = names.length > NAMES_TOLD_MAX ? ` and ${countText(names.length - NAMES_TOLD_MAX)} more` : ''
  return `${printable(names.slice(0, NAMES_TOLD_MAX).join(', '))}${more}`
}

/** Another client loads the file, or the server has not ended the last import of it. */
class UnderWay extends CannotRun {}

/** The rows that are durable after the connection was lost; 0 where the server cannot tell yet. */
async function durableAfterLoss(source: Source, options: Options, sum: Sum): Promise<number> {
  try {
    const known = await endedImport(source, options)
    if (known === undefined || sum.seen.has(known.id)) return 0
    sum.seen.add(known.id)
    sum.accepted += known.accepted
    sum.rejected += known.rejected
    return known.durableRows
  } catch (error) {
    if (error instanceof UnderWay) throw error
    if (error instanceof CannotRun) return 0 // the server is not there: the next try says so
    throw error
  }
}

/** The newest import of the file. Waits until the server has noticed the end of the last one. */
async function endedImport(source: Source, { server, pool }: Options): Promise<ImportJob | undefined> {
  for (let tries = 1; ; tries += 1) {
    const [newest] = await listImports(server, pool, source)
    if (newest?.status !== 'IN_PROGRESS' && newest?.status !== 'CREATED') return newest
    if (tries >= IMPORT_TRIES_MAX)
      throw new UnderWay(`${source.name}: an import of this file is under way: ${must(newest.id, 'its id')}`)
    await sleep(Math.min(IMPORT_WAIT_MS_MAX, IMPORT_WAIT_MS_MIN * 2 ** (tries - 1)))
  }
}
