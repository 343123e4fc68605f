/**
 * Loads a package as CommonJS, when it is called. Node reads a package that is imported file by file through its asynchronous
 * loader, and runs a lexer over each CommonJS file to learn its names: two to three times the processor time, in every
 * thread that needs it and at every start (docs/decisions/0016). A package that is loaded so here is loaded so everywhere:
 * the classes of two copies are not the same.
 */
import { createRequire } from 'node:module'

export const loadPackage: (name: string) => unknown = createRequire(import.meta.url)
