/**
 * `weir sources`: webhooks and their senders. With --url it asks a running server; without it it
 * reads or changes a stopped folder. `presets` and `infer` need neither.
 */

import { createReadStream } from 'node:fs'
import { flagsOf, SOURCE_SETTINGS } from '../api/openapi/admin-requests.ts'
import { PRESET_NAMES, PRESETS, presetNamed, presetSteps } from '../catalog/presets.ts'
import { CLEAN, type CommandInput } from '../database/command.ts'
import type { Config } from '../database/config.ts'
import { inferColumns, type Proposal } from '../parse/infer/infer.ts'
import { INFER_BYTES_MAX, readSamples } from '../parse/infer/samples.ts'
import { localUrl } from '../util/addresses.ts'
import { CannotRun, must } from '../util/errors.ts'
import { likelyName } from '../util/misspelt.ts'
import { printable, say } from '../util/say.ts'
import { askCatalog, checked } from './ask-catalog.ts'
import { manageSources, type ShownSource, type SourcesRequest } from './manage-sources.ts'
import { pairLines, tableLines } from './text-tables.ts'

const ACTIONS = ['list', 'show', 'create', 'modify', 'handshake', 'presets', 'infer']

/** Runs `weir sources`. */
export async function sources(input: CommandInput): Promise<number> {
  const { positionals, flags } = input
  const [action = '', name = ''] = positionals
  if (!ACTIONS.includes(action))
    throw new CannotRun(`weir sources takes ${ACTIONS.join(', ')}, not "${action}"`)
  if (action === 'presets') return showPresets(name, flags.has('json'))
  if (action === 'infer') return await infer(name, flags.has('json'))
  // The server that takes the handshake must hear of it.
  if (action === 'handshake' && !flags.has('url'))
    throw new CannotRun('a handshake needs a running server: give --url, its address')
  const managed = manageSources(webhookUrlOf(input.config))
  const request = checked(managed.read(await requestOf(action, name, flags)))
  const answer = await askCatalog(input, managed, request)
  if (flags.has('json')) say(JSON.stringify(answer, null, 2))
  else for (const line of linesOf(request, answer)) say(line)
  return CLEAN
}

/** The URL of a webhook of a stopped folder. A running server knows its own. */
function webhookUrlOf({ publicUrl, host, port }: Config): (webhookId: string) => string {
  return webhookId => `${publicUrl === '' ? localUrl(host, port) : publicUrl}/v1/${webhookId}`
}

/** What a flag gives, by the name of its value. Others give their text. */
const VALUES: Readonly<Record<string, (text: string) => unknown>> = {
  '': () => true,
  NAME: constantOf,
  'a,b': namesIn,
}

/** The request as the flags say it, still to be read. */
async function requestOf(action: string, source: string, flags: ReadonlyMap<string, string>) {
  const settings = Object.entries(SOURCE_SETTINGS).flatMap(([field, schema]) =>
    flagsOf(schema).flatMap(({ flag, value }) => {
      const text = flags.get(flag)
      return text === undefined || value === 'file' ? [] : [[field, VALUES[value]?.(text) ?? text] as const]
    }),
  )
  const columns = await columnsOf(flags.get('columns'))
  const secrets = await secretsOf(flags)
  return { action, source, ...columns, ...Object.fromEntries(settings), ...(secrets && { secrets }) }
}

/** As the API spells constants: MICROSOFT_GRAPH for microsoft-graph. */
function constantOf(text: string): string {
  return text.toUpperCase().replaceAll('-', '_')
}

function namesIn(list: string): string[] {
  return list
    .split(',')
    .map(name => constantOf(name.trim()))
    .filter(name => name !== '')
}

async function secretsOf(flags: ReadonlyMap<string, string>): Promise<readonly string[] | undefined> {
  const [secret, file] = [flags.get('secret'), flags.get('secret-file')]
  if (secret !== undefined && file !== undefined)
    throw new CannotRun('give --secret or --secret-file, not both')
  if (file === undefined) return secret === undefined ? undefined : [secret]
  const secrets = Buffer.from(await readSmallFile(file, SECRET_FILE_BYTES_MAX))
    .toString('utf8')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  if (secrets.length === 0) throw new CannotRun(`${file} has no secret: it has one on each line`)
  return secrets
}

/** More than all secrets of a source have. */
const SECRET_FILE_BYTES_MAX = 16_384
/** As bodies of GraphQL, which hold the columns of a source elsewhere. */
const COLUMNS_FILE_BYTES_MAX = 655_360

