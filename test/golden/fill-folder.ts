/**
 * Fills a data folder through the server of any landed version, over HTTP, and tells what it must
 * hold. A server that knows more is asked for more; content.ts has the rows.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { at, filesOf, NEVER, OFTEN, until } from '../path/compaction.ts'
import {
  fetchToken,
  type PoolSpec,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { type Expected, type Facts, untilJobsEnd } from './archive.ts'
import {
  ADDED,
  ADDED_TO_WRAPPED,
  type GoldenPool,
  IMPORTED,
  Model,
  POOLS,
  ROUNDS,
  textOf,
} from './content.ts'

interface FillOptions {
  /** The main.js of the version's build. */
  readonly main: string
  /** The version's commit, its short name. */
  readonly commit: string
  readonly dataDir: string
  /** The server was killed, with unflushed requests, and an unfinished flush or job. */
  readonly onKilled: (dataDir: string) => void
  /** The version made a backup, which may hold the unfinished job. */
  readonly onBackup: (folder: string) => void
}

/** Fills the folder. The server has stopped cleanly at the end. */
export async function fillFolder(options: FillOptions): Promise<Expected> {
  return await new Filler(options).fill()
}

class Filler {
  readonly #options: FillOptions
  readonly #model = new Model()
  readonly #made = new Map<string, TestPool>()
  #pools: readonly GoldenPool[] = []
  #server!: TestServer
  #facts: Facts

  constructor(options: FillOptions) {
    this.#options = options
    const madeFrom = new Date().toISOString()
    this.#facts = { commit: options.commit, madeFrom, madeTo: '', merges: false, webhooks: {} }
  }

