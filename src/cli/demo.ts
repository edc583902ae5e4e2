import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { ensureDevelopmentCertificates } from '../../certs/development-certificates.js';
import type { CertificateLayout } from '../../certs/layout.js';
import { removeEmbeddedPostgres } from '../embedded/embedded-postgres.js';
import { importSigningKey } from '../identity/sign.js';
import { awaitStop, exitCodeOf, type StopSignal } from '../stop-signals.js';
import { AdminSession } from './client/admin-session.js';
import { Channel } from './client/service-client.js';
import { ACTIONS_OPENING, playActions } from './demo/play-actions.js';
import { EFFECTS_OPENING, playEffects } from './demo/play-effects.js';
import { RoleHandle } from './demo/role-handle.js';
import type { RoleName } from './demo/role-protocol.js';
import { setUpDomain } from './demo/set-up-domain.js';
import type { Stage } from './demo/stage.js';
import { type Subject, Timeline } from './demo/timeline.js';
import { Undoing } from './demo/undoing.js';
import { readAddresses, type StartedAddresses } from './start-output.js';

const DOMAIN = 'acme.test';
const SERVICE_DOMAIN = 'surety.test';
const OPERATOR = 'spiffe://surety.test/operator/root';
const AUDITOR = 'spiffe://surety.test/auditor/ann';
/** A first start unpacks a Postgres and migrates; a slow machine gets time, in milliseconds. */
const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 15_000;
/** A probe that is not answered is made again. */
const PROBE_TIMEOUT_MS = 2_000;
const POLL_MS = 100;
const ANY_PORT = '127.0.0.1:0';

/** The service's process; its output is read. */
type ServiceChild = ChildProcessByStdio<null, Readable, null>;

export const DEMO_HELP = `surety demo [effects | actions] [--json]

Starts a service of its own with everything that it needs, and everybody else as separate processes with separate
certificates, and tells what happens: of effects, with a harness, two executors and a reconciler, unless told otherwise; of
governed actions, with a harness, an owner, two workers and a provider that is not to be relied on. Exits 0 only if every step
came to what it must. --json prints the same as one JSON document and nothing else.`;

/** Runs the demo. @returns the exit code */
export async function demo(args: readonly string[]): Promise<number> {
  const [name = 'effects', unknown] = args.filter((arg) => arg !== '--json');
  const story = Object.hasOwn(STORIES, name) ? STORIES[name as StoryName] : undefined;
  if (!story || unknown !== undefined) {
    process.stderr.write(`surety demo: unknown argument ${unknown ?? name}\n\n${DEMO_HELP}\n`);
    return 2;
  }
  const json = args.includes('--json');
  const tell = json ? undefined : (line: string): void => void process.stdout.write(`${line}\n`);
  const timeline = new Timeline(tell, story.subject);
  // Before there is anything that a signal could leave behind.
  const { asked: interrupted } = awaitStop({
    signals: ['SIGHUP', 'SIGINT', 'SIGTERM'],
    endAtOnce: (signal) => process.exit(exitCodeOf(signal)),
  });
  const state = await mkdtemp(path.join(tmpdir(), 'surety-demo-'));
  // As root, Postgres runs as another user, who has to get through to its folder.
  await chmod(state, 0o711);
  const undoing = new Undoing();
  const playing = play(story, state, timeline, tell, undoing);
  let stoppedBy: StopSignal | undefined;
  try {
    stoppedBy = await Promise.race([playing.then(() => undefined), interrupted]);
  } finally {
    await undoing.run();
    // Interrupted, it stumbles over what is gone; only then nothing is written any more.
    await playing.catch(() => {});
    await removeEmbeddedPostgres(path.join(state, 'postgres'));
    await rm(state, { recursive: true, force: true });
  }
  if (stoppedBy !== undefined) {
    process.stderr.write(`surety demo: stopped by ${stoppedBy}\n`);
    return exitCodeOf(stoppedBy);
  }
  if (json) process.stdout.write(`${JSON.stringify(timeline.toJson())}\n`);
  for (const surprise of timeline.surprises) process.stderr.write(`surety demo: ${surprise}\n`);
  return timeline.succeeded ? 0 : 1;
}

/** A story, and what it is about. */
interface Story {
  readonly subject: Subject;
  readonly opening: string;
  readonly play: (stage: Stage, timeline: Timeline) => Promise<void>;
}

type StoryName = 'effects' | 'actions';

