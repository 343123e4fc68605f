/**
 * Run by changes_match_model.test.ts: opens a catalog, and runs the changes that come as lines of
 * JSON. Each answer is a line.
 */
import { createInterface } from 'node:readline'
import { openCatalog } from '../../src/catalog/open-catalog.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { say } from '../../src/util/say.ts'
import { type Operation, runOperation } from './catalog-operations.ts'

const { catalog } = await openCatalog({ paths: pathsOf(process.argv[2] ?? '') })
say('opened')
for await (const line of createInterface({ input: process.stdin }))
  say(JSON.stringify(await runOperation(catalog, JSON.parse(line) as Operation)))
await catalog.stop()
