/**
 * The live tail over both HTTP libraries: what comes from now on, once and in order, within filters
 * and the policy of the reader; a slow reader misses rows and is told how many.
 */
import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSource, type Source } from '../util/senders.ts'
import { fetchToken, startServer, type TestServer } from '../util/server.ts'
import { TailReader } from '../util/tail-reader.ts'

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const column = (name: string, type: string, nullable = false) => ({
  ...{ name, jsonProperty: name, type, nullable },
})
const COLUMNS = [column('id', 'INT64'), column('shop', 'STRING', true)]
const KEYED = { columns: COLUMNS, tableSettings: { orderBy: ['id'] } }

const POLL = { timeout: 30_000 }

async function post(url: string, body: unknown, method = 'POST'): Promise<void> {
  const answer = await fetch(url, {
    method,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  })
  expect(answer.status, await answer.text()).toBe(200)
}

describe.each(['uws', 'node'])('over %s', http => {
  let server: TestServer
  let token: string
  beforeAll(async () => {
    server = await startServer({ args: ['--http', http] })
    token = await fetchToken(server.base, server.dataDir)
  })
  afterAll(async () => {
    await server.stop()
  })

  const ask = (pool: string, query = '', bearer = token) =>
    fetch(`${server.base}/v1/pools/${pool}/tail${query}`, { headers: { authorization: `Bearer ${bearer}` } })
  async function tail({ poolId }: Pick<Source, 'poolId'>, query = '', bearer = token): Promise<TailReader> {
    const answer = await ask(poolId, query, bearer)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    return new TailReader(answer)
  }
  /** An application that may only query, and its token. */
  async function reader() {
    const { data } = await server.graphql(
      `mutation ($input: createApplicationInput!) { createApplication(input: $input) {
         ... on ApplicationResponse { application { id clientId secret } } } }`,
      { input: { scopes: ['DATA_POOL_QUERY'] } },
    )
    const { id, clientId, secret } = (
      data as { createApplication: { application: { id: string; clientId: string; secret: string } } }
    ).createApplication.application
    const form = { grant_type: 'client_credentials', client_id: clientId, client_secret: secret }
    const answer = await fetch(`${server.base}/oauth2/token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    })
    return { application: id, own: ((await answer.json()) as { access_token: string }).access_token }
  }
  const ids = ({ rows }: TailReader) => rows.map(({ id }) => Number(id))
  async function queries(): Promise<number> {
    const page = await (await fetch(`${server.base}/metrics`)).text()
    return Number(/^weir_query_seconds_count (\d+)$/m.exec(page)?.[1])
  }

  test('what comes from now on is sent once, in its order, to every reader', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    await post(source.url, { id: -1 })
    const first = await tail(source)
    const readers = [first, await tail(source)]
    for (let id = 0; id < 40; id++) await post(source.url, { id, shop: 'a' })
    const late = await tail(source)
    for (let id = 40; id < 60; id++) await post(source.url, { id, shop: 'a' })
    for (const reader of readers) {
      await reader.until(() => reader.rows.length >= 60)
      expect(ids(reader)).toEqual(Array.from({ length: 60 }, (_, id) => id))
      expect(reader.missed).toBe(0)
    }
    await late.until(() => late.rows.length >= 20)
    expect(ids(late)).toEqual(Array.from({ length: 20 }, (_, index) => 40 + index))
    const [row] = first.rows
    expect(Object.keys(row ?? {})).toEqual(['_service_received_at', '_service_payload', 'id', 'shop'])
    expect(row).toMatchObject({ _service_payload: '{"id":0,"shop":"a"}', id: '0', shop: 'a' })
  })

  test('readers that join while events come change nothing for those that are there', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const first = await tail(source)
    const joining = Array.from({ length: 20 }, async () => {
      const reader = await tail(source)
      await reader.until(() => reader.rows.some(({ id }) => id === '199'))
      expect(new Set(ids(reader)).size).toBe(reader.rows.length)
    })
    for (let id = 0; id < 200; id++) await post(source.url, { id })
    await Promise.all(joining)
    await first.until(() => first.rows.length >= 200)
    expect(ids(first)).toEqual(Array.from({ length: 200 }, (_, id) => id))
  })

  test('an event that is longer than a step comes alone', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const reader = await tail(source)
    await post(source.url, [{ id: 1 }, { id: 2, shop: 'x'.repeat(600_000) }])
    await reader.until(() => reader.rows.length + reader.missed === 2)
    expect(reader.rows.length).toBeGreaterThan(0)
  })

  test('an update comes as a row, a delete does not, and what a job rewrites stays where it was', async () => {
    const source = await createSource(server.graphql, KEYED)
    await post(source.url, { id: 1, shop: 'a' })
    const reader = await tail(source)
    await post(source.url, { id: 1, shop: 'b' })
    await reader.until(() => reader.rows.length === 1)
    await post(source.url, { id: 1 }, 'DELETE')
    await post(source.url, { id: 2, shop: 'c' })
    await reader.until(() => reader.rows.length === 2)
    const { data } = await server.graphql(
      'mutation ($input: CreateUpdateDataPoolRecordsJobInput!) { createUpdateDataPoolRecordsJob(input: $input) { job { id } } }',
      { input: { dataPool: source.poolId, set: [{ column: 'shop', expression: "'z'" }] } },
    )
    const { id } = (data as { createUpdateDataPoolRecordsJob: { job: { id: string } } })
      .createUpdateDataPoolRecordsJob.job
    await expect
      .poll(async () => {
        const answer = await server.graphql(
          'query ($id: ID!) { updateDataPoolRecordsJob(id: $id) { status } }',
          { id },
        )
        return (answer.data as { updateDataPoolRecordsJob: { status: string } }).updateDataPoolRecordsJob
          .status
      }, POLL)
      .toBe('SUCCEEDED')
    await post(source.url, { id: 3, shop: 'd' })
    await reader.until(() => reader.rows.length === 3)
    expect(reader.rows.map(({ id, shop }) => [id, shop])).toEqual([
      ['1', 'b'],
      ['2', 'c'],
      ['3', 'd'],
    ])
  })

  test('columns and filters limit it, and wrong ones are refused before it begins', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const filters = JSON.stringify([{ column: 'shop', operator: 'EQUALS', value: 'b' }])
    const reader = await tail(source, `?${new URLSearchParams({ columns: 'id', filters })}`)
    for (let id = 0; id < 10; id++) await post(source.url, { id, shop: id % 2 === 0 ? 'a' : 'b' })
    await reader.until(() => reader.rows.length === 5)
    expect(reader.rows).toEqual([1, 3, 5, 7, 9].map(id => ({ id: String(id) })))
    for (const query of [
      '?columns=nix',
      '?filters=x',
      '?filters=[{"column":"nix","operator":"IS_NULL"}]',
      '?start=1',
    ]) {
      const answer = await ask(source.poolId, query)
      expect([answer.status, ((await answer.json()) as { code: string }).code], query).toEqual([
        400,
        'bad_parameter',
      ])
    }
    expect((await ask('nix')).status).toBe(404)
    expect((await ask(source.poolId, '', 'wrong')).status).toBe(401)
    const writer = await fetchToken(server.base, server.dataDir, 'data_pool:write')
    expect((await ask(source.poolId, '', writer)).status).toBe(403)
  })

  test("a policy's reader sees its rows and hears of no others; without a policy nobody reads", async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS, accessControlEnabled: true })
    const { application, own } = await reader()
    expect((await ask(source.poolId, '', own)).status).toBe(403)
    const { data } = await server.graphql(
      `mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) {
         dataPoolAccessPolicy { id } } }`,
      { input: { dataPool: source.poolId, columns: ['id'], filterSql: "shop = 'mine'" } },
    )
    const policy = (data as { createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } } })
      .createDataPoolAccessPolicy.dataPoolAccessPolicy.id
    const assign = (name: string) =>
      server.graphql(
        `mutation ($policy: ID!, $application: ID!) { ${name}(dataPoolAccessPolicy: $policy, application: $application) }`,
        { policy, application },
      )
    expect((await assign('assignDataPoolAccessPolicyToApplication')).errors).toBeUndefined()
    const sees = await tail(source, '', own)
    // More than a step answers, nearly all of them hidden.
    for (let batch = 0; batch < 4; batch++)
      await post(
        source.url,
        Array.from({ length: 500 }, (_, index) => ({
          id: batch * 500 + index,
          shop: index === 7 ? 'mine' : 'other',
        })),
      )
    await sees.until(() => sees.rows.length === 4)
    // Without the time of arrival nothing orders them.
    expect(ids(sees).sort((a, b) => a - b)).toEqual([7, 507, 1007, 1507])
    expect(sees.missed).toBe(0)
    expect((await assign('unAssignDataPoolAccessPolicyFromApplication')).errors).toBeUndefined()
    await post(source.url, { id: 9_999, shop: 'mine' })
    await sees.untilClosed()
    expect(sees.ended).toMatchObject({ code: 'forbidden' })
    expect(sees.rows).toHaveLength(4)
  })

  test('rows beyond a step, and those that a reader does not take, are counted', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const reader = await tail(source)
    const { hostname, port } = new URL(server.base)
    const slow: Socket = connect(Number(port), hostname)
    let got = ''
    slow.write(
      `GET /v1/pools/${source.poolId}/tail HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    )
    await new Promise<void>(resolve => slow.once('data', () => resolve()))
    slow.pause()
    const events = 4_000
    const shop = 'x'.repeat(4_000) // 16 MB: more than sockets hold
    for (let from = 0; from < events; from += 100)
      await post(
        source.url,
        Array.from({ length: 100 }, (_, index) => ({ id: from + index, shop })),
      )
    await reader.until(() => reader.rows.length + reader.missed === events)
    expect(reader.missed).toBeGreaterThan(0)
    expect(new Set(ids(reader)).size).toBe(reader.rows.length)
    // The slow one takes again: what it got and what it is told are all.
    const told = new Promise<void>(resolve => {
      slow.on('data', data => {
        got += data.toString('latin1')
        const rows = got.split('data: {"_service_received_at"').length - 1
        const missed = [...got.matchAll(/data: \{"count":(\d+)\}/g)].reduce(
          (sum, [, count]) => sum + Number(count),
          0,
        )
        if (rows + missed === events) resolve()
      })
    })
    slow.resume()
    await told
    slow.destroy()
  })

  test('nothing is asked while nothing comes, and nothing at all without readers', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    await post(source.url, { id: 1 })
    const answer = await ask(source.poolId)
    const before = await queries()
    const reader = new TailReader(answer)
    await post(source.url, { id: 2 })
    await reader.until(() => reader.rows.length === 1)
    const after = await queries()
    // A heartbeat comes after ten intervals in which nothing was asked.
    await new Promise(resolve => setTimeout(resolve, 1_200))
    expect([after - before, (await queries()) - after]).toEqual([0, 0])
  })

  test('it ends with its pool, says why, and a kill of the server is no end', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const reader = await tail(source)
    await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: source.poolId })
    await reader.untilClosed()
    expect(reader.ended).toEqual({ code: 'pool_deleted', message: 'the Data Pool was deleted' })
  })

  test('readers of one application are limited, and a place is free when one goes', async () => {
    const source = await createSource(server.graphql, { columns: COLUMNS })
    const controllers: AbortController[] = []
    const { own } = await reader()
    const open = (signal: AbortSignal) =>
      fetch(`${server.base}/v1/pools/${source.poolId}/tail`, {
        headers: { authorization: `Bearer ${own}` },
        signal,
      })
    // An answer that nobody holds is closed with its garbage.
    const held: Response[] = []
    do {
      controllers.push(new AbortController())
      held.push(await open(controllers.at(-1)!.signal))
    } while (held.at(-1)!.status === 200)
    const refused = held.pop()!
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
    // Half of the readers, less what those of other tests leave.
    expect([held.length > 96, held.length <= 128]).toEqual([true, true])
    expect(held.map(({ bodyUsed }) => bodyUsed)).toEqual(held.map(() => false))
    for (const controller of controllers) controller.abort()
    await expect.poll(async () => (await open(AbortSignal.timeout(5_000))).status, POLL).toBe(200)
  })

  test('weir tail prints events and ends with the server, which ends in time', async () => {
    const own = await startServer({ args: ['--http', http] })
    const source = await createSource(own.graphql, { columns: COLUMNS })
    const command = spawn(process.execPath, [
      MAIN,
      'tail',
      source.poolId,
      '--columns',
      'id',
      '--url',
      own.base,
      '--data-dir',
      own.dataDir,
    ])
    let [out, err] = ['', '']
    command.stdout.on('data', data => {
      out += String(data)
    })
    command.stderr.on('data', data => {
      err += String(data)
    })
    const code = new Promise(resolve => command.once('close', resolve))
    await expect.poll(() => err, { timeout: 30_000 }).toMatch(/events from now on/)
    await post(source.url, { id: 5 })
    await expect.poll(() => out, { timeout: 30_000 }).toBe('{"id":"5"}\n')
    const began = performance.now()
    expect((await own.stop()).code).toBe(0)
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(await code).toBe(1)
    expect(err).toMatch(/the server is stopping/)
  })
})
