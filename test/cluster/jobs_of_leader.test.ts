/**
 * Jobs in a cluster: the node that leads runs those of all nodes, and the next leader goes on with
 * them. A runner that goes on after its node led writes nothing.
 */
import { describe, expect, onTestFinished, test } from 'vitest'
import { cancelJob, endCancelled, progressJob, succeedJob } from '../../src/catalog/change/change-job.ts'
import { createRewriteJob, isRewrite, startRewrite } from '../../src/catalog/change/change-rewrite.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { FencedCatalog } from '../../src/cluster/keeper/leader.ts'
import { type JobRunner, Jobs } from '../../src/jobs/run-jobs.ts'
import { must } from '../../src/util/errors.ts'
import { created } from '../catalog/folder.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { leadingNodeOf, leads } from './keeper-node.ts'
import { stoppableProxy } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

const SEED = newSeed()
const STEPS = 4

/** A step that a job of a node has begun. */
interface Step {
  readonly node: string
  readonly job: string
  readonly stopping: AbortSignal
  end(): void
  readonly refused: Promise<Error | undefined>
}

/** A node with jobs of STEPS steps each. A step waits for `end`, whatever the signal says. */
async function jobsOf(port: number, node: string, steps: Step[]) {
  const begun = { jobs: undefined as Jobs | undefined }
  const leading = await leadingNodeOf(port, {
    jobCreated: job => begun.jobs?.created(job),
    onLead: ended => begun.jobs?.start(ended),
  })
  const { catalog, leader } = leading
  const run: JobRunner = async ({ id }, stopping) => {
    const fenced = leader.fencedCatalog(catalog)
    await fenced.change(startRewrite(id, { segmentsBelow: 0, rows: STEPS }))
    for (let at = stepsDone(fenced, id); at < STEPS && !stopping.aborted; at += 1) {
      const now = catalog.read.jobs.get(id)
      if (now !== undefined && isRewrite(now) && now.isCancelled) {
        await fenced.change(endCancelled(id, now.progress))
        return
      }
      let [end, told] = [() => {}, (_: Error | undefined) => {}]
      const ends = new Promise<void>(resolve => {
        end = resolve
      })
      const refused = new Promise<Error | undefined>(resolve => {
        told = resolve
      })
      steps.push({ node, job: id, stopping, end, refused })
      await ends
      const written = fenced.change(progressJob(id, (at + 1) / STEPS))
      void written.then(() => told(undefined), told)
      await written
    }
    if (!stopping.aborted) await fenced.change(succeedJob(id))
  }
  const fatal: Error[] = []
  const kinds = {
    ADD_COLUMN: run,
    DELETE_RECORDS: run,
    UPDATE_RECORDS: run,
    IMPORT: run,
    REPLAY_REJECTED: run,
  }
  const jobs = new Jobs({
    memory: catalog.read,
    runners: kinds,
    onFatal: error => fatal.push(error),
    retryMs: 20,
  })
  begun.jobs = jobs
  onTestFinished(() => {
    for (const { end } of steps) end()
    return jobs.stop()
  })
  return { ...leading, node, jobs, jobErrors: fatal }
}

function stepsDone({ read }: FencedCatalog, id: string): number {
  return Math.round((read.jobs.get(id)?.progress ?? 0) * STEPS)
}

type Node = Awaited<ReturnType<typeof jobsOf>>

const poolOf = async ({ catalog }: Node, uniqueName: string) =>
  created(await catalog.change(createWebhookSource({ uniqueName }, 'APP1'))).pool.id

async function create({ catalog, jobs }: Node, dataPool: string) {
  const input = { filters: [], filterSql: null, set: [] }
  const asked = { ...input, kind: 'DELETE_RECORDS' as const, dataPool, beforeSequence: 1 }
  const job = await catalog.change(createRewriteJob(asked, 'APP1'))
  if (job === null || 'badRequest' in job) throw new Error('the job was refused')
  // As the API does, on the node that it came to.
  jobs.created(job)
  return job.id
}

const jobOf = ({ catalog }: Node, id: string) => must(catalog.read.jobs.get(id), 'a job')

