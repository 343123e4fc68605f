/**
 * `weir jobs` on a running server and on a stopped folder: lists, cancels, follows through a kill,
 * with names that attack the terminal. A fault in the merge thread holds jobs where they are.
 */
import { spawn } from 'node:child_process'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { ShownJob } from '../../src/tools/manage-jobs.ts'
import { POOLS_NAMED_MAX } from '../../src/tools/text-tables.ts'
import { addColumn } from '../jobs/add-column.ts'
import { at, column, events, KEYED, OFTEN, post, until } from '../path/compaction.ts'
import { removeLeftovers, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { contents, weir, weirInside } from './folder.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })
afterAll(removeLeftovers)

const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))
const HOSTILE = 'a\x1b]0;owned\x07\x1b[2Jb\nc\u009b31md\u202ee\x7f'
const SHOWN_HOSTILE = 'a\\u001b]0;owned\\u0007\\u001b[2Jb\\u000ac\\u009b31md\\u202ee\\u007f'
/** Characters that a terminal obeys, but for the ends of lines. */
const OBEYED = /[\p{Cc}\p{Cf}]/u
const KINDS = { update: 'createUpdateDataPoolRecordsJob', deletion: 'createDeletionJob' } as const

/** A server whose merge thread fails while `held` exists, so that jobs stay where they are. */
async function startHeld(dataDir = join(temporaryFolder(), 'data'), more: readonly string[] = []) {
  const held = join(temporaryFolder(), 'held')
  const fault = `open /tmp/merge/copy[.]parquet$ 1 EIO ${held}`
  const server = await startServer({ dataDir, args: ['--fault-at', fault, ...more], env: OFTEN })
  return { server, hold: () => writeFileSync(held, ''), release: () => rmSync(held) }
}

async function filledPool(server: TestServer, uniqueName: string): Promise<string> {
  const pool = await server.createPool({ ...KEYED, uniqueName })
  await post(at(server, pool), events(0, 100))
  expect(await server.count(pool.poolId)).toBe('100')
  return pool.poolId
}

/** Creates a job over all rows, and returns its id. */
async function createJob({ graphql }: TestServer, kind: keyof typeof KINDS, dataPool: string) {
  const set = kind === 'update' ? { set: [{ column: 'n', expression: 'n + 1' }] } : {}
  const type = `Create${KINDS[kind].slice('create'.length)}Input!`
  const { data, errors } = await graphql<Record<string, { job: { id: string } }>>(
    `mutation ($input: ${type}) { ${KINDS[kind]}(input: $input) { job { id } } }`,
    { input: { dataPool, filterSql: 'true', ...set } },
  )
  expect(errors).toBeUndefined()
  return Object.values(data)[0]!.job.id
}

async function list(args: readonly string[]): Promise<readonly ShownJob[]> {
  const { code, out, err } = await weirInside(['jobs', '--json', ...args])
  expect([code, err]).toEqual([0, ''])
  return JSON.parse(out) as readonly ShownJob[]
}

async function jobOf(id: string, args: readonly string[]): Promise<ShownJob> {
  return (await list(args)).find(job => job.id === id)!
}

/** Waits until a job is in `status`. */
async function reaches(id: string, status: string, args: readonly string[]): Promise<ShownJob> {
  await until(`${id} is ${status}`, async () => (await jobOf(id, args)).status === status)
  return await jobOf(id, args)
}