const STORIES: Readonly<Record<StoryName, Story>> = {
  effects: { subject: 'effect_id', opening: EFFECTS_OPENING, play: playEffects },
  actions: { subject: 'action_id', opening: ACTIONS_OPENING, play: playActions },
};

async function play(
  story: Story,
  state: string,
  timeline: Timeline,
  tell: ((line: string) => void) | undefined,
  undoing: Undoing,
): Promise<void> {
  tell?.(story.opening);
  tell?.('');
  const layout = await ensureDevelopmentCertificates({ directory: path.join(state, 'certs') });
  const service = await undoing.begin(() => startService(state), stopService);
  const { grpc: listen } = await untilReady(service);

  const connect = (spiffeId: string): Promise<Channel> =>
    undoing.begin(
      () => channelOf(layout, listen, spiffeId),
      (channel) => channel.close(),
    );
  const channels = { operator: await connect(OPERATOR), auditor: await connect(AUDITOR) };
  const signingKey = layout.signingKeys[OPERATOR];
  if (!signingKey) throw new Error(`no signing key of ${OPERATOR}`);
  const admin = new AdminSession(channels.operator, importSigningKey(await readFile(signingKey.pem, 'utf8')));
  await setUpDomain(admin, SERVICE_DOMAIN, {
    domainId: DOMAIN,
    harnessSpiffeId: `spiffe://${DOMAIN}/harness/planner`,
    ownerSpiffeId: `spiffe://${DOMAIN}/owner/olga`,
    auditorSpiffeId: AUDITOR,
    ownerKeyJwk: await readFile(layout.signingKeys[`spiffe://${DOMAIN}/owner/olga`]?.publicJwk ?? '', 'utf8'),
  });

  const role = async (name: string, kind: RoleName): Promise<RoleHandle> => {
    const spiffeId = `spiffe://${DOMAIN}/${name}`;
    const files = layout.callers[spiffeId];
    if (!files) throw new Error(`no certificate of ${spiffeId}`);
    const key = kind === 'owner' ? layout.signingKeys[spiffeId]?.pem : undefined;
    const start = (): RoleHandle =>
      RoleHandle.start(name, spiffeId, {
        role: kind,
        target: listen,
        files: {
          ...{ certificate: files.cert, key: files.key, roots: layout.serviceBundle },
          ...(key === undefined ? {} : { signingKey: key }),
        },
      });
    // Begun before it listens: a signal in between ends it too.
    const handle = await undoing.begin(start, (begun) => begun.stop());
    await handle.listening();
    return handle;
  };
  await story.play({ domainId: DOMAIN, admin, ...channels, role, undoing }, timeline);
}

/** A connection with a development caller's certificate. */
async function channelOf(layout: CertificateLayout, target: string, spiffeId: string): Promise<Channel> {
  const files = layout.callers[spiffeId];
  if (!files) throw new Error(`no certificate of ${spiffeId}`);
  const [certificate, key, roots] = await Promise.all(
    [files.cert, files.key, layout.serviceBundle].map((file) => readFile(file)),
  );
  return new Channel(target, { certificate, key, roots } as {
    certificate: Buffer;
    key: Buffer;
    roots: Buffer;
  });
}

function startService(state: string): ServiceChild {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SURETY_'));
  return spawn(process.execPath, [main, 'start'], {
    env: {
      ...Object.fromEntries(inherited),
      SURETY_STATE_DIR: state,
      // The system gives it ports that nobody else has; it says which.
      SURETY_LISTEN: ANY_PORT,
      SURETY_ADMIN_LISTEN: ANY_PORT,
      SURETY_LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Waits until the service says where it is, and that it is ready. @throws where it ends, or takes too long */
async function untilReady(service: ServiceChild): Promise<StartedAddresses> {
  let output = '';
  service.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
  const until = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < until) {
    const ended = service.exitCode ?? service.signalCode;
    if (ended !== null) throw new Error(`the service ended with ${ended}`);
    const addresses = readAddresses(output);
    if (addresses !== undefined && (await isReady(addresses))) return addresses;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error('the service did not become ready');
}

function isReady({ admin }: StartedAddresses): Promise<boolean> {
  return fetch(`http://${admin}/readyz`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) }).then(
    (response) => response.ok,
    () => false,
  );
}

async function stopService(service: ServiceChild): Promise<void> {
  if (service.exitCode !== null || service.signalCode !== null) return;
  const ended = new Promise((resolve) => service.once('exit', resolve));
  service.kill('SIGTERM');
  const timer = setTimeout(() => service.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(timer);
}
