/** Entry point of the query process: binds its calls to the engine (src/query/engine.ts). */
import { DeletionVectorCache, segmentsOf, withSegments } from '../src/query/deletion-vector-cache.ts'
import { emptySpillFolder } from '../src/query/duckdb-instance.ts'
import { Engine } from '../src/query/engine.ts'
import type { EngineCalls, EngineSettings } from '../src/query/query-types.ts'
import { must } from '../src/util/assert.ts'
import { crashPoint } from '../src/util/fault-injection.ts'
import { beginProcess } from '../src/util/process-server.ts'
import { serve } from '../src/util/thread-server.ts'

const { port, data } = beginProcess<EngineSettings>()
const vectors = new DeletionVectorCache(data.deletionVectorBytesMax)
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
      const taken = vectors.take(segmentsOf(task))
      if ('missing' in taken) return taken
      const done = await engine().run(withSegments(task, taken.segments))
      crashPoint('query-done')
      return done
    },
    cancel: id => opened?.cancel(id),
    parse: text => engine().parse(text),
    parseStatement: text => engine().parseStatement(text),
    forget: async files => {
      vectors.forget(files)
      await engine().forget(files)
    },
  },
  { interrupt: () => opened?.interruptAll(), close: () => opened?.close() },
)
