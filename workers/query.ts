/** Entry point of the query process: binds its calls to the engine (src/query/duckdb/engine.ts). */
import { readFileSync } from 'node:fs'
import type { DeletionVector } from '../src/index/index-types.ts'
import { DeletedRowsCache } from '../src/query/duckdb/deleted-rows-cache.ts'
import { emptySpillFolder } from '../src/query/duckdb/duckdb-instances.ts'
import { dataBytesOf } from '../src/query/duckdb/duckdb-limits.ts'
import { Engine } from '../src/query/duckdb/engine.ts'
import type { EngineCalls, EngineSettings } from '../src/query/duckdb/engine-calls.ts'
import { segmentsOf, take, withSegments } from '../src/query/duckdb/sent-segments.ts'
import { firstLine, isBroken, PROCESS_MEMORY } from '../src/util/duckdb-errors.ts'
import { must, Unavailable } from '../src/util/errors.ts'
import { crashPoint } from '../src/util/fault-injection.ts'
import { beginProcess } from '../src/util/process-server.ts'
import { warn } from '../src/util/say.ts'
import { serve } from '../src/util/thread-server.ts'

const { port, data } = beginProcess<EngineSettings>()
const vectors = new DeletedRowsCache<readonly DeletionVector[]>(data.deletionVectorBytesMax)
let opened: Engine | undefined
const engine = () => must(opened, 'the engine is opened first')
/**
 * A bug of DuckDB's ends the process, as a crash of its code does. So does a query for which the
 * system had no memory, where the process keeps what it took. The next process is sound.
 */
async function sound<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Unavailable && error.code === PROCESS_MEMORY) setTimeout(endIfFull, ANSWER_MS)
    if (!isBroken(error)) throw error
    warn(`the query process ends: ${firstLine(error)}`)
    end()
    throw error
  }
}

/** Time for the answer on its way to the main thread. */
const ANSWER_MS = 20

/** Part of its memory from which a process without room ends. */
const FULL_SHARE = 1 / 2

function endIfFull(): void {
  const pages = Number(readFileSync('/proc/self/statm', 'latin1').split(' ')[5])
  if (pages * PAGE_BYTES > dataBytesOf(data) * FULL_SHARE) end()
}

const PAGE_BYTES = 4096

function end(): void {
  process.kill(process.pid, 'SIGKILL')
}

serve<EngineCalls>(
  port,
  {
    open: async () => {
      emptySpillFolder(data)
      opened = await Engine.open(data)
    },
    run: async task => {
      const taken = take(segmentsOf(task.source), vectors)
      if ('missing' in taken) return taken
      const done = await sound(engine().run(withSegments(task, taken.segments)))
      crashPoint('query-done')
      return done
    },
    cancel: id => opened?.cancel(id),
    parse: text => sound(engine().parser.parse(text)),
    parseStatement: text => sound(engine().parser.parseStatement(text)),
    guard: ({ text, dialect }) => sound(engine().parser.guard(text, dialect)),
    forget: files => {
      vectors.forget(files)
      engine().forget(files)
    },
  },
  { interrupt: () => opened?.interruptAll(), close: () => opened?.close() },
)
