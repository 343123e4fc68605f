/** Weir as process 1 of a container, which the kernel spares its own SIGKILL. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { SIGNAL_ECHO_MS } from '../../src/util/end-process.ts'
import { must } from '../../src/util/errors.ts'
import { Raw } from '../api/client.ts'
import { spawnServer, startServer, temporaryFolder } from '../util/server.ts'

/** Runs a program as process 1 of new namespaces. It dies with unshare(1). */
const AS_FIRST = ['unshare', '--map-root-user', '--pid', '--fork', '--kill-child', '--mount-proc']
const isAllowed =
  spawnSync(AS_FIRST[0]!, [...AS_FIRST.slice(1), 'true']).status === 0 &&
  existsSync(`/proc/${process.pid}/task/${process.pid}/children`)
const asFirst = isAllowed ? test : test.skip
const SKIPPED = isAllowed ? '' : ' (skipped: unshare(1) may not make namespaces here)'

/** Kills unshare(1), and so its child, where the test did not end it. */
const GIVE_UP_MS = 20_000

asFirst(`a second SIGTERM ends process 1 while a request is half sent${SKIPPED}`, async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const { child, ended, ready } = spawnServer({ dataDir, under: AS_FIRST })
  onTestFinished(() => void child.kill('SIGKILL'))
  const port = Number(new URL(await ready).port)
  const parent = must(child.pid, 'the pid of unshare')
  const first = Number(readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8'))
  const raw = await Raw.open(port)
  raw.write('POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf')
  while ((await fetch(`http://127.0.0.1:${port}/readyz`)).status !== 200); // then it has read the half
  process.kill(first, 'SIGTERM')
  await setTimeout(2 * SIGNAL_ECHO_MS) // an earlier copy of the signal is ignored
  process.kill(first, 'SIGTERM')
  const tooLong = setTimeout(GIVE_UP_MS, 'still there', { ref: false })
  const end = await Promise.race([ended, tooLong])
  expect(end).toMatchObject({ code: null }) // unshare(1) dies of the signal that its child died of
  raw.socket.destroy()
  expect((await (await startServer({ dataDir })).stop()).code).toBe(0)
})