describe('on a running server', () => {
  let held: Awaited<ReturnType<typeof startHeld>>
  let server: TestServer
  let asks: readonly string[]
  let orders: string
  let updated: string
  let waiting: string

  beforeAll(async () => {
    held = await startHeld()
    server = held.server
    asks = ['--data-dir', server.dataDir, '--url', server.base]
    orders = await filledPool(server, 'orders')
    await addColumn(server, await filledPool(server, HOSTILE), 'more', 'STRING')
    held.hold()
    updated = await createJob(server, 'update', orders)
    waiting = await createJob(server, 'deletion', orders)
    await reaches(updated, 'IN_PROGRESS', asks)
  })

  test('the list has all jobs, the newest last, and takes a pool and statuses', async () => {
    const all = await list(asks)
    expect(all.map(({ kind, pool, status }) => [kind, pool, status])).toEqual([
      ['ADD_COLUMN', HOSTILE, 'SUCCEEDED'],
      ['UPDATE_RECORDS', 'orders', 'IN_PROGRESS'],
      ['DELETE_RECORDS', 'orders', 'CREATED'],
    ])
    expect(all[0]).toMatchObject({ progress: 1, error: null, isCancelled: false })
    expect(all[0]!.endedAt! >= all[0]!.startedAt!).toBe(true)
    expect(all[1]).toMatchObject({ id: updated, poolId: orders, endedAt: null })
    expect(all[2]).toMatchObject({ id: waiting, startedAt: null, progress: 0 })
    const ids = async (...args: string[]) => (await list([...args, ...asks])).map(({ id }) => id)
    expect(await ids('orders')).toEqual([updated, waiting])
    expect(await ids(orders, '--status', 'created')).toEqual([waiting])
    expect(await ids('--status', 'CREATED,in_progress')).toEqual([updated, waiting])
    expect(await ids('--status', 'FAILED')).toEqual([])
    expect(await weirInside(['jobs', '--status', 'FAILED', ...asks])).toMatchObject({
      out: 'no jobs\n',
      err: '',
    })
  })

  test('names reach the terminal as text', async () => {
    const table = await weir(['jobs', ...asks])
    expect(table.code).toBe(0)
    expect(table.out).toContain(SHOWN_HOSTILE)
    expect(table.out.split('\n').filter(line => OBEYED.test(line))).toEqual([])
    expect(table.out.trimEnd().split('\n')).toHaveLength(4)
    const { out } = await weirInside(['jobs', '--json', ...asks])
    expect(out.split('\n').filter(line => OBEYED.test(line))).toEqual([])
    const unknown = await weirInside(['jobs', '\x1b[31mred', ...asks])
    expect([unknown.code, unknown.out]).toEqual([2, ''])
    expect(unknown.err).toContain('there is no pool "\\u001b[31mred"; there are')
    expect(
      unknown.err
        .trimEnd()
        .split('\n')
        .filter(line => OBEYED.test(line)),
    ).toEqual([])
    expect(unknown.err.trimEnd().split('\n')).toHaveLength(1)
  })

  test('/metrics counts jobs by kind and status, and has the progress of those that run', async () => {
    const text = await (await fetch(`${server.base}/metrics`)).text()
    const value = (series: string) =>
      text
        .split('\n')
        .find(line => line.startsWith(`${series} `))
        ?.split(' ')
        .at(-1)
    expect(value('weir_jobs{kind="ADD_COLUMN",status="SUCCEEDED"}')).toBe('1')
    expect(value('weir_jobs{kind="UPDATE_RECORDS",status="IN_PROGRESS"}')).toBe('1')
    expect(value('weir_jobs{kind="DELETE_RECORDS",status="CREATED"}')).toBe('1')
    expect(value('weir_jobs{kind="DELETE_RECORDS",status="FAILED"}')).toBe('0')
    expect(value(`weir_job_progress{job="${updated}",kind="UPDATE_RECORDS",pool="orders"}`)).toBe('0')
    expect(text.match(/^weir_job_progress\{/gm)).toHaveLength(1)
  })

  test('a waiting job that is cancelled has ended, a running one ends after its step', async () => {
    const cancelled = await weir(['jobs', '--cancel', waiting, ...asks])
    expect(cancelled).toMatchObject({
      code: 0,
      out: `${waiting} delete records orders FAILED 0 %: The job was cancelled.\n`,
    })
    const running = await weirInside(['jobs', '--cancel', updated, ...asks])
    expect(running.out).toMatch(/ IN_PROGRESS \(cancelled\) 0 %: it ends after its current step\n$/)
    expect(await reaches(updated, 'FAILED', asks)).toMatchObject({
      error: 'The job was cancelled.',
      isCancelled: false,
    })
    held.release()
    expect(await server.sum(orders, 'n')).toBe('100')
    const again = await weirInside(['jobs', '--cancel', updated, ...asks])
    expect([again.code, again.err]).toEqual([
      2,
      expect.stringContaining('The job has ended: its status is FAILED'),
    ])
    const nobody = await weirInside(['jobs', '--cancel', 'DPJ\x1b', ...asks])
    expect([nobody.code, nobody.err]).toEqual([2, expect.stringContaining('There is no job "DPJ\\u001b"')])
    const audit = () =>
      server
        .output()
        .split('\n')
        .filter(line => line.includes('"cancelJob"'))
        .map(line => (JSON.parse(line) as { audit: { object: string; outcome: string } }).audit)
    await expect
      .poll(() => audit().map(({ object, outcome }) => [object, outcome]))
      .toEqual([
        [waiting, 'done'],
        [updated, 'done'],
        [updated, 'BAD_REQUEST'],
        ['DPJ\x1b', 'BAD_REQUEST'],
      ])
  })

  test('a job that runs to its end counts its rows; jobs of a deleted pool say so', async () => {
    const pool = await filledPool(server, 'doomed')
    const job = await createJob(server, 'deletion', pool)
    expect(await reaches(job, 'SUCCEEDED', asks)).toMatchObject({ progress: 1, error: null })
    const text = await (await fetch(`${server.base}/metrics`)).text()
    expect(text).toContain('weir_job_rows_total{kind="DELETE_RECORDS"} 100\n')
    await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool })
    expect(await jobOf(job, asks)).toMatchObject({ pool: null, poolId: pool })
    expect((await list([pool, ...asks])).map(({ id }) => id)).toEqual([job])
    expect((await weirInside(['jobs', pool, ...asks])).out).toContain(` ${pool} (deleted)  SUCCEEDED `)
    expect((await weirInside(['jobs', 'doomed', ...asks])).code).toBe(2)
  })

  test('an unknown pool beside many is answered with a way to list them that works', async () => {
    for (let i = 0; i < POOLS_NAMED_MAX; i++) await server.createPool({ columns: [column('id', 'STRING')] })
    const { code, err } = await weirInside(['jobs', 'nobody', ...asks])
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(
        /, … \(\d+ in all, the GraphQL query dataPools lists them, weir inspect where no server runs\)/,
      ),
    ])
  })

  test('the route needs its scope, and refuses what it cannot read', async () => {
    const created = await weirInside([
      'applications',
      'create',
      '--scopes',
      'data_pool:read',
      '--json',
      ...asks,
    ])
    const [weak] = JSON.parse(created.out) as [{ id: string; secret: string }]
    const mine = { WEIR_CLIENT_ID: weak.id, WEIR_CLIENT_SECRET: weak.secret }
    const ask = async (body: string, id: string, secret: string) => {
      const authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
      const url = `${server.base}/v1/admin/jobs`
      const answer = await fetch(url, { method: 'POST', headers: { authorization }, body })
      return { status: answer.status, ...((await answer.json()) as { detail?: string }) }
    }
    expect(await weirInside(['jobs', ...asks], mine)).toMatchObject({
      code: 2,
      err: expect.stringContaining('lacks the scope admin'),
    })
    expect(await ask('{"action":"cancel","job":"DPJ1"}', weak.id, weak.secret)).toMatchObject({ status: 403 })
    // The line of the audit may come after the answer.
    const audited = /"cancelJob",.*"object":"DPJ1",.*"outcome":"FORBIDDEN"/
    await expect.poll(() => server.output(), { timeout: 30_000 }).toMatch(audited)
    const wrong = await weirInside(['jobs', '--follow', ...asks], {
      ...mine,
      WEIR_CLIENT_SECRET: 'x'.repeat(40),
    })
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('with status 401')])
    const made = await weirInside(['applications', 'create', '--scopes', 'admin', '--json', ...asks])
    const [admin] = JSON.parse(made.out) as [{ id: string; secret: string }]
    for (const [body, detail] of [
      ['', /JSON/],
      ['null', /"action" must be list or cancel/],
      ['[]', /"action" must be/],
      ['{"action":"drop"}', /"action" must be/],
      ['{"action":"list","first":5}', /no "first"; there are action, pool, status, jobs, before/],
      ['{"action":"list","status":"FAILED"}', /must be a list/],
      ['{"action":"list","status":["LOST"]}', /no status "LOST"/],
      ['{"action":"list","jobs":[1]}', /must be a list of texts/],
      [JSON.stringify({ action: 'list', jobs: Array(401).fill('DPJ') }), /400 are the limit/],
      ['{"action":"list","pool":null}', /must be a text/],
      ['{"action":"list","pool":"nobody"}', /there is no pool "nobody"/],
      ['{"action":"cancel"}', /"job" must be a text/],
      ['{"action":"cancel","job":"DPJ","pool":"orders"}', /no "pool"/],
      ['{"action":"cancel","job":"__proto__"}', /There is no job/],
    ] as const) {
      const answer = await ask(body, admin.id, admin.secret)
      expect([body, answer.status]).toEqual([body, 400])
      expect(answer.detail).toMatch(detail)
    }
  })

  test.each([
    [['--follow'], /--follow needs --url/],
    [['--follow', '--status', 'FAILED', '--url', 'http://127.0.0.1:1'], /takes no --status/],
    [['orders', '--cancel', 'DPJ'], /--cancel takes the id of a job, and goes with no pool/],
    [['--cancel', ''], /"job" must be the id of a job/],
    [['--status', 'lost'], /There is no status "LOST"; there are CREATED/],
    [['--url', 'http://127.0.0.1:1', '--follow'], /cannot be reached/],
    [[], /another process uses the data folder .* a running server/],
  ])('%j is refused in one line', async (args, says) => {
    const { code, err, out } = await weirInside(['jobs', ...args, '--data-dir', server.dataDir])
    expect([code, out, err.split('\n').length]).toEqual([2, '', 2])
    expect(err).toMatch(says)
  })
})

