/**
 * What the commands `applications`, `keys`, `jobs` and `sources` ask of a running server, or of a
 * stopped folder. The routes, the OpenAPI document, the readers of requests and the flags come from
 * here. The files tools/manage*.ts carry the requests out.
 */
import { JOB_KINDS, JOB_STATUSES, PROPELLERS, SCOPES } from '../../catalog/documents/model.ts'
import { type CommandFlag, flagOf } from '../../database/command.ts'
import { COLUMN_TYPES } from '../../format/schema.ts'
import { ACCEPTS, SIGNATURE_SCHEMES } from '../../format/sender.ts'
import {
  anyOf,
  constant,
  count,
  flag,
  list,
  named,
  object,
  oneOf,
  orNull,
  type Schema,
  text,
  texts,
  time,
} from './schema.ts'

/** The requests of one command. */
export interface AdminRequest<Request, Answer> {
  readonly path: string
  /** The operationId. */
  readonly id: string
  readonly summary: string
  readonly scope: 'admin' | 'application:admin'
  readonly request: Schema<Request>
  readonly answer: Schema<Answer>
}

const Application = object(
  {
    id: text,
    uniqueName: text,
    description: text,
    scopes: list(oneOf(SCOPES)),
    propeller: oneOf(PROPELLERS),
    createdAt: time,
  },
  { secret: { ...text, description: 'Where it is new.' } },
)

const Job = object({
  id: text,
  kind: oneOf(Object.keys(JOB_KINDS)),
  poolId: text,
  /** The pool's unique name; null where the pool was deleted. */
  pool: orNull(text),
  status: oneOf(JOB_STATUSES),
  progress: { type: 'number', minimum: 0, maximum: 1 } as Schema<number>,
  /** The job was cancelled, and has not ended. */
  isCancelled: flag,
  error: orNull(text),
  createdAt: time,
  createdBy: text,
  startedAt: orNull(time),
  endedAt: orNull(time),
})

/** The newest job is the last. `before` is that of a request for the next, older page. */
const JobsPage = object({ jobs: list(named('Job', Job)), before: orNull(text) })

const COLUMN = { name: text, jsonProperty: text, type: oneOf(COLUMN_TYPES), nullable: flag }
const ColumnInput = object(COLUMN, { coerce: flag })
/** The rules of a pool say what is wrong with a type. */
const READ_COLUMN = object({ ...COLUMN, type: text }, { coerce: flag })

/** A list has only the members that are always there. */
const Source = object(
  { id: text, uniqueName: text, type: text, webhookUrl: orNull(text), preset: orNull(text) },
  {
    scheme: orNull(text),
    secretCount: count,
    accept: list(oneOf(ACCEPTS)),
    eventsPath: orNull(text),
    keepEnvelope: flag,
    columns: list({ ...object(COLUMN), additionalProperties: true }),
    /** Names of the key's columns; empty where every event is a record of its own. */
    key: texts,
    secrets: texts,
    verifyToken: orNull(text),
    handshakeUntil: time,
  },
)

/** Components of the OpenAPI document, in its order. */
export const ADMIN_SCHEMAS = { Application, Job, JobsPage, ColumnInput, Source }

/** The flags by which a command gives a member of its request. */
const FLAGS = Symbol('flags')

function by<T>(schema: Schema<T>, ...flags: readonly CommandFlag[]): Schema<T> {
  return { ...schema, [FLAGS]: flags }
}

export function flagsOf(schema: Schema<unknown>): readonly CommandFlag[] {
  return (schema as { readonly [FLAGS]?: readonly CommandFlag[] })[FLAGS] ?? []
}

type FlagArguments = readonly [flag: string, value: string, why: string]
const creates = (...given: FlagArguments) => flagOf(['create'], ...given)
const changes = (...given: FlagArguments) => flagOf(['create', 'modify'], ...given)

/**
 * The settings of a webhook that `weir sources` takes, in the order of its help. A flag whose value
 * is a NAME stands for a constant.
 */
