/**
 * Run by kill_at_crash_points.test.ts: opens a catalog, creates or deletes a pool, and prints the
 * answer.
 */
import { deletePool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import { openCatalog } from '../../src/catalog/open-catalog.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { say } from '../../src/util/say.ts'

const [root = '', crashAt = '', action = ''] = process.argv.slice(2)
const { catalog } = await openCatalog({ paths: pathsOf(root), crashAt })
say('opened')
if (action === 'create') await catalog.change(createWebhookSource({ uniqueName: 'made' }, 'APP1'))
if (action === 'delete') await catalog.change(deletePool({ uniqueName: 'made' }))
say('answered')
await catalog.stop()
