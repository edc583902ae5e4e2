import { beforeEach, describe, expect, it } from 'vitest';
import type { GateShapeField } from '../../../src/ledger/action/gate-shapes.js';
import { BUILT_IN_SHAPES } from '../../../src/ledger/action/gate-shapes.js';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { Mutation } from '../../../src/ledger/authority/mutations.js';
import { command, done, emptyWorld, reasonOf } from '../../support/command-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';

let world: LedgerWorld;
beforeEach(() => {
  world = emptyWorld();
});

const text = (name: string): GateShapeField => ({ name, kind: 'text' });
const UNTIL: GateShapeField = { name: 'until', kind: 'expiry' };

function shape(gateShapeId: string, fields: readonly GateShapeField[]): Mutation {
  return { kind: 'put_gate_shape', gateShapeId, fields, status: 'active' };
}

/** The shape, or none, that is in the way. */
function overlapOf(mutation: Mutation): string {
  const outcome = world.run(executeCommand, command(world, mutation));
  if (outcome.ok) return 'done';
  expect(outcome.refusal.reason).toBe('GATE_SHAPE_OVERLAP');
  return outcome.refusal.resource?.name ?? '';
}

describe('a shape of gates', () => {
  it('has a set of fields that no other has, in whatever order', () => {
    done(world, shape('invoice', [text('invoice'), UNTIL]));
    expect(overlapOf(shape('bill', [UNTIL, text('invoice')]))).toBe('invoice');
    expect(overlapOf(shape('bill', [{ name: 'until', kind: 'text' }, text('invoice')]))).toBe('invoice');
    done(world, shape('fewer', [text('invoice')]));
    done(world, shape('more', [text('invoice'), UNTIL, text('line')]));
  });

  it('is none of the built-in ones', () => {
    for (const { gateShapeId, fields } of BUILT_IN_SHAPES) {
      expect(
        overlapOf(
          shape(
            'mine',
            fields.map(({ name }) => text(name)),
          ),
        ),
      ).toBe(gateShapeId);
    }
  });

  it('is suspended and resumed, and keeps its fields and their place', () => {
    done(world, shape('invoice', [UNTIL, text('invoice')]));
    const suspended = { ...shape('invoice', [text('invoice'), UNTIL]), status: 'suspended' } as Mutation;
    expect(done(world, suspended)).toBe(2n);
    expect(world.find('gate_shapes')).toMatchObject({
      fieldNames: ['invoice', 'until'],
      fieldKinds: ['text', 'expiry'],
      status: 'suspended',
    });
    expect(overlapOf(shape('bill', [text('invoice'), UNTIL]))).toBe('invoice');
    expect(done(world, shape('invoice', [text('invoice'), UNTIL]))).toBe(3n);
    expect(reasonOf(world, shape('invoice', [text('invoice')]))).toBe('FIELD_INVALID');
    const narrower = shape('invoice', [{ ...text('invoice'), value: 'one' }, UNTIL]);
    expect(reasonOf(world, narrower)).toBe('FIELD_INVALID');
  });

  it('is one of at most 64', () => {
    for (let i = 0; i < 64; i += 1) done(world, shape(`shape-${i}`, [text(`field_${i}`)]));
    expect(reasonOf(world, shape('one-more', [text('field')]))).toBe('FIELD_INVALID');
    const suspended = { ...shape('shape-3', [text('field_3')]), status: 'suspended' } as Mutation;
    expect(done(world, suspended)).toBe(2n);
  });
});

describe('conditions and tools', () => {
  it('are made, changed and numbered', () => {
    const condition = (expression: string): Mutation => ({
      kind: 'put_action_condition',
      actionType: 'mail.send',
      expression,
      status: 'active',
    });
    expect(done(world, condition('true'))).toBe(1n);
    expect(done(world, condition('false'))).toBe(2n);
    expect(world.find('action_conditions')).toMatchObject({ expression: 'false', revision: 2n });
    const tool = (nonGrantable: boolean): Mutation => ({
      kind: 'put_tool',
      toolName: 'mailer',
      nonGrantable,
      status: 'active',
    });
    expect(done(world, tool(false))).toBe(1n);
    expect(done(world, tool(true))).toBe(2n);
    expect(world.find('tools')).toMatchObject({ nonGrantable: true, revision: 2n });
  });

  it('rest on the revision that the command names', () => {
    const mutations: Mutation[] = [
      shape('invoice', [text('invoice')]),
      { kind: 'put_action_condition', actionType: 'mail.send', expression: 'true', status: 'active' },
      { kind: 'put_tool', toolName: 'mailer', nonGrantable: false, status: 'active' },
    ];
    for (const mutation of mutations) {
      expect(reasonOf(world, mutation, { header: { expectedEntityRevision: 7n } })).toBe('REVISION_STALE');
      done(world, mutation);
      expect(reasonOf(world, mutation, { header: { expectedEntityRevision: 0n } })).toBe('REVISION_STALE');
    }
  });
});
