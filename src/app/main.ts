#!/usr/bin/env node
/**
 * `weir`. Runs the bundle that set-up makes of the compiled files (setup/bundle.mjs): the main
 * thread of a start reads 90 files in place of 328. Without a bundle it runs the compiled files.
 */
import { existsSync } from 'node:fs'

if (existsSync(new URL('../../bundle/run-command.js', import.meta.url)))
  // @ts-expect-error It is made after this file is compiled.
  await import('../../bundle/run-command.js')
else await import('./run-command.ts')
