import fc from 'fast-check';

/**
 * Properties are tried with the same cases in each run, so that a run says something about the change and nothing of its
 * luck; `SURETY_TEST_SEED=<number>` tries others, and `SURETY_TEST_SEED=random` others each time.
 */
const asked = process.env['SURETY_TEST_SEED'];
if (asked !== 'random') fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(asked ?? 1) });
