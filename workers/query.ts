/** Entry point of the query thread: binds its calls to the engine (src/query/engine.ts). */
import { Engine } from '../src/query/engine.ts'
import type { EngineCalls, EngineSettings } from '../src/query/query-types.ts'
import { crashPoint } from '../src/util/fault-injection.ts'
import { beginThread, serve } from '../src/util/thread-server.ts'

const { port, data } = beginThread<EngineSettings>()
const engine = await Engine.open(data)
serve<EngineCalls>(
  port,
  {
    open: () => undefined, // answered once the engine is open
    run: async task => {
      const done = await engine.run(task)
      crashPoint('query-done')
      return done
    },
    forget: files => engine.forget(files),
  },
  { interrupt: () => engine.interruptAll(), close: () => engine.close() },
)