/** `weir jobs --follow`, with what it has printed so far. */
function follower(args: readonly string[], onTerminal = false) {
  const command = [process.execPath, MAIN, 'jobs', '--follow', ...args]
  // script(1) gives it a terminal; -e is the exit code of the command.
  const [file, given] = onTerminal
    ? ['script', ['-qefc', command.join(' '), '/dev/null']]
    : [command[0]!, command.slice(1)]
  const child = spawn(file, given, { stdio: ['pipe', 'pipe', 'pipe'] })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const code = new Promise<number | null>(resolve => child.once('close', resolve))
  return { code, child, out: () => out, err: () => err }
}

test('a follower sees each change, through a kill -9 and a restart of the server', async () => {
  // A port that uWebSockets.js got by --port 0 cannot be bound again while connections linger.
  const held = await startHeld(join(temporaryFolder(), 'data'), ['--http', 'node'])
  const { dataDir, base } = held.server
  const pool = await filledPool(held.server, 'orders')
  held.hold()
  const update = await createJob(held.server, 'update', pool)
  const deletion = await createJob(held.server, 'deletion', pool)
  const asks = ['--data-dir', dataDir, '--url', base]
  await reaches(update, 'IN_PROGRESS', asks)
  const lines = follower(['orders', ...asks])
  const json = follower(['--json', ...asks])
  await until('both followers have seen both jobs', () =>
    [lines, json].every(({ out }) => out().split('\n').length === 3),
  )
  await held.server.kill()
  await until('both followers have noticed', () =>
    [lines, json].every(({ err }) => err().includes('cannot be reached')),
  )
  const { server } = await startHeld(dataDir, ['--http', 'node', '--port', new URL(base).port])
  expect([await lines.code, await json.code]).toEqual([0, 0])
  const shown = lines.out().trimEnd().split('\n')
  expect(shown.slice(0, 2)).toEqual([
    `${update} update records orders IN_PROGRESS 0 %`,
    `${deletion} delete records orders CREATED 0 %`,
  ])
  expect(shown).toContain(`${update} update records orders SUCCEEDED 100 %`)
  expect(shown.at(-1)).toBe(`${deletion} delete records orders SUCCEEDED 100 %`)
  expect(new Set(shown).size).toBe(shown.length) // a line is a change
  expect(lines.err().trimEnd().split('\n')).toEqual([
    expect.stringContaining('cannot be reached'),
    'the server answers again',
  ])
  const changes = json
    .out()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as ShownJob)
  expect(changes.at(-1)).toMatchObject({ id: deletion, status: 'SUCCEEDED', progress: 1 })
  expect(await server.count(pool)).toBe('0')
  expect(await weir(['jobs', '--follow', ...asks])).toMatchObject({ code: 0, out: 'no unfinished jobs\n' })
  await server.stop()
})

