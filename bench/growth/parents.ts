import type pg from 'pg';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults } from '../../src/lane/faults.js';
import { SILENT_OBSERVER } from '../../src/lane/lane-observer.js';
import { Lanes } from '../../src/lane/lanes.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { type PublishEventCommand, publishEvent } from '../../src/ledger/event/publish-event.js';
import { newId } from '../../src/rpc/new-id.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { serviceRole } from '../../src/store/migrate-roles.js';
import { callerOf } from '../lane/caller.js';
import {
  ACTION,
  DATA_CLASS,
  DOMAIN,
  HARNESSES,
  harnessSpiffeId,
  INPUT_SOURCE,
  PRINCIPAL,
  RESOURCE,
  SINK,
} from '../world/names.js';
import { readSql } from '../world/sql.js';
import { padded } from './binary.js';

const NUMBER_WIDTH = 8;
const GRANT_PREFIX = 'loaded-';
const EVENT_PREFIX = 'loaded-event-';
/** More than any of them is used. */
const MAX_USES = 1_000_000_000;
const LANE_CONNECTIONS = 2;
/** Published at once: what a lane queues without refusing. */
const AT_ONCE = 1_000;

/** Names are equally wide, so that what holds them is. */
export function grantName(number: number): string {
  return GRANT_PREFIX + padded(number, NUMBER_WIDTH);
}

export function eventName(number: number): string {
  return EVENT_PREFIX + padded(number, NUMBER_WIDTH);
}

/** Grants by their numbers, in turn for the harnesses. */
export async function insertGrants(sql: pg.Client, from: number, to: number): Promise<void> {
  await sql.query(await readSql('load-growth-grants.sql'), [
    ...[DOMAIN, GRANT_PREFIX, from, to, HARNESSES, PRINCIPAL],
    ...[ACTION, RESOURCE, INPUT_SOURCE, SINK, DATA_CLASS, MAX_USES],
  ]);
}

/** Publishes events by their numbers through a lane, in turn by the harnesses, each with its record and its entries. */
export async function publishLoadedEvents(url: string, from: number, to: number): Promise<void> {
  const pool = new ConnectionPool(
    { url, role: serviceRole, applicationName: 'surety-bench' },
    LANE_CONNECTIONS,
  );
  const lanes = new Lanes({
    pool,
    codec: auditCodec,
    faults: new Faults(undefined),
    observer: SILENT_OBSERVER,
    laneId: newId('lane'),
    queueLimit: AT_ONCE,
    batchLimit: 128,
  });
  try {
    for (let next = from; next < to; next += AT_ONCE) {
      const count = Math.min(AT_ONCE, to - next);
      const outcomes = await Promise.all(
        Array.from({ length: count }, (_, i) => lanes.submit(publishEvent, eventCommand(next + i))),
      );
      const refused = outcomes.find((outcome) => !outcome.ok);
      if (refused && !refused.ok) throw new Error(`an event was refused: ${refused.refusal.reason}`);
    }
  } finally {
    await lanes.drain();
    await pool.close();
  }
}

function eventCommand(number: number): PublishEventCommand {
  const harnessId = HARNESSES[number % HARNESSES.length] as string;
  const eventId = eventName(number);
  return {
    domainId: DOMAIN,
    commandId: newId('cmd'),
    caller: callerOf(harnessSpiffeId(DOMAIN, harnessId)),
    eventId,
    type: 'task.assigned',
    recipientHarnessIds: [],
    classification: DATA_CLASS as number as PublishEventCommand['classification'],
    payloadDigest: sha256(eventId),
    effectDeadline: null,
    parentEventId: null,
    origin: {
      kind: 'human_input',
      sourceId: 'support-desk',
      sourceDigest: sha256(eventId),
      observedAt: BigInt(Date.now()) * 1000n,
      principalId: PRINCIPAL,
      harnessId,
    },
    allowedSinks: [SINK],
  };
}
