/** The query worker: binds messages to the engine (src/query/engine.ts). */
import { parentPort, workerData } from 'node:worker_threads'
import { toWire } from '../src/errors.ts'
import { Engine } from '../src/query/engine.ts'
import type { EngineWorkerData, FromEngine, ToEngine } from '../src/query/wire.ts'
import { must } from '../src/util/assert.ts'
import { armCrash, crashPoint } from '../src/util/crash.ts'
import { nameThread } from '../src/util/thread-name.ts'

nameThread('query')
const port = must(parentPort, 'the port to the main thread')
const settings = workerData as EngineWorkerData
armCrash(settings.crashAt)

const engine = await Engine.open(settings)
const running = new Set<Promise<void>>()

function tell(message: FromEngine): void {
  port.postMessage(message)
}

async function run(message: ToEngine & { kind: 'run' }): Promise<void> {
  try {
    const done = await engine.run(message.job)
    crashPoint('query-done')
    tell({ kind: 'done', id: message.id, done })
  } catch (error) {
    tell({ kind: 'failed', id: message.id, error: toWire(error) })
  }
}

async function stop(): Promise<void> {
  engine.interruptAll()
  await Promise.all(running)
  engine.close()
  port.close()
}

port.on('message', (message: ToEngine) => {
  if (message.kind === 'stop') {
    void stop()
    return
  }
  const turn = run(message).finally(() => running.delete(turn))
  running.add(turn)
})
tell({ kind: 'ready' })