/** A file of columns: a list, or what `weir sources infer --json` prints. */
async function columnsOf(file: string | undefined): Promise<object> {
  if (file === undefined) return {}
  const read = await readJsonFile(file, COLUMNS_FILE_BYTES_MAX)
  if (Array.isArray(read)) return { columns: read }
  const { columns, timestamp, uniqueId, tableSettings } = read as {
    readonly [field: string]: unknown
    readonly tableSettings?: { readonly orderBy?: unknown } | null
  }
  if (columns === undefined)
    throw new CannotRun(`${file} has no columns: it is a list of columns, or has a field "columns"`)
  const given = { columns, timestamp, uniqueId, orderBy: tableSettings?.orderBy }
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined && value !== null),
  )
}

function linesOf({ action, unsigned }: SourcesRequest, answer: readonly ShownSource[]): readonly string[] {
  if (action === 'list') return listLines(answer)
  const source = must(answer[0], 'the source')
  const name = printable(source.uniqueName)
  if (action === 'create')
    return [`source ${name} created`, ...sourceLines(source), ...stepLines(source), ...unsignedLines(source)]
  if (action === 'modify')
    return [
      `source ${name} changed`,
      ...sourceLines(source),
      ...(unsigned === true ? ['it takes unsigned requests from now on'] : []),
    ]
  if (action === 'handshake')
    return [
      `source ${name} takes over a secret from its sender until ${source.handshakeUntil}`,
      ...stepLines(source),
    ]
  return sourceLines(source)
}

function listLines(all: readonly ShownSource[]): string[] {
  return tableLines(all, [
    ['source', one => one.id],
    ['name', one => one.uniqueName],
    ['type', one => one.type],
    ['preset', one => one.preset ?? '-'],
    ['url', one => one.webhookUrl ?? '-'],
  ])
}

function sourceLines(source: ShownSource): string[] {
  const { secretCount = 0, secrets = [], accept = [], columns = [], key = [], verifyToken } = source
  const count = secretCount === 1 ? '1 secret' : `${secretCount} secrets`
  return pairLines([
    ['id', source.id],
    ['name', source.uniqueName],
    ['url', source.webhookUrl ?? '-'],
    ['preset', source.preset ?? '-'],
    ['signature', source.scheme ? `${source.scheme}, ${count}` : '- (unsigned requests are taken)'],
    ...secrets.map(secret => ['secret', secret] as const),
    ...(verifyToken ? [['verify token', verifyToken] as const] : []),
    ['accept', accept.length === 0 ? '-' : accept.join(',')],
    ['events path', source.eventsPath ?? '-'],
    ['envelope', source.keepEnvelope === true ? 'kept' : '-'],
    ['key', key.length === 0 ? '- (every event is a record of its own)' : key.join(', ')],
    ['columns', columns.map(({ name }) => name).join(', ') || '-'],
  ])
}

/** What to enter at the sender of a source with a preset. */
function stepLines({ preset: name, webhookUrl, secrets = [], verifyToken }: ShownSource): string[] {
  const preset = presetNamed(name)
  if (preset === undefined || webhookUrl === null) return []
  const steps = presetSteps(preset, webhookUrl, secrets[0] ?? '(none)', verifyToken ?? '')
  return ['', `at ${preset.title}:`, ...numbered(steps), '', preset.delivery]
}

/** The next step where the sender signs and the source does not know its secret yet. */
function unsignedLines({ id, preset, scheme }: ShownSource): string[] {
  const isAwaited = scheme === null && (presetNamed(preset)?.signature ?? null) !== null
  return isAwaited
    ? ['', `It takes unsigned requests until it has a secret: weir sources modify ${id} --secret-file <file>`]
    : []
}

function numbered(steps: readonly string[]): string[] {
  return steps.map((step, index) => `  ${index + 1}. ${printable(step)}`)
}

function showPresets(given: string, asJson: boolean): number {
  const name = constantOf(given)
  if (given !== '' && presetNamed(name) === undefined) {
    const likely = likelyName(name, PRESET_NAMES)
    throw new CannotRun(
      `there is no preset "${given}"${likely === undefined ? '' : `, ${likely} may be meant`}; weir sources presets lists them`,
    )
  }
  const named = PRESET_NAMES.filter(each => given === '' || each === name).map(each => ({
    name: each,
    ...PRESETS[each],
  }))
  if (asJson) say(JSON.stringify(named, null, 2))
  else for (const line of given === '' ? presetTable(named) : presetLines(must(named[0], name))) say(line)
  return CLEAN
}

type NamedPreset = { readonly name: string } & (typeof PRESETS)[keyof typeof PRESETS]

function presetTable(presets: readonly NamedPreset[]): string[] {
  return tableLines(presets, [
    ['preset', one => one.name],
    ['sender', one => one.title],
    ['signature', one => one.signature?.scheme ?? '-'],
    ['secret', one => SECRET_WORDS[one.secret ?? 'NONE']],
    ['key', one => keyText(one)],
  ])
}