describe.skipIf(noZookeeper !== undefined)(`jobs of a cluster ${noZookeeper ?? ''}`, () => {
  test('a job of any node runs on the leader, at once, and any node cancels it', async () => {
    const { port } = await startZookeeper()
    const steps: Step[] = []
    const one = await jobsOf(port, 'one', steps)
    await leads(one)
    const two = await jobsOf(port, 'two', steps)
    const pools = [await poolOf(one, 'a'), await poolOf(two, 'b')]
    const [first, second, third] = [
      await create(two, pools[0]!),
      await create(one, pools[1]!),
      await create(two, pools[0]!),
    ]
    await expect
      .poll(() => steps.map(({ node, job }) => [node, job]))
      .toEqual([
        ['one', first],
        ['one', second],
      ])
    await two.catalog.change(cancelJob(third, 'APP1'))
    await two.catalog.change(cancelJob(first, 'APP1'))
    steps[0]!.end()
    await expect.poll(() => jobOf(two, first).status).toBe('FAILED')
    for (let step = 1; step <= STEPS; step += 1) {
      await expect.poll(() => steps.length).toBeGreaterThan(step)
      expect(steps[step]).toMatchObject({ node: 'one', job: second })
      steps[step]!.end()
    }
    await expect.poll(() => jobOf(two, second).status).toBe('SUCCEEDED')
    await expect.poll(() => one.jobs.stats()).toEqual({ waiting: 0, running: 0 })
    expect(jobOf(one, third)).toMatchObject({ status: 'FAILED', startedAt: null })
    expect(steps).toHaveLength(1 + STEPS)
  })

  test('the next leader goes on, and what the former one still runs writes nothing', async () => {
    const { port } = await startZookeeper()
    const path = await stoppableProxy(port)
    const steps: Step[] = []
    const one = await jobsOf(path.port, 'one', steps)
    await leads(one)
    const two = await jobsOf(port, 'two', steps)
    const pool = await poolOf(two, 'a')
    const id = await create(two, pool)
    await expect.poll(() => steps.length).toBe(1)
    steps[0]!.end()
    await expect.poll(() => steps.length).toBe(2)
    path.stop()
    await expect.poll(() => steps[2]).toMatchObject({ node: 'two', job: id })
    expect(steps[1]!.stopping.aborted).toBe(true)
    // Its node is back, and no leader.
    path.go()
    await expect.poll(() => one.store.isCurrent()).toBe(true)
    const before = jobOf(one, id)
    steps[1]!.end()
    expect(await steps[1]!.refused).toMatchObject({ code: 'not_leader' })
    expect(jobOf(two, id)).toEqual(before)
    expect(before.progress).toBe(1 / STEPS)
    // It leads again, and has a job of its own to go on with.
    const last = await create(one, pool)
    await two.leader.stop()
    await two.stop()
    await leads(one)
    await expect.poll(() => steps.at(-1)).toMatchObject({ node: 'one', job: id })
    for (let step = 3; step < 3 + (STEPS - 1) + STEPS; step += 1) {
      await expect.poll(() => steps.length).toBeGreaterThan(step)
      steps[step]!.end()
    }
    await expect.poll(() => jobOf(one, last).status).toBe('SUCCEEDED')
    expect([jobOf(one, id).status, one.jobErrors, two.jobErrors]).toEqual(['SUCCEEDED', [], []])
  })

  test(`leaders come and go: each job ends, and none is run by two at once, seed ${SEED}`, async () => {
    const { port } = await startZookeeper()
    const random = randomFrom(SEED)
    const steps: Step[] = []
    const nodes = [await jobsOf(port, 'n0', steps), await jobsOf(port, 'n1', steps)]
    const last = await jobsOf(port, 'last', steps)
    const ids: string[] = []
    const pools = await Promise.all(['a', 'b', 'c'].map(name => poolOf(last, name)))
    let ended = 0
    const endSteps = async () => {
      for (; ended < steps.length; ended += 1) {
        const { job, node, stopping } = steps[ended]!
        const others = steps.slice(0, ended).filter(step => step.job === job && step.node !== node)
        for (const other of others) expect(other.stopping.aborted, job).toBe(true)
        if (!stopping.aborted || random() < 0.5) steps[ended]!.end()
        await new Promise(resolve => setImmediate(resolve))
      }
    }
    for (let round = 0; round < 4; round += 1) {
      for (let i = 0; i < 5; i += 1) {
        const node = [...nodes, last][Math.floor(random() * 3)]!
        ids.push(await create(node, pools[Math.floor(random() * 3)]!))
        await endSteps()
      }
      const led = nodes.findIndex(({ leader }) => leader.isLeader())
      if (led < 0) continue
      await nodes[led]!.leader.stop()
      await nodes[led]!.stop()
      nodes[led] = await jobsOf(port, `n${round + 2}`, steps)
    }
    await expect
      .poll(async () => {
        await endSteps()
        return ids.filter(id => jobOf(last, id).status !== 'SUCCEEDED')
      })
      .toEqual([])
    expect([...nodes, last].flatMap(({ jobErrors }) => jobErrors)).toEqual([])
  })
})
