import { parseArgs } from 'node:util';
import { toJson } from '@bufbuild/protobuf';
import { DurationSchema, type Timestamp, TimestampSchema } from '@bufbuild/protobuf/wkt';
import {
  AdminService,
  type GetAdmissionStatusResponse,
  GetAdmissionStatusResponseSchema,
} from '../../gen/surety/authority/v1/admin_service_pb.js';
import {
  type ActorAdmission,
  type AdmissionStatus,
  BreakerState,
  type SinkAdmission,
} from '../../gen/surety/authority/v1/admission_pb.js';
import { call } from '../client/record-kinds.js';
import { CONNECTION_OPTIONS, openConnection } from './connection.js';
import {
  json,
  LIST_OPTIONS,
  type ReadCommand,
  readPages,
  readPageSize,
  sayWhatIsLeft,
} from './read-records.js';
import { columns, printable, type Terminal } from './terminal.js';

/** `surety admin status`: what a domain lets through, and what of it is used up. */
export const STATUS_COMMAND: ReadCommand = {
  name: 'status',
  summary: "shows a domain's limits and counters, its sinks' breakers, and what each actor has used up",
  flags: [],
  argument: undefined,
  run: showStatus,
};

async function showStatus(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS } });
  const { channel, domainId } = openConnection(values);
  try {
    const pageSize = readPageSize(values['page-size']);
    const method = AdminService.method.getAdmissionStatus;
    const { answer } = await readPages(
      (pageToken) => call(channel, AdminService, method, { domainId, pageSize, pageToken }),
      { first: values['page-token'] ?? '', all: values.all === true },
      'actors',
    );
    const status = answer as unknown as GetAdmissionStatusResponse;
    const text =
      values.json === true ? json(GetAdmissionStatusResponseSchema, status) : tables(domainId, status);
    terminal.out(text);
    sayWhatIsLeft(answer, terminal);
    return 0;
  } finally {
    channel.close();
  }
}

function tables(domainId: string, { status, actors }: GetAdmissionStatusResponse): string {
  if (status === undefined) throw new TypeError('the answer has no status');
  return [
    `${printable(domainId)} at ${time(status.nowTime)}`,
    ...columns(domainRows(status), '  '),
    ...section(SINK_HEADS, status.sinks.map(sinkRow)),
    ...section(ACTOR_HEADS, actors.map(actorRow)),
    '',
  ].join('\n');
}

function section(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : ['', ...columns([heads, ...rows])];
}

function domainRows(status: AdmissionStatus): string[][] {
  const { limits, minute, pending, window, service, liveNonceCeiling } = status;
  const rows = [
    [
      'requests this minute',
      `${minute?.ordinary} ordinary, ${minute?.safety} safety; ${minute?.ordinaryLeft} ordinary left of ${limits?.requestsPerMinute}`,
    ],
    ['pending work', `${pending} of ${limits?.pendingCeiling}`],
    [
      'fairness, this window',
      `${window?.activeActors} active actors, ${window?.leastServed} to ${window?.mostServed} calls each; burst ${limits?.fairnessBurst}`,
    ],
    ['requests of one actor', `${limits?.actorRequestsPerMinute} a minute`],
    ['hops of an event', `at most ${limits?.maxHops}`],
    ['live nonces of one caller', `at most ${liveNonceCeiling}`],
  ];
  if (service) {
    const { requestsPerMinute, givenOut } = service;
    rows.push(['all domains together', `${requestsPerMinute} requests a minute, ${givenOut} given out`]);
  }
  return rows;
}

const SINK_HEADS = [
  ...['SINK', 'BREAKER', 'FAILURES', 'OPENED', 'MAY BE TRIED', 'PROBE', 'UNKNOWN', 'OLDEST', 'OBJECTIVE'],
];

function sinkRow(sink: SinkAdmission): string[] {
  const { openTime, tryTime, oldestUnknownAge: age, unknownAge } = sink;
  return [
    printable(sink.sink),
    BreakerState[sink.breaker] ?? '-',
    `${sink.failures} of ${sink.breakerThreshold}`,
    time(openTime),
    time(tryTime),
    printable(sink.probeEffectId) || '-',
    `${sink.unknown} of ${sink.unknownCeiling}`,
    age === undefined ? '-' : `${age.seconds}s`,
    unknownAge === undefined ? '-' : toJson(DurationSchema, unknownAge),
  ];
}

const ACTOR_HEADS = ['ACTOR', 'ORDINARY', 'SAFETY', 'LEFT', 'THIS WINDOW', 'NONCES'];

function actorRow({ actor, minute, windowCalls, liveNonces }: ActorAdmission): string[] {
  const { ordinary = 0, safety = 0, ordinaryLeft = 0 } = minute ?? {};
  return [printable(actor), ...[ordinary, safety, ordinaryLeft, windowCalls, liveNonces].map(String)];
}

function time(timestamp: Timestamp | undefined): string {
  return timestamp === undefined ? '-' : toJson(TimestampSchema, timestamp);
}
