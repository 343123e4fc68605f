/**
 * Runs with every test file: ends its servers and removes its folders with the file. Skips what
 * a cluster has not, where the servers are nodes of one (cluster/suites.mjs).
 */
import { afterAll, beforeEach } from 'vitest'
import { dropDatabases, STORE, whyNot } from './cluster-node.ts'
import { removeLeftovers } from './server.ts'

if (STORE !== 'local')
  beforeEach(({ task, skip }) => {
    const why = whyNot(task.file.name, task.name)
    if (why !== undefined) skip(why)
  })

afterAll(async () => {
  removeLeftovers()
  await dropDatabases()
})
