/** What the head of an import's request asks for: the format, the encoding, and the parameters. */
import {
  ENCODINGS,
  type Encoding,
  IMPORT_FORMATS,
  type ImportFormat,
  type ImportOptions,
} from '../../parse/import/import-types.ts'
import { NAMED_BY, type Naming } from '../../parse/import/naming.ts'
import type { Refusal } from '../../util/errors.ts'
import { IMPORT_ERRORS_DEFAULT, IMPORT_ERRORS_MAX } from '../../util/limits.ts'
import type { RequestHead } from '../http/transport.ts'
import { unknownEncoding } from '../ingest/admission.ts'
import { readParameters, shown } from '../parameters.ts'
import { refuse } from '../problem.ts'

const IMPORT_LABEL_CHARACTERS_MAX = 256

export interface ImportRequest extends Omit<ImportOptions, 'columns' | 'spoolFile'> {
  /** A text of the client, by which it finds the import again. */
  readonly label: string
  /** The parameters of `naming`, as a client gives them; empty without any. */
  readonly mapping: string
}

const MEDIA: Readonly<Record<string, ImportFormat>> = {
  'application/x-ndjson': 'ndjson',
  'application/ndjson': 'ndjson',
  'application/jsonl': 'ndjson',
  'application/x-jsonlines': 'ndjson',
  'text/csv': 'csv',
  'application/vnd.apache.parquet': 'parquet',
  'application/x-parquet': 'parquet',
}

export function readImportRequest(head: RequestHead): ImportRequest | Refusal {
  const encoding = encodingOf(head)
  if (encoding === undefined) return unknownEncoding(head, `one of ${ENCODINGS.join(', ')}`)
  const given = parametersOf(head.query)
  if ('status' in given) return given
  const contentType = head.header('content-type')
  const format = given.format ?? formatOf(contentType)
  return format === undefined ? unknownType(contentType) : { ...given, format, encoding }
}

const FORMATS_WANTED =
  'give the format: ?format=ndjson, csv or parquet, or the Content-Type application/x-ndjson, text/csv or application/vnd.apache.parquet'

function unknownType(contentType: string): Refusal {
  const found = contentType === '' ? '' : `; the Content-Type is "${shown(contentType)}"`
  return refuse(415, 'unsupported_media_type', `${FORMATS_WANTED}${found}`, {
    accept: 'application/x-ndjson, text/csv, application/vnd.apache.parquet',
  })
}

function encodingOf(head: RequestHead): Encoding | undefined {
  const text = head.header('content-encoding').trim().toLowerCase()
  if (text === '') return 'identity'
  if (head.headerCount('content-encoding') > 1) return undefined
  return ENCODINGS.find(encoding => encoding === text)
}

function formatOf(contentType: string): ImportFormat | undefined {
  const media = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return Object.hasOwn(MEDIA, media) ? MEDIA[media] : undefined
}

function parametersOf(query: string) {
  const texts = readParameters(query, NAMES, 'map')
  if (typeof texts === 'string') return badParameter(texts)
  const skipRows = countOf(texts.get('skipRows'), 0, Number.MAX_SAFE_INTEGER)
  if (skipRows === undefined) return badParameter('skipRows: it is a number of rows, such as 1000')
  const errorsMax = countOf(texts.get('errorsMax'), IMPORT_ERRORS_DEFAULT, IMPORT_ERRORS_MAX)
  if (errorsMax === undefined) return badParameter(`errorsMax: it is a number up to ${IMPORT_ERRORS_MAX}`)
  const label = texts.get('label') ?? ''
  if (label.length > IMPORT_LABEL_CHARACTERS_MAX)
    return badParameter(`label: it has at most ${IMPORT_LABEL_CHARACTERS_MAX} characters`)
  const text = texts.get('format')
  const format = IMPORT_FORMATS.find(one => one === text)
  if (text !== undefined && format === undefined)
    return badParameter(`format: it is one of ${IMPORT_FORMATS.join(', ')}`)
  const naming = namingOf(texts, new URLSearchParams(query).getAll('map'))
  if (typeof naming === 'string') return badParameter(naming)
  return { skipRows, errorsMax, label, format, naming, mapping: mappingOf(naming) }
}

const NAMES: readonly string[] = ['format', 'skipRows', 'errorsMax', 'label', 'by', 'map', 'ignoreUnknown']

/** The naming that parameters ask for, or what is wrong. @param maps `field=column` each */
function namingOf(texts: ReadonlyMap<string, string>, maps: readonly string[]): Naming | string {
  const text = texts.get('by')
  const by = NAMED_BY.find(one => one === text)
  if (text !== undefined && by === undefined) return `by: it is one of ${NAMED_BY.join(', ')}`
  const ignore = texts.get('ignoreUnknown') ?? 'false'
  if (!Object.hasOwn(FLAGS, ignore)) return 'ignoreUnknown: it is true or false'
  const map = new Map<string, string>()
  for (const pair of maps) {
    // Names of columns hardly hold the sign; a header may.
    const at = pair.lastIndexOf('=')
    const field = pair.slice(0, Math.max(0, at))
    if (at < 0) return `map: it is a field of the file, = and a column, such as Amount=amount`
    if (map.has(field)) return `map: the field "${shown(field)}" is given more than once`
    map.set(field, pair.slice(at + 1))
  }
  return { ...(by === undefined ? {} : { by }), map: [...map], ignoreUnknown: FLAGS[ignore] === true }
}

const FLAGS: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/** The parameters that give this naming again. */
function mappingOf({ by, map, ignoreUnknown }: Naming): string {
  const parameters = new URLSearchParams()
  for (const [field, name] of map) parameters.append('map', `${field}=${name}`)
  if (by !== undefined) parameters.append('by', by)
  if (ignoreUnknown) parameters.append('ignoreUnknown', 'true')
  return parameters.toString()
}

/** The number in `text`; undefined where it is none from 0 to `max`. */
function countOf(text: string | undefined, absent: number, max: number): number | undefined {
  if (text === undefined) return absent
  const count = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return count <= max ? count : undefined
}

function badParameter(message: string): Refusal {
  return refuse(400, 'bad_parameter', message)
}
