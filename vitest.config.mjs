import { defineConfig } from 'vitest/config'

// Tests run as compiled: the same files that ship, worker threads and native module included.
export default defineConfig({
  test: {
    include: ['dist/test/**/*.test.js'],
    setupFiles: ['dist/test/util/clean-up.js'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    reporters: ['default', ['json', { outputFile: 'dist/test-results.json' }]],
  },
})
