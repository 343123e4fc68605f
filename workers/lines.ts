/** Entry point of the lines thread: binds its calls to the writers (src/util/line-writer.ts). */
import { must } from '../src/util/errors.ts'
import { BEGUN, type LineCalls, LineWriter, OUTPUTS } from '../src/util/line-writer.ts'
import { beginThread, serve } from '../src/util/thread-server.ts'

const { port, data: state } = beginThread<Int32Array>()
const writers = OUTPUTS.map((_, output) => new LineWriter(state, output))
serve<LineCalls>(port, { write: line => must(writers[line.output], 'the output of a line').add(line) })
Atomics.store(state, BEGUN, 1)
Atomics.notify(state, BEGUN)
