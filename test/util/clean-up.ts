/** Runs with every test file: what its servers and folders left goes when the file ends, however its process ends. */
import { afterAll } from 'vitest'
import { removeLeftovers } from './server.ts'

afterAll(removeLeftovers)
