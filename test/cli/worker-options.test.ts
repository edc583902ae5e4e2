import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/cli/failure.js';
import { readWorkerOptions } from '../../src/cli/worker/read-options.js';
import { DEFAULT_POLICY } from '../../src/cli/worker/worker-context.js';

const PROVIDER = ['--provider', 'http://provider.test/base'];

describe('surety worker, called', () => {
  test('with a provider alone has the usual policy, and is for every action', () => {
    expect(readWorkerOptions(PROVIDER)).toMatchObject({
      registrationId: '',
      provider: new URL('http://provider.test/base'),
      policy: DEFAULT_POLICY,
      once: false,
      json: false,
    });
    expect(readWorkerOptions(PROVIDER).scope).toBeUndefined();
  });

  test.each([
    [['--scope', 'mail'], { sourceScope: { case: 'source', value: 'mail' }, types: [] }],
    [['--scope', 'mail-*'], { sourceScope: { case: 'sourcePrefix', value: 'mail-' }, types: [] }],
    [['--type', 'a', '--type', 'b'], { types: ['a', 'b'] }],
  ])('with %j is for these', (args, scope) => {
    expect(readWorkerOptions([...PROVIDER, ...args]).scope).toEqual(scope);
  });

  test('with durations and a budget goes by them', () => {
    const args = [
      '--lease',
      '2m',
      '--window',
      '30m',
      '--observations',
      '3',
      '--delay',
      '10s',
      '--timeout',
      '500ms',
    ];
    expect(readWorkerOptions([...PROVIDER, ...args, '--poll', '20ms']).policy).toEqual({
      leaseMs: 120_000,
      observationWindowMs: 1_800_000,
      verifyWindowMs: 1_800_000,
      maxObservations: 3,
      observeDelayMs: 10_000,
      retryDelayMs: 10_000,
      providerTimeoutMs: 500,
      pollMs: 20,
    });
  });

  test.each([
    ['no provider', [], '--provider must be given'],
    ['another scheme', ['--provider', 'ftp://x/'], '--provider: must be a URL of http or https'],
    ['a password', ['--provider', 'http://a:b@x/'], 'without user, query and fragment'],
    ['a query', ['--provider', 'http://x/?a=b'], 'without user, query and fragment'],
    ['no URL', ['--provider', 'x'], '--provider: must be a URL of http or https'],
    ['every source', [...PROVIDER, '--scope', '*'], '--scope: must name a source'],
    ['no source', [...PROVIDER, '--scope', ''], '--scope: must name a source'],
    ['no budget', [...PROVIDER, '--observations', '0'], '--observations: must be 1 to 100'],
    ['half an executor', [...PROVIDER, '--executor-cert', 'c'], 'are given together'],
    ['a certificate without its key', [...PROVIDER, '--cert', 'c'], '--cert and --key are given together'],
    ['a lease of a day', [...PROVIDER, '--lease', '1d'], '--lease: must be 1000 ms to 3600000 ms'],
    ['a word for a delay', [...PROVIDER, '--delay', 'soon'], '--delay: must be a duration'],
  ])('with %s says what is wrong', (_, args, rule) => {
    const call = (): unknown => readWorkerOptions(args);
    expect(call).toThrow(UsageError);
    expect(call).toThrow(rule);
  });
});
