/**
 * Runs with every test file: ends its servers and removes its folders when the file ends.
 */
import { afterAll } from 'vitest'
import { removeLeftovers } from './server.ts'

afterAll(removeLeftovers)
