import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { durationFromMs, timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { SERVICE_TRUST_DOMAIN } from '../certs/callers.js';
import type { CertificateLayout } from '../certs/layout.js';
import { AdminSession, type Mutation } from '../src/cli/client/admin-session.js';
import { registerWorkload } from '../src/cli/client/register-workload.js';
import { Channel } from '../src/cli/client/service-client.js';
import type { ServiceName, WorkloadSession } from '../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
  setUpDomain,
} from '../src/cli/demo/set-up-domain.js';
import { EffectService } from '../src/gen/surety/effect/v1/effect_service_pb.js';
import { EventService } from '../src/gen/surety/event/v1/event_service_pb.js';
import { RecordStatus, type WorkloadRole } from '../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../src/gen/surety/identity/v1/workload_service_pb.js';
import { OriginKind } from '../src/gen/surety/provenance/v1/record_pb.js';
import { ClockService } from '../src/gen/surety/testing/v1/clock_service_pb.js';
import { importSigningKey, type SigningKey } from '../src/identity/sign.js';
import { expectThere } from './expect.js';

/** How long a grant for an effect lasts, in milliseconds: longer than any case. */
const GRANT_MS = 3_600_000;

/** Everybody who calls. */
export type PartyName = 'operator' | 'auditor' | 'harness' | 'owner' | 'secondOwner' | 'worker' | 'courier';

/**
 * A domain of a running service, and everybody's connection to it. It speaks nothing but the API and the formats of signed
 * messages, so that any implementation can stand behind it.
 */
export class DomainWorld {
  private readonly channels = new Map<string, Channel>();
  private offsetMs = 0;
  private named: ServiceName | undefined;

  protected constructor(
    readonly target: string,
    readonly layout: CertificateLayout,
    readonly domainId: string,
  ) {}

  /** Who is who, of the development set. */
  get names(): Readonly<Record<PartyName, string>> {
    const own = (path: string): string => `spiffe://${this.domainId}/${path}`;
    return {
      operator: `spiffe://${SERVICE_TRUST_DOMAIN}/operator/root`,
      auditor: `spiffe://${SERVICE_TRUST_DOMAIN}/auditor/ann`,
      harness: own('harness/planner'),
      owner: own('owner/olga'),
      worker: own('worker/mailer'),
      // The registry says what a name is, its path does not: here these two are a worker and an owner.
      courier: own('executor/payments-a'),
      secondOwner: own('reconciler/bank'),
    };
  }

  /** What signed messages name the service by. */
  get service(): ServiceName {
    return expectThere("the service's name", this.named);
  }

  get admin(): AdminSession {
    return new AdminSession(this.channelOf('operator'), this.signingKey('operator'));
  }

  channelOf(who: PartyName): Channel {
    const spiffeId = this.names[who];
    const there = this.channels.get(spiffeId);
    if (there) return there;
    const files = expectThere(`the certificate of ${spiffeId}`, this.layout.callers[spiffeId]);
    const channel = new Channel(this.target, {
      certificate: readFileSync(files.cert),
      key: readFileSync(files.key),
      roots: readFileSync(this.layout.serviceBundle),
    });
    this.channels.set(spiffeId, channel);
    return channel;
  }

  signingKey(who: PartyName): SigningKey {
    const spiffeId = this.names[who];
    const files = expectThere(`the signing key of ${spiffeId}`, this.layout.signingKeys[spiffeId]);
    return importSigningKey(readFileSync(files.pem, 'utf8'));
  }

  /** The store's clock, in milliseconds, as well as it is known without asking. */
  now(): number {
    return Date.now() + this.offsetMs;
  }

  /** Moves the store's clock; the sweeps have run once when it returns. */
  async advance(ms: number): Promise<void> {
    const { nowTime } = await this.clock.advance({ by: durationFromMs(ms) });
    this.offsetMs = timestampMs(expectThere("the store's clock", nowTime)) - Date.now();
  }

