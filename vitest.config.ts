import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Hundreds of tests play with real processes and clocks on a shared machine. One that needs its second try is printed
    // with `(retry x1)`: it is a defect to be looked into, of the test or of the code. Nobody gets a second try at home.
    retry: process.env['CI'] ? 1 : 0,
    reporters: process.env['CI'] ? ['default', 'json'] : ['default'],
    outputFile: { json: 'test-report/vitest.json' },
  },
});
