#!/usr/bin/env node
/**
 * `weir`. Runs the bundle that set-up makes of the compiled files (setup/bundle.mjs): a start reads
 * some files in place of 370. Without a bundle it runs the compiled files.
 */
import { existsSync } from 'node:fs'

const bundled = new URL('../../bundle/run-command.js', import.meta.url)
await (existsSync(bundled) ? import(bundled.href) : import('./run-command.ts'))
