import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTrustDomain, parseSpiffeId, SpiffeIdInvalid } from '../../src/identity/spiffe-id.js';

function problemOf(raw: string): string {
  try {
    parseSpiffeId(raw);
    return 'accepted';
  } catch (error) {
    if (error instanceof SpiffeIdInvalid) return error.problem;
    throw error;
  }
}

describe('SPIFFE ID grammar (identity.md, The connection)', () => {
  it.each([
    ['spiffe://acme.test/executor/payments-a', 'acme.test', '/executor/payments-a'],
    ['spiffe://a/b', 'a', '/b'],
    ['spiffe://a-b_c.9/A.b_C-9', 'a-b_c.9', '/A.b_C-9'],
    ['spiffe://acme.test/...', 'acme.test', '/...'],
    ['spiffe://acme.test/.hidden/..x', 'acme.test', '/.hidden/..x'],
  ])('accepts %s', (raw, trustDomain, path) => {
    expect(parseSpiffeId(raw)).toEqual({ id: raw, trustDomain, path });
  });

  it.each([
    ['', 'NOT_SPIFFE'],
    ['https://acme.test/x', 'NOT_SPIFFE'],
    ['SPIFFE://acme.test/x', 'NOT_SPIFFE'],
    ['spiffe:/acme.test/x', 'NOT_SPIFFE'],
    [' spiffe://acme.test/x', 'NOT_SPIFFE'],
    ['spiffe:///x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://Acme.test/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme.test:443/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://user@acme.test/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme%2etest/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme.test?x=/y', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme..test/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://.acme.test/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme.test./x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://../x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://[::1]/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://ácme.test/x', 'TRUST_DOMAIN_INVALID'],
    ['spiffe://acme.test', 'PATH_MISSING'],
    ['spiffe://acme.test/', 'PATH_INVALID'],
    ['spiffe://acme.test/x/', 'PATH_INVALID'],
    ['spiffe://acme.test//x', 'PATH_INVALID'],
    ['spiffe://acme.test/./x', 'PATH_INVALID'],
    ['spiffe://acme.test/x/..', 'PATH_INVALID'],
    ['spiffe://acme.test/x%2fy', 'PATH_INVALID'],
    ['spiffe://acme.test/x?y', 'PATH_INVALID'],
    ['spiffe://acme.test/x#y', 'PATH_INVALID'],
    ['spiffe://acme.test/x\n', 'PATH_INVALID'],
    ['spiffe://acme.test/x\0', 'PATH_INVALID'],
    ['spiffe://acme.test/x, URI:spiffe://acme.test/y', 'PATH_INVALID'],
    ['spiffe://acme.test/"x"', 'PATH_INVALID'],
    ['spiffe://acme.test/x y', 'PATH_INVALID'],
    ['spiffe://acme.test/é', 'PATH_INVALID'],
  ])('refuses %s', (raw, problem) => {
    expect(problemOf(raw)).toBe(problem);
  });

  it('accepts 2048 bytes and a trust domain of 255, and not one more', () => {
    expect(problemOf(`spiffe://acme.test/${'a'.repeat(2048 - 18)}`)).toBe('TOO_LONG');
    expect(problemOf(`spiffe://${'a'.repeat(256)}/x`)).toBe('TRUST_DOMAIN_INVALID');
    expect(problemOf(`spiffe://acme.test/${'a'.repeat(2048 - 19)}`)).toBe('accepted');
    expect(problemOf(`spiffe://${'a'.repeat(255)}/x`)).toBe('accepted');
    expect(isTrustDomain('a'.repeat(256))).toBe(false);
  });

  it('gives back the very string, whatever it accepts', () => {
    const parts = fc.stringMatching(/^[\w.%/?#:@-]{0,12}$/);
    fc.assert(
      fc.property(parts, parts, (domain, path) => {
        const raw = `spiffe://${domain}/${path}`;
        if (problemOf(raw) !== 'accepted') return;
        const parsed = parseSpiffeId(raw);
        expect(`spiffe://${parsed.trustDomain}${parsed.path}`).toBe(raw);
        expect(raw.slice('spiffe://'.length)).not.toMatch(/[%?#:@]|\/\.{0,2}(\/|$)/);
      }),
      { numRuns: 2_000 },
    );
  });
});
