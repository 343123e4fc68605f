/** Entry point of the query process: binds its calls to the engine (src/query/duckdb/engine.ts). */
import type { DeletionVector } from '../src/index/index-types.ts'
import { DeletedRowsCache } from '../src/query/duckdb/deleted-rows-cache.ts'
import { emptySpillFolder } from '../src/query/duckdb/duckdb-instances.ts'
import { Engine } from '../src/query/duckdb/engine.ts'
import type { EngineCalls, EngineSettings } from '../src/query/duckdb/engine-calls.ts'
import { segmentsOf, take, withSegments } from '../src/query/duckdb/sent-segments.ts'
import { must } from '../src/util/errors.ts'
import { crashPoint } from '../src/util/fault-injection.ts'
import { beginProcess } from '../src/util/process-server.ts'
import { serve } from '../src/util/thread-server.ts'

const { port, data } = beginProcess<EngineSettings>()
const vectors = new DeletedRowsCache<readonly DeletionVector[]>(data.deletionVectorBytesMax)
let opened: Engine | undefined
const engine = () => must(opened, 'the engine is opened first')
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
      const done = await engine().run(withSegments(task, taken.segments))
      crashPoint('query-done')
      return done
    },
    cancel: id => opened?.cancel(id),
    parse: text => engine().parser.parse(text),
    parseStatement: text => engine().parser.parseStatement(text),
    forget: files => {
      vectors.forget(files)
      engine().forget(files)
    },
  },
  { interrupt: () => opened?.interruptAll(), close: () => opened?.close() },
)
