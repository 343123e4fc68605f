/**
 * A node that changes the catalog without a pause while it leads, for a test that stops its
 * process.
 *
 * Arguments: the port of ZooKeeper, ms of a session, a folder for its admin.json.
 */
import { openCatalog } from '../../src/catalog/open-catalog.ts'
import { openKeeperStore } from '../../src/cluster/keeper/keeper-store.ts'
import { Leader } from '../../src/cluster/keeper/leader.ts'
import { pathsOf } from '../../src/util/paths.ts'

const [port, sessionMs, folder] = process.argv.slice(2)
const store = await openKeeperStore({
  keeper: { servers: [{ host: '127.0.0.1', port: Number(port) }], sessionMs: Number(sessionMs) },
  root: '/weir',
  secretKey: Buffer.alloc(32, 7),
  layout: {},
  onFatal: error => {
    throw error
  },
})
const { catalog } = await openCatalog({ paths: pathsOf(folder!), store: Promise.resolve(store) })

async function work(ended: AbortSignal): Promise<void> {
  process.send?.({ leads: true })
  for (let made = 0; !ended.aborted; made += 1) {
    const put = () =>
      catalog.change(
        leader.fenced(memory => ({
          puts: [['meta', { ...memory.meta(), nextPoolNumber: memory.meta().nextPoolNumber + 1 }]],
          removes: [],
          result: null,
        })),
      )
    // A step that asks nobody: as a statement that a job sends.
    if (leader.isLeader()) process.send?.({ acts: made })
    await put().catch(() => undefined)
    // Without leadership nothing else gives way to timers here.
    await new Promise(resolve => setImmediate(resolve))
  }
  process.send?.({ leads: false })
}

const leader = new Leader({ store, path: '/weir/leader', onLead: ended => void work(ended) })