/** Who makes the secret. */
const SECRET_WORDS = { OWN: 'made here', SHOWN: 'of the sender', NONE: '-' } as const

function keyText({ timestamp, uniqueId, orderBy }: NamedPreset): string {
  return (
    (orderBy ?? [timestamp, uniqueId].filter(each => each !== null && uniqueId !== null)).join(', ') || '-'
  )
}

const COLUMN_CELLS: Parameters<typeof tableLines<ShownColumn>>[1] = [
  ['column', each => each.name],
  ['type', each => each.type],
  ['property', each => each.jsonProperty],
  ['nullable', each => (each.nullable ? 'yes' : 'no')],
  ['coerce', each => (each.coerce ? 'yes' : 'no')],
]

type ShownColumn = Pick<Proposal['columns'][number], 'name' | 'type' | 'jsonProperty' | 'nullable' | 'coerce'>

function presetLines(preset: NamedPreset): string[] {
  const { name, title, signature, secret, accept, eventsPath, columns, delivery, steps } = preset
  return [
    ...pairLines([
      ['preset', name],
      ['sender', title],
      ['signature', signature?.scheme ?? '-'],
      ['secret', SECRET_WORDS[secret ?? 'NONE']],
      ['accept', accept.length === 0 ? '-' : accept.join(',')],
      ['events path', eventsPath ?? '-'],
      ['key', keyText(preset)],
    ]),
    '',
    ...tableLines(columns, COLUMN_CELLS),
    '',
    `at ${title}:`,
    ...numbered(steps),
    '',
    delivery,
  ]
}

/**
 * Proposes columns and a key from a file of sample events, without a server.
 *
 * Prints a table with reasons, or with `asJson` the connectionSettings of createWebhookDataSource,
 * which `weir sources create --columns` takes too.
 */
async function infer(path: string, asJson: boolean): Promise<number> {
  if (path === '') throw new CannotRun('weir sources infer needs a file of events; - is standard input')
  const samples = readSamples(await readSmallFile(path, INFER_BYTES_MAX))
  const proposal = 'problem' in samples ? samples : inferColumns(samples)
  if ('problem' in proposal) throw new CannotRun(proposal.problem.message)
  if (asJson) say(JSON.stringify(settingsOf(proposal), null, 2))
  else for (const line of proposalLines(proposal)) say(line)
  return CLEAN
}

function settingsOf({ columns, uniqueId, timestamp, orderBy }: Proposal) {
  return {
    columns: columns.map(({ reason: _, ...column }) => column),
    timestamp: timestamp.column,
    uniqueId: uniqueId.column,
    tableSettings: orderBy === null ? null : { orderBy },
  }
}

function proposalLines({ events, columns, uniqueId, timestamp, orderBy, leftOut }: Proposal): string[] {
  return [
    `${events} events`,
    '',
    ...tableLines(columns, [...COLUMN_CELLS, ['reason', each => each.reason]]),
    '',
    `unique id: ${printable(uniqueId.column ?? 'none')}. ${printable(uniqueId.reason)}`,
    `timestamp: ${printable(timestamp.column ?? 'none')}. ${printable(timestamp.reason)}`,
    ...(orderBy === null ? [] : [`key: ${printable(orderBy.join(', '))}`]),
    ...(leftOut.length === 0
      ? []
      : [
          '',
          ...tableLines(leftOut, [
            ['left out', each => each.jsonProperty],
            ['reason', each => each.reason],
          ]),
        ]),
  ]
}

/**
 * The bytes of a file; `-` is standard input.
 * @throws CannotRun it cannot be read, or has more than `bytesMax` bytes
 */
async function readSmallFile(path: string, bytesMax: number): Promise<Uint8Array> {
  const name = nameOf(path)
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of path === '-' ? process.stdin : createReadStream(path)) {
      bytes += (piece as Buffer).length
      if (bytes > bytesMax) throw new CannotRun(`${name} has more than ${bytesMax} bytes`)
      pieces.push(piece as Buffer)
    }
  } catch (error) {
    if (error instanceof CannotRun) throw error
    throw new CannotRun(`${name} cannot be read: ${(error as Error).message}`)
  }
  return Buffer.concat(pieces)
}

/**
 * The JSON object or list in a file. @throws CannotRun as readSmallFile, or it holds another value
 */
async function readJsonFile(path: string, bytesMax: number): Promise<object> {
  const text = Buffer.from(await readSmallFile(path, bytesMax)).toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new CannotRun(`${nameOf(path)} is no JSON: ${(error as Error).message}`)
  }
  if (typeof value === 'object' && value !== null) return value
  throw new CannotRun(`${nameOf(path)} holds no JSON object or list`)
}

function nameOf(path: string): string {
  return path === '-' ? 'standard input' : path
}
