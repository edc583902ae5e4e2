import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type Message,
  toBinary,
} from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { actionService } from '../../src/rpc/action-service.js';
import { adminService } from '../../src/rpc/admin-service.js';
import { auditService } from '../../src/rpc/audit-service.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { effectService } from '../../src/rpc/effect-service.js';
import type { CallContext, ServiceBinding } from '../../src/rpc/handler.js';
import { provenanceService } from '../../src/rpc/provenance-service.js';
import { workloadService } from '../../src/rpc/workload-service.js';
import { MAX_REPLY_BYTES } from '../../src/server/limits.js';
import { callerOf, SERVICE_DOMAIN } from '../support/effect-world.js';
import { contextOf } from '../support/handlers.js';
import { type Peer, refusalOf, ServiceWorld } from './effect-service-world.js';
import { addDomain } from './list-fill.js';
import { LIST_CASES, type ListCase, requestOf } from './list-cases.js';

// api.md: "Paging as in AIP-158". What holds of one list holds of every list of the contract.

const ROOT: Peer = { caller: callerOf('spiffe://surety.test/operator/root'), kind: 'operator' };
const OTHER_DOMAIN = 'other.test';
const PAGE = 2;

let service: ServiceWorld;
let bindings: ServiceBinding[];

beforeAll(async () => {
  service = await ServiceWorld.open();
  await service.operator(ROOT, ['ADMIN'], SERVICE_DOMAIN);
  await addDomain(service.world.admin, OTHER_DOMAIN);
  const { tools, positions } = service;
  bindings = [adminService(tools), workloadService(tools), provenanceService(tools)];
  bindings.push(effectService(tools, positions), auditService(tools, positions));
  bindings.push(actionService(tools, positions));
});
afterAll(() => service.close());

interface ListPage {
  readonly keys: readonly unknown[];
  readonly token: string;
  readonly bytes: number;
}

/** Asks a list as the adapter does; request and answer go through their encodings. */
async function ask(list: ListCase, over: object = {}): Promise<ListPage> {
  const { method, records, keyOf } = list;
  const request = requestOf(list, over);
  const { domainId } = request as { domainId: string };
  const binding = bindings.find((one) => one.service.typeName === method.parent.typeName);
  const handler = (binding as unknown as Served).handlers[method.localName] as Handler;
  const context = contextOf(ROOT.caller, ROOT.kind, { domainId });
  const bytes = toBinary(
    method.output,
    create(method.output, (await handler(sent(method.input, request), context)) as never),
  );
  const answer = fromBinary(method.output, bytes) as unknown as Record<string, never[]> & {
    nextPageToken?: string;
  };
  const found = answer[records] as never[];
  const last = found.at(-1);
  const token = answer.nextPageToken ?? (last === undefined ? '' : String(keyOf(last)));
  return { keys: found.map(keyOf), token, bytes: bytes.length };
}

interface Served {
  readonly handlers: Readonly<Record<string, Handler>>;
}
type Handler = (request: unknown, context: CallContext) => Promise<unknown>;

function sent(schema: DescMessage, request: object): Message {
  return fromBinary(schema, toBinary(schema, create(schema, request as never)));
}

/** Where the next page begins. */
function behind({ position }: ListCase, token: string): object {
  return position === undefined ? { pageToken: token } : { [position]: BigInt(token) };
}

/** All pages from one on, at most so many records each. */
async function pages(list: ListCase, over: object, begin = ''): Promise<ListPage[]> {
  const all: ListPage[] = [];
  let token = begin;
  do {
    const page = await ask(list, { ...over, ...(token === '' ? {} : behind(list, token)) });
    all.push(page);
    token = page.token;
  } while (token !== '');
  return all;
}

const keysOf = (all: readonly ListPage[]): unknown[] => all.flatMap(({ keys }) => keys);

/** The names of the fields that a call is refused for. */
async function fieldsOf(call: Promise<unknown>): Promise<string[]> {
  const { reason, violations } = await refusalOf(call);
  return [reason, ...(violations ?? []).map(({ field }) => field)];
}

test('every list of the contract is here', () => {
  const isList = ({ name, input }: DescMethodUnary) =>
    name.startsWith('List') || input.fields.some((field) => field.name === 'page_size');
  const lists = CONTRACT_SERVICES.filter(({ typeName }) => typeName.startsWith('surety.'))
    .flatMap((one) => one.methods)
    .filter((method) => isList(method as DescMethodUnary));
  const named = (method: { readonly parent: { readonly typeName: string }; readonly name: string }) =>
    `${method.parent.typeName}/${method.name}`;
  expect(LIST_CASES.map(({ method }) => named(method)).sort()).toEqual(lists.map(named).sort());
});

