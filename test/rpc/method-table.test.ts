import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkMethodTable, METHOD_TABLE, MethodTableError } from '../../src/identity/method-table.js';
import { CONTRACT_FILES, CONTRACT_SERVICES } from '../../src/rpc/contract.js';

const generated = fileURLToPath(new URL('../../src/gen/', import.meta.url));

describe('the contract', () => {
  it('knows every generated file of ours', () => {
    const files = readdirSync(generated, { recursive: true, encoding: 'utf8' })
      .filter((file) => /^(surety|grpc)\/.*_pb\.ts$/.test(file))
      .map((file) => relative(generated, join(generated, file)).replace(/_pb\.ts$/, '.proto'));
    const known = new Set(CONTRACT_FILES.map(({ proto }) => proto.name));
    expect(files.filter((file) => !known.has(file))).toEqual([]);
    expect(files.length).toBeGreaterThan(20);
  });
});

describe('the method table', () => {
  it('has one row for each method of the contract, and no other', () => {
    expect(() => checkMethodTable(CONTRACT_SERVICES)).not.toThrow();
  });

  it('stops the start when a method has no row, or a row no method', () => {
    const table = new Map(METHOD_TABLE);
    table.delete('surety.effect.v1.EffectService/Reconcile');
    table.set('surety.effect.v1.EffectService/Perform', { kinds: new Set(), domain: { from: 'own' } });
    const error = catchError(() => checkMethodTable(CONTRACT_SERVICES, table));
    expect(error).toBeInstanceOf(MethodTableError);
    expect(error).toMatchObject({
      withoutRow: ['surety.effect.v1.EffectService/Reconcile'],
      withoutMethod: ['surety.effect.v1.EffectService/Perform'],
    });
  });

  it('names a string field of the request wherever a request names the domain', () => {
    for (const service of CONTRACT_SERVICES) {
      for (const method of service.methods) {
        const { domain } = METHOD_TABLE.get(`${service.typeName}/${method.name}`) ?? {
          domain: { from: 'own' as const },
        };
        const path = 'field' in domain ? domain.field.split('.') : [];
        let message: typeof method.input | undefined = method.input;
        for (const name of path) {
          const field: (typeof method.input.fields)[number] | undefined = message?.fields.find(
            (one) => one.name === name,
          );
          expect(field, `${method.toString()} ${name}`).toBeDefined();
          message = field?.message;
        }
        // And the other way round: a request that has the field is asked for it.
        if (method.input.fields.some(({ name }) => name === 'domain_id'))
          expect(domain.from, method.toString()).not.toBe('own');
      }
    }
  });

  it('lets no executor reconcile, no reconciler execute, and nobody but harnesses reserve or cancel', () => {
    const kinds = (method: string) => [
      ...(METHOD_TABLE.get(`surety.effect.v1.EffectService/${method}`)?.kinds ?? []),
    ];
    expect(kinds('Reconcile')).toEqual(['reconciler']);
    for (const method of ['StartExecution', 'MarkUnknown', 'AcknowledgeTerminal']) {
      expect(kinds(method)).toEqual(['executor']);
    }
    expect(kinds('ReserveEffect')).toEqual(['harness']);
    expect(kinds('CancelEffect')).toEqual(['harness']);
  });

  it('lets auditors only read', () => {
    const open = [...METHOD_TABLE].filter(([, { kinds }]) => kinds.has('auditor')).map(([method]) => method);
    const reads = /\/(Get|List|Watch|Verify|Check|WhoAmI|ConsumeNonce)/;
    expect(open.filter((method) => !reads.test(method))).toEqual([]);
  });
});

function catchError(run: () => void): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