export const SOURCE_SETTINGS = {
  preset: by(text, changes('preset', 'NAME', 'the sender, as github; weir sources presets')),
  name: by(text, changes('name', 'name', 'its unique name')),
  secrets: by(
    texts,
    changes('secret', 'text', 'the secret or public key of the sender, in place of all others'),
    changes('secret-file', 'file', 'the same from a file, one on each line; - is standard input'),
  ),
  scheme: by(
    oneOf(SIGNATURE_SCHEMES),
    changes('scheme', 'NAME', 'how the sender signs, where no preset says it'),
  ),
  unsigned: by(flag, changes('unsigned', '', 'takes unsigned requests, whatever the preset says')),
  verifyToken: by(text, changes('verify-token', 'text', 'the token by which Meta asks')),
  accept: by(list(oneOf(ACCEPTS)), changes('accept', 'a,b', ACCEPTS.join(', '))),
  eventsPath: by(text, creates('events-path', 'path', 'where the events stand in a body, as data.items')),
  keepEnvelope: by(flag, creates('keep-envelope', '', 'each event keeps the body around it')),
  columns: by(
    list(named('ColumnInput', READ_COLUMN)),
    creates('columns', 'file', 'a JSON file of columns, as infer --json prints it'),
  ),
  timestamp: by(text, creates('timestamp', 'column', 'the primary timestamp')),
  uniqueId: by(text, creates('unique-id', 'column', 'the unique id')),
}

/** The request lists these before the others. */
const { name, accept, scheme, secrets, unsigned, ...otherSettings } = SOURCE_SETTINGS

export const MANAGE_APPLICATIONS = {
  path: '/v1/admin/applications',
  id: 'manageApplications',
  summary: 'List, create and delete applications; give one a new secret',
  scope: 'application:admin',
  request: object(
    { action: oneOf(['list', 'create', 'rotate', 'delete']) },
    {
      application: { ...text, description: 'Id or unique name; the unique name of a new one.' },
      description: text,
      /** Without one the application gets all of them. */
      scopes: list(oneOf(SCOPES, 'scope')),
      propeller: orNull(oneOf(PROPELLERS, 'propeller')),
    },
  ),
  answer: list(named('Application', Application)),
} as const

export const MANAGE_KEYS = {
  path: '/v1/admin/keys',
  id: 'manageKeys',
  summary: 'A new key by which tokens are signed',
  scope: 'admin',
  request: object({ action: constant('rotate') }, { endTokens: flag }),
  answer: object({ kid: text, createdAt: text, ended: { type: 'integer' } as Schema<number> }),
} as const

/** Members without a text, or an empty list, ask for all jobs. */
const LIST_JOBS = object(
  { action: constant('list') },
  {
    /** Id or unique name; the id of a deleted pool that still has jobs. */
    pool: text,
    status: list(oneOf(JOB_STATUSES, 'status')),
    /** At most JOBS_LISTED_MAX. */
    jobs: texts,
    /** `before` of the page that comes after this one. */
    before: text,
  },
)
const CANCEL_JOB = object({ action: constant('cancel'), job: text })

export const MANAGE_JOBS = {
  path: '/v1/admin/jobs',
  id: 'manageJobs',
  summary: 'List jobs in pages of 400, cancel one',
  scope: 'admin',
  request: anyOf(LIST_JOBS, CANCEL_JOB),
  answer: anyOf(named('JobsPage', JobsPage), named('Job', Job)),
} as const

export const MANAGE_SOURCES = {
  path: '/v1/admin/sources',
  id: 'manageSources',
  summary: 'List, show, create and change webhooks and their senders',
  scope: 'admin',
  request: object(
    { action: oneOf(['list', 'show', 'create', 'modify', 'handshake']) },
    {
      source: { ...text, description: 'Id or unique name.' },
      name,
      description: text,
      ...{ accept, scheme, secrets, unsigned },
      ...otherSettings,
      orderBy: texts,
    },
  ),
  answer: list(named('Source', Source)),
} as const

export const ADMIN_REQUESTS: readonly AdminRequest<unknown, unknown>[] = [
  MANAGE_APPLICATIONS,
  MANAGE_KEYS,
  MANAGE_JOBS,
  MANAGE_SOURCES,
]