test('on a terminal bars are redrawn, and the terminal is left as it was', async () => {
  const held = await startHeld()
  const { server } = held
  const asks = ['--data-dir', server.dataDir, '--url', server.base]
  const pool = await filledPool(server, `x${HOSTILE}`)
  held.hold()
  const update = await createJob(server, 'update', pool)
  await reaches(update, 'IN_PROGRESS', asks)
  const watched = follower(asks, true)
  const interrupted = follower(asks, true)
  await until('both have drawn a bar', () =>
    [watched, interrupted].every(({ out }) => out().includes(`x${SHOWN_HOSTILE} [`)),
  )
  interrupted.child.stdin.write('\x03')
  expect(await interrupted.code).toBe(130)
  await weir(['jobs', '--cancel', update, ...asks])
  expect(await watched.code).toBe(1) // a job FAILED
  expect(watched.out()).toMatch(/ FAILED 0 %: The job was cancelled\.\r?\n/)
  for (const { out } of [watched, interrupted]) {
    for (const obeyed of ['\x07', '\x1b[2J', '\x1b]', '\u009b', '\u202e', '\x7f'])
      expect(out().includes(obeyed), JSON.stringify(obeyed)).toBe(false)
    expect(out().lastIndexOf('\x1b[?25h')).toBeGreaterThan(out().lastIndexOf('\x1b[?25l'))
    expect(out().lastIndexOf('\x1b[?7h')).toBeGreaterThan(out().lastIndexOf('\x1b[?7l'))
  }
  held.release()
  await server.stop()
})