  /** One signed command in the domain. */
  async command(mutation: Mutation): Promise<void> {
    await this.admin.execute(this.domainId, mutation, 'conformance');
  }

  /** Registers a workload. @param key its proof key; a new one unless given */
  register(who: PartyName, role: WorkloadRole, key?: SigningKey): Promise<WorkloadSession> {
    const wish = { domainId: this.domainId, spiffeId: this.names[who], role, workloadId: 'conformance' };
    return registerWorkload(this.admin, this.channelOf(who), this.channelOf('operator'), wish, key);
  }

  /** Ends every registration of a workload, those of earlier runs too. */
  async revokeAll(who: PartyName): Promise<void> {
    const request = {
      domainId: this.domainId,
      spiffeId: this.names[who],
      status: RecordStatus.ACTIVE,
      pageSize: 1000,
    };
    const { registrations } = await this.channelOf('operator')
      .service(WorkloadService)
      .listWorkloads(request);
    for (const { spec } of registrations) {
      const { registrationId } = expectThere('the registration', spec);
      await this.command({ case: 'revokeWorkload', value: { registrationId } });
    }
  }

  /** An effect of the harness, PREPARED, for the request with this digest. */
  async reserveEffect(requestDigest: Uint8Array<ArrayBuffer>): Promise<string> {
    const name = randomUUID();
    const [eventId, grantId] = [`event-${name}`, `grant-${name}`];
    const harness = this.channelOf('harness');
    const observedTime = timestampFromMs(this.now());
    const origin = {
      kind: OriginKind.HUMAN_INPUT,
      sourceId: 'desk',
      sourceDigest: requestDigest,
      observedTime,
    };
    await harness.service(EventService).publishEvent({
      eventId,
      type: 'task.assigned',
      classification: DEMO_DATA_CLASS,
      payloadDigest: requestDigest,
      origin: { ...origin, principalId: DEMO_PRINCIPAL, harnessId: DEMO_HARNESS },
      allowedSinks: [DEMO_SINK],
    });
    const resource = `order-${name}`;
    const covered = { actions: [DEMO_ACTION], resources: [resource], inputSources: [DEMO_INPUT_SOURCE] };
    const grant = {
      ...{ grantId, principalId: DEMO_PRINCIPAL, harnessId: DEMO_HARNESS, ...covered },
      ...{ outputSinks: [DEMO_SINK], dataClasses: [DEMO_DATA_CLASS], maxUses: 1n },
      expireTime: timestampFromMs(this.now() + GRANT_MS),
    };
    await this.command({ case: 'createGrant', value: { grant } });
    const { effectId } = await harness.service(EffectService).reserveEffect({
      ...{ eventId, grantId, action: DEMO_ACTION, resource, inputSource: DEMO_INPUT_SOURCE },
      ...{ outputSink: DEMO_SINK, dataClass: DEMO_DATA_CLASS },
      request: { case: 'requestDigest', value: requestDigest },
    });
    return effectId;
  }

  close(): void {
    for (const channel of this.channels.values()) channel.close();
  }

  /**
   * Makes the domain, where it is not there from an earlier run.
   *
   * @throws {SuretyError} where the service has no test clock, or its operator is another one
   */
  protected async setUp(): Promise<void> {
    const { nowTime } = await this.clock.now({});
    this.offsetMs = timestampMs(expectThere("the store's clock", nowTime)) - Date.now();
    const { names, domainId } = this;
    await setUpDomain(this.admin, SERVICE_TRUST_DOMAIN, {
      domainId,
      harnessSpiffeId: names.harness,
      ownerSpiffeId: names.owner,
      ownerKeyJwk: this.signingKey('owner').publicKey.jwk,
      auditorSpiffeId: names.auditor,
    });
    // A run that was stopped may have left it frozen.
    await this.command({ case: 'setFreeze', value: { sink: '', frozen: false } });
    this.named = await this.channelOf('operator').service(WorkloadService).whoAmI({ domainId });
  }

  private get clock() {
    return this.channelOf('operator').service(ClockService);
  }
}