  async fill(): Promise<Expected> {
    await this.#start()
    const { data } = await this.#server.graphql<{
      __schema: { mutationType: { fields: { name: string }[] } }
      accept: object | null
      webhook: { inputFields: { name: string }[] }
    }>(`{ __schema { mutationType { fields { name } } } accept: __type(name: "WebhookAccept") { name }
      webhook: __type(name: "WebhookConnectionSettingsInput") { inputFields { name } } }`)
    const hasEnvelopes = data.webhook.inputFields.some(({ name }) => name === 'keepEnvelope')
    const hasSenders = data.accept !== null
    const hasControl = data.__schema.mutationType.fields.some(({ name }) => name === 'createDeletionJob')
    const merges = /compact/.test(await (await fetch(`${this.#server.base}/metrics`)).text())
    this.#pools = POOLS.filter(
      ({ needsControl, needsSenders, needsEnvelopes }) =>
        (hasControl || needsControl === undefined) &&
        (hasSenders || needsSenders === undefined) &&
        (hasEnvelopes || needsEnvelopes === undefined),
    )
    await this.#createPools()
    if (hasControl) await this.#assignPolicy(this.#admin().clientId, 'n >= 0')
    await this.#send(1)
    await this.#count()
    await this.#server.kill()

    await this.#start()
    await this.#send(2)
    await this.#count()
    await this.#server.kill()

    if (merges) await this.#merge()
    await this.#start()
    await this.#send(3)
    await this.#count()
    if (hasControl) await this.#makeControlObjects()
    await this.#server.kill()

    await this.#start({ ...NEVER, WEIR_CRASH_AT: hasControl ? 'job.started' : 'segment.durable' })
    await this.#send(ROUNDS)
    await (hasControl ? this.#dieWithJob() : this.#dieWithSegment())
    this.#options.onKilled(this.#options.dataDir)
    await this.#end(hasControl)
    const webhooks = Object.fromEntries(
      [...this.#made].map(([name, { url }]) => [name, new URL(url).pathname]),
    )
    const facts = { ...this.#facts, madeTo: new Date().toISOString(), merges, webhooks }
    return { facts, pools: new Map(this.#pools.map(pool => [pool.uniqueName, this.#model.lines(pool)])) }
  }

  async #start(env: Readonly<Record<string, string>> = NEVER): Promise<void> {
    const { main, dataDir } = this.#options
    const all = { WEIR_LOG_FILE_BYTES: String(4 * 1024 * 1024), ...env }
    this.#server = await startServer({ main, dataDir, env: all })
  }

  /** Creates the pools, and one that is deleted again. */
  async #createPools(): Promise<void> {
    for (const { key: _, version: _v, needsControl: _n, events: _e, deletes: _d, ...pool } of this.#pools) {
      const { isGeneric, needsSenders: _s, needsEnvelopes: _w, ...spec } = pool
      this.#made.set(
        pool.uniqueName,
        await (isGeneric === true ? this.#createGenericPool(spec) : this.#server.createPool(spec)),
      )
    }
    const { url, poolId } = await this.#server.createPool({ uniqueName: 'dropped' })
    await fetch(url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } })
    await this.#server.count(poolId)
    await this.#server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: poolId })
  }

  /** Creates an Http source and a pool of it. */
  async #createGenericPool({ uniqueName, columns = [], basicAuth }: PoolSpec): Promise<TestPool> {
    const table = { name: 'clicks', columns: [{ name: 'id', type: 'STRING', nullable: true }] }
    const { dataSource } = await this.#change<{ dataSource: { id: string } }>(
      'createHttpDataSource',
      'CreateHttpDataSourceInput!',
      'dataSource { id }',
      { uniqueName: 'clicks', connectionSettings: { basicAuth, tables: [table] } },
    )
    const { dataPool } = await this.#change<{ dataPool: { id: string; webhookUrl: string } }>(
      'createDataPoolV2',
      'CreateDataPoolInputV2!',
      'dataPool { id webhookUrl }',
      {
        uniqueName,
        dataSource: dataSource.id,
        table: table.name,
        columns: columns.map(({ name, type, nullable }) => ({
          columnName: name,
          type,
          isNullable: nullable,
        })),
      },
    )
    return { sourceId: dataSource.id, poolId: dataPool.id, url: dataPool.webhookUrl }
  }

  /** The requests of a round. */
  async #send(round: number): Promise<void> {
    for (const pool of this.#pools) {
      for (const events of pool.events(round)) {
        if (events.length === 0) continue
        await this.#request(pool, 'POST', events)
        this.#model.post(pool, events)
      }
      const deletes = pool.deletes?.(round) ?? []
      if (deletes.length === 0) continue
      await this.#request(pool, 'DELETE', deletes)
      this.#model.delete(pool, deletes)
    }
  }

  /** Sends a request and checks that every event was accepted. */
  async #request(pool: GoldenPool, method: string, events: readonly unknown[]): Promise<void> {
    const { username, password } = pool.basicAuth ?? { username: '', password: '' }
    const guarded = username === '' ? {} : { authorization: `Basic ${btoa(`${username}:${password}`)}` }
    const answer = await fetch(at(this.#server, this.#made.get(pool.uniqueName)!).url, {
      method,
      body: textOf(events),
      headers: { 'content-type': 'application/json', ...guarded },
    })
    const body = await answer.text()
    if (answer.status !== 200 || /"statusCode":400/.test(body))
      throw new Error(`${pool.uniqueName}: ${answer.status} ${body}`)
  }

  /** Flushes every pool by counting its rows. */
  async #count(): Promise<void> {
    for (const pool of this.#pools) {
      const rows = Number(await this.#server.count(this.#idOf(pool.uniqueName)))
      const wanted = this.#model.lines(pool).length
      if (rows !== wanted) throw new Error(`${pool.uniqueName}: ${rows} rows, the model has ${wanted}`)
    }
  }

  /** Merges what the rounds until now have flushed. */
  async #merge(): Promise<void> {
    await this.#start(OFTEN)
    const segments = () =>
      filesOf(this.#options.dataDir, this.#idOf('every_type')).filter(name => name.endsWith('.parquet'))
    await until('the segments are merged', () => segments().length === 1)
    await this.#server.stop()
  }

  /** A metric, an application with a policy, a column and an update: what the control API has. */
  async #makeControlObjects(): Promise<void> {
    await this.#change('createSumMetric', 'CreateSumMetricInput', 'metric { id }', {
      dataPool: this.#idOf('closed'),
      uniqueName: 'golden',
      measure: { columnName: 'n' },
      filterSql: 'n >= 20',
    })
    const reader = await this.#change<{ application: { id: string; secret: string } }>(
      'createApplication',
      'createApplicationInput!',
      '... on ApplicationResponse { application { id secret } }',
      { uniqueName: 'reader', scopes: ['DATA_POOL_QUERY', 'METRIC_QUERY'], propeller: 'P1_SMALL' },
    )
    await this.#assignPolicy(reader.application.id, 'n < 20')
    this.#facts = { ...this.#facts, reader: { ...reader.application, rows: 0 } }
    await this.#change('createAddColumnToDataPoolJob', 'CreateAddColumnToDataPoolJobInput!', 'job { id }', {
      dataPool: this.#idOf('widened'),
      columnName: ADDED.name,
      columnType: ADDED.type,
      jsonProperty: ADDED.jsonProperty,
    })
    if (this.#made.has('wrapped'))
      await this.#change('createAddColumnToDataPoolJob', 'CreateAddColumnToDataPoolJobInput!', 'job { id }', {
        dataPool: this.#idOf('wrapped'),
        columnName: ADDED_TO_WRAPPED.name,
        columnType: ADDED_TO_WRAPPED.type,
        jsonProperty: ADDED_TO_WRAPPED.jsonProperty,
        coerce: ADDED_TO_WRAPPED.coerce,
      })
    await this.#change(
      'createUpdateDataPoolRecordsJob',
      'CreateUpdateDataPoolRecordsJobInput!',
      'job { id }',
      { dataPool: this.#idOf('rewritten'), set: [{ column: 'n', expression: 'n + 1000' }] },
    )
    await this.#makeOtherObjects()
    await untilJobsEnd(this.#server)
    this.#model.addColumn(poolNamed('widened'), ADDED)
    this.#model.set(poolNamed('rewritten'), 'n', ({ n }) => Number(n) + 1000)
    await this.#count()
  }

  /** A name for the environment, a source that Weir does not connect to, and an import. */
  async #makeOtherObjects(): Promise<void> {
    const { data } = await this.#server.graphql<{
      applications: { nodes: { environment: { id: string } }[] }
    }>('{ applications { nodes { environment { id } } } }')
    await this.#change('modifyEnvironment', 'ModifyEnvironmentInput!', 'environment { id }', {
      id: data.applications.nodes[0]?.environment.id,
      uniqueName: 'golden',
    })
    const keys = { awsAccessKeyId: 'id', awsSecretAccessKey: 'secret', bucket: 'bucket' }
    const table = { name: 't', path: 'p', columns: [{ name: 'id', type: 'STRING', nullable: true }] }
    await this.#change('createS3DataSource', 'CreateS3DataSourceInput!', 'dataSource { id }', {
      uniqueName: 'bucket',
      connectionSettings: { ...keys, tables: [table] },
    })
    const { base } = this.#server
    const token = await fetchToken(base, this.#options.dataDir)
    const answer = await fetch(`${base}/v1/pools/imported/import?by=property`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-ndjson' },
      body: IMPORTED.map(textOf).join('\n'),
    })
    if (answer.status !== 200) throw new Error(await answer.text())
    this.#model.post(poolNamed('imported'), IMPORTED)
  }

  /** Lets an application see rows of `closed`. */
  async #assignPolicy(application: string, filterSql: string): Promise<void> {
    const { dataPoolAccessPolicy } = await this.#change<{ dataPoolAccessPolicy: { id: string } }>(
      'createDataPoolAccessPolicy',
      'CreateDataPoolAccessPolicyInput!',
      'dataPoolAccessPolicy { id }',
      { dataPool: this.#idOf('closed'), columns: ['*'], filterSql },
    )
    const { errors } = await this.#server.graphql(
      `mutation { assignDataPoolAccessPolicyToApplication(
         dataPoolAccessPolicy: "${dataPoolAccessPolicy.id}", application: "${application}") }`,
    )
    if (errors !== undefined) throw new Error(JSON.stringify(errors))
  }

  /** Creates a deletion job, at whose start the server dies: the next start goes on with it. */
  async #dieWithJob(): Promise<void> {
    const input = { dataPool: this.#idOf('rewritten'), filterSql: 'n % 3 = 0' }
    const answer = this.#change('createDeletionJob', 'CreateDeletionJobInput!', 'job { id }', input)
    await Promise.all([answer.catch(() => undefined), this.#server.ended])
    this.#model.deleteWhere(poolNamed('rewritten'), ({ n }) => Number(n) % 3 === 0)
  }

  /** Asks for a flush, in which the server dies: it leaves a segment that no commit names. */
  async #dieWithSegment(): Promise<void> {
    await Promise.all([this.#count().catch(() => undefined), this.#server.ended])
  }

  /** Makes a backup, lets the job end, and stops. */
  async #end(hasControl: boolean): Promise<void> {
    const { main, dataDir, onBackup } = this.#options
    await this.#start()
    const backup = join(temporaryFolder(), 'backup')
    const asks = ['--url', this.#server.base, '--data-dir', dataDir]
    if (spawnSync(process.execPath, [main, 'backup', backup, ...asks]).status === 0) onBackup(backup)
    await untilJobsEnd(this.#server)
    await this.#count()
    if (hasControl) {
      const lines = this.#model.lines(poolNamed('closed'))
      const numbers = lines.map(line => Number(/"n":(\d+)}$/.exec(line)?.[1]))
      const metric = String(numbers.filter(n => n >= 20).reduce((sum, n) => sum + n, 0))
      const rows = numbers.filter(n => n < 20).length
      this.#facts = { ...this.#facts, metric, reader: { ...this.#facts.reader!, rows } }
    }
    const { code, output } = await this.#server.stop()
    if (code !== 0) throw new Error(output)
  }

  async #change<T>(name: string, type: string, fields: string, input: unknown): Promise<T> {
    const document = `mutation ($input: ${type}) { ${name}(input: $input) { ${fields} } }`
    const { data, errors } = await this.#server.graphql<Record<string, T>>(document, { input })
    if (errors !== undefined) throw new Error(`${name}: ${JSON.stringify(errors)}`)
    return data[name] as T
  }

  #idOf(pool: string): string {
    return this.#made.get(pool)!.poolId
  }

  #admin(): { readonly clientId: string } {
    return JSON.parse(readFileSync(join(this.#options.dataDir, 'admin.json'), 'utf8')) as { clientId: string }
  }
}

function poolNamed(name: string): GoldenPool {
  return POOLS.find(({ uniqueName }) => uniqueName === name)!
}