test('jobs of a stopped folder and of a backup are listed without a change, and can be cancelled', async () => {
  const held = await startHeld()
  const { dataDir } = held.server
  const asks = ['--data-dir', dataDir]
  const pool = await filledPool(held.server, HOSTILE)
  held.hold()
  const update = await createJob(held.server, 'update', pool)
  const deletion = await createJob(held.server, 'deletion', pool)
  await reaches(update, 'IN_PROGRESS', [...asks, '--url', held.server.base])
  await held.server.stop()
  const backup = join(temporaryFolder(), 'backup')
  expect((await weir(['backup', backup, ...asks])).code).toBe(0)
  const before = contents(dataDir)
  for (const folder of [dataDir, backup]) {
    const jobs = await list(['--data-dir', folder])
    expect(jobs.map(({ id, status }) => [id, status])).toEqual([
      [update, 'IN_PROGRESS'],
      [deletion, 'CREATED'],
    ])
    expect((await list([HOSTILE, '--status', 'created', '--data-dir', folder])).map(({ id }) => id)).toEqual([
      deletion,
    ])
    const { out } = await weirInside(['jobs', '--data-dir', folder])
    expect(out.split('\n').filter(line => OBEYED.test(line))).toEqual([])
    const unknown = await weirInside(['jobs', 'nobody', '--data-dir', folder])
    expect([unknown.code, unknown.err]).toEqual([
      2,
      expect.stringContaining('there is no pool "nobody"; there are'),
    ])
  }
  expect(contents(dataDir)).toEqual(before)
  expect(existsSync(join(backup, 'LOCK'))).toBe(false)
  const ended = await weir(['jobs', '--cancel', deletion, ...asks])
  expect([ended.code, ended.out]).toEqual([0, expect.stringContaining('FAILED 0 %: The job was cancelled.')])
  expect(ended.err).toContain(`"mutation":"cancelJob"`)
  expect((await weir(['jobs', '--cancel', update, ...asks])).out).toContain('IN_PROGRESS (cancelled)')
  expect((await weir(['jobs', '--cancel', 'DPJ', ...asks])).code).toBe(2)
  const server = await startServer({ dataDir, env: OFTEN })
  const running = [...asks, '--url', server.base]
  expect(await reaches(update, 'FAILED', running)).toMatchObject({ error: 'The job was cancelled.' })
  expect([await server.count(pool), await server.sum(pool, 'n')]).toEqual(['100', '100'])
  await server.stop()
})
