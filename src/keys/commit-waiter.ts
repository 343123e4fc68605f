/** Which commit of the index the manifest knows, and waiting until it knows a later one. */
import { assert } from '../util/assert.ts'

/** The last commit applied, and waiting for a later one. At most one waits per pool that loads its marks. */
export function createWaiter(start: number) {
  let last = start
  let waiting: { readonly commit: number; readonly go: () => void }[] = []
  return {
    now: () => last,
    set: (commit: number) => {
      assert(commit === last || commit === last + 1, 'commits are applied in order')
      last = commit
      const ready = waiting.filter(waiter => waiter.commit <= last)
      waiting = waiting.filter(waiter => waiter.commit > last)
      for (const waiter of ready) waiter.go()
    },
    reached: (commit: number): Promise<void> =>
      commit <= last
        ? Promise.resolve()
        : new Promise(resolve => {
            waiting.push({ commit, go: resolve })
          }),
  }
}