describe.each(LIST_CASES.map((list) => [list.method.name, list] as const))('%s', (_, list) => {
  const { position } = list;
  const size = (pageSize: number) => ({ pageSize });
  const most = list.maxPageSize ?? 1000;

  beforeAll(async () => {
    await list.fill(service, [2, 4, 6, 8, 10, 12], false);
  });

  test('is the same in pages of any size, nothing twice and nothing left out', async () => {
    const whole = await ask(list, size(most));
    expect(whole.keys.length).toBeGreaterThan(PAGE);
    expect(new Set(whole.keys).size).toBe(whole.keys.length);
    if (position === undefined) expect(whole.token).toBe('');
    for (const pageSize of [1, PAGE, 5, whole.keys.length]) {
      const all = await pages(list, size(pageSize));
      expect(keysOf(all)).toEqual(whole.keys);
      for (const { keys } of all) expect(keys.length).toBeLessThanOrEqual(pageSize);
    }
  });

  test('stays as it was for who pages, whatever comes meanwhile', async () => {
    const before = (await ask(list, size(most))).keys;
    const first = await ask(list, size(PAGE));
    await list.fill(service, [1, 3, 5, 7, 9, 11, 13], false);
    const all = [...first.keys, ...keysOf(await pages(list, size(PAGE), first.token))];
    expect(new Set(all).size).toBe(all.length);
    expect(all.filter((key) => before.includes(key))).toEqual(before);
    const now = (await ask(list, size(most))).keys;
    expect(now.length).toBeGreaterThan(before.length);
    if (list.grows === 'behind') expect(all).toEqual(now);
    else expect(now).toEqual(expect.arrayContaining(all));
  });

  test('refuses a page size that is none', async () => {
    for (const pageSize of [-1, most + 1]) {
      expect(await fieldsOf(ask(list, { pageSize }))).toEqual(['FIELD_INVALID', 'page_size']);
    }
    const { keys } = await ask(list);
    expect(keys).toEqual((await ask(list, size(list.defaultPageSize ?? 100))).keys);
  });

  test.runIf(position === undefined)('refuses a token that is not of this very list', async () => {
    const { token } = await ask(list, size(PAGE));
    const made = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const [filter, ...place] = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as string[];
    const bad = [
      ...['x', '%', `${token}=`, token.slice(0, -2), 'x'.repeat(5000), made(null), made([filter])],
      ...[made([filter, ...place, '']), made([filter, ...place.map(() => 1)]), made(['other', ...place])],
      made([filter, ...place.map(() => '\0')]),
    ];
    for (const pageToken of bad) {
      expect({ pageToken, fields: await fieldsOf(ask(list, { pageToken })) }).toEqual({
        pageToken,
        fields: ['FIELD_INVALID', 'page_token'],
      });
    }
    const twice = await fieldsOf(ask(list, { pageToken: 'x', pageSize: -1 }));
    expect(twice.sort()).toEqual(['FIELD_INVALID', 'page_size', 'page_token']);
  });

  test.runIf(position === undefined)('refuses a token of another filter', async () => {
    const { token: pageToken } = await ask(list, size(PAGE));
    for (const other of list.others) {
      const reset = Object.fromEntries(Object.keys(list.request).map((field) => [field, undefined]));
      const call = ask(list, { ...reset, ...other, pageToken });
      expect({ other, fields: await fieldsOf(call) }).toEqual({
        other,
        fields: ['FIELD_INVALID', 'page_token'],
      });
    }
    // Of another page size it is good.
    expect((await ask(list, { pageToken, pageSize: 1 })).keys).toHaveLength(1);
  });

  test.runIf(list.domainId === undefined && position === undefined)(
    'refuses a token of another domain',
    async () => {
      const { token: pageToken } = await ask(list, size(PAGE));
      const elsewhere = ask(list, { domainId: OTHER_DOMAIN, pageToken });
      expect(await fieldsOf(elsewhere)).toEqual(['FIELD_INVALID', 'page_token']);
    },
  );
});

// Behind the others, whose lists it makes long.
test.each(LIST_CASES.filter(({ large }) => large > 0).map((list) => [list.method.name, list] as const))(
  '%s never grows beyond what a client takes',
  async (_, list) => {
    await list.fill(
      service,
      Array.from({ length: list.large }, (_, i) => i),
      true,
    );
    const all = await pages(list, { pageSize: 1000, ...list.largeRequest });
    for (const { bytes, keys } of all) {
      expect(bytes).toBeLessThanOrEqual(MAX_REPLY_BYTES);
      if (list.position === undefined) expect(keys.length).toBeGreaterThan(0);
    }
    const keys = keysOf(all);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.length).toBeGreaterThanOrEqual(list.large);
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    // Enough that the limit is met: all of them in one answer would be refused, or are as many as a page holds.
    expect(total > MAX_REPLY_BYTES || list.large === 1000).toBe(true);
  },
);
