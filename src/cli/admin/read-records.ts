import { parseArgs } from 'node:util';
import { type DescMessage, type Message, toJsonString } from '@bufbuild/protobuf';
import { EXIT_FAILED, UsageError } from '../failure.js';
import { CONNECTION_OPTIONS, openConnection } from './connection.js';
import { type FieldFlag, fieldFlags, fillMessage, parseOptionsOf } from './field-flags.js';
import type { Fields } from '../client/message-fields.js';
import { flatFields } from './flat-fields.js';
import { call, getRecord, RECORD_KINDS, type RecordKind } from '../client/record-kinds.js';
import { columns, type Terminal } from './terminal.js';

/** A subcommand that reads. */
export interface ReadCommand {
  readonly name: string;
  readonly summary: string;
  /** The options of its own, besides those that all have. */
  readonly flags: readonly FieldFlag[];
  /** What the first argument names, if it takes one. */
  readonly argument: string | undefined;
  readonly run: (args: readonly string[], terminal: Terminal) => Promise<number>;
}

/** Fields of List's request that have options of their own, for all lists. */
const PAGING: ReadonlySet<string> = new Set(['domain_id', 'page_size', 'page_token']);

/** Pages that `--all` follows at most: a hundred thousand records of the usual page belong into a program. */
const MAX_PAGES = 1000;
const MAX_PAGE_SIZE = 1000;

/** get-… and list-… for each kind of record. */
export const READ_COMMANDS: readonly ReadCommand[] = Object.values(RECORD_KINDS).flatMap(commandsOf);

function commandsOf(kind: RecordKind): ReadCommand[] {
  const names = [kind.get, kind.list].map(({ name }) =>
    name.replace(/(?!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase(),
  ) as [string, string];
  const flags = fieldFlags(kind.list.input, PAGING);
  const [one, many] = [names[0].slice('get-'.length), names[1].slice('list-'.length)];
  return [
    {
      name: names[0],
      summary: `shows one ${one}`,
      flags: [],
      argument: kind.key.name.replaceAll('_', '-'),
      run: (args, terminal) => getOne(kind, args, terminal),
    },
    {
      name: names[1],
      summary: `lists ${many}, by their ids`,
      flags,
      argument: undefined,
      run: (args, terminal) => listAll(kind, flags, args, terminal),
    },
  ];
}

async function getOne(kind: RecordKind, args: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { ...CONNECTION_OPTIONS, json: { type: 'boolean' } },
    allowPositionals: true,
  });
  const [id, ...more] = positionals;
  const isDomain = kind.key.name === 'domain_id';
  if (more.length > 0 || (id === undefined && !isDomain)) {
    throw new UsageError(`name one: its ${kind.key.name.replaceAll('_', '-')}`);
  }
  const { channel, domainId } = openConnection(values);
  try {
    const home = isDomain ? (id ?? domainId) : domainId;
    const record = await getRecord(channel, kind, home, id ?? domainId);
    if (record === undefined) {
      terminal.err(`surety admin: there is no such record in ${home}, or not for this operator to see\n`);
      return EXIT_FAILED;
    }
    terminal.out(values.json === true ? json(kind.schema, record) : text(kind.schema, record));
    return 0;
  } finally {
    channel.close();
  }
}

/** A message as protobuf JSON, for programs. */
export function json(schema: DescMessage, message: Message): string {
  return `${toJsonString(schema, message, { prettySpaces: 2 })}\n`;
}

function text(schema: DescMessage, message: Message): string {
  return `${columns([...flatFields(schema, message)]).join('\n')}\n`;
}

/** The options of every command that pages, for `parseArgs`. */
export const LIST_OPTIONS = {
  json: { type: 'boolean' },
  all: { type: 'boolean' },
  'page-size': { type: 'string' },
  'page-token': { type: 'string' },
} as const;

async function listAll(
  kind: RecordKind,
  flags: readonly FieldFlag[],
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...parseOptionsOf(flags) },
  });
  const filter = fillMessage(kind.list.input, flags, values, { nowMs: Date.now() });
  const { channel, domainId } = openConnection(values);
  try {
    const request = {
      ...filter,
      domainId,
      pageSize: readPageSize(values['page-size']),
    };
    const page = await readPages(
      (pageToken) => call(channel, kind.service, kind.list, { ...request, pageToken }),
      { first: values['page-token'] ?? '', all: values['all'] === true },
      kind.list.output.fields[0]?.localName ?? '',
    );
    terminal.out(values['json'] === true ? json(kind.list.output, page.answer) : table(kind, page.records));
    sayWhatIsLeft(page.answer, terminal);
    return 0;
  } finally {
    channel.close();
  }
}

/** Says how to go on where there are more pages. */
export function sayWhatIsLeft({ nextPageToken }: Fields, terminal: Terminal): void {
  if (typeof nextPageToken !== 'string' || nextPageToken === '') return;
  terminal.err(`There are more: --page-token ${nextPageToken}, or --all\n`);
}

/** Pages that were read. */
interface Pages {
  /** The last page's answer, with the records of all pages that were read. */
  readonly answer: Message & Fields;
  readonly records: readonly Message[];
}

/**
 * One page, or all from one on.
 *
 * @param page asks for the one that a token names
 * @param field of the answer that holds the records
 */
export async function readPages(
  page: (pageToken: string) => Promise<Message & Fields>,
  { first, all }: { readonly first: string; readonly all: boolean },
  field: string,
): Promise<Pages> {
  const records: Message[] = [];
  let token = first;
  for (let pages = 1; ; pages += 1) {
    const answer = await page(token);
    records.push(...(answer[field] as readonly Message[]));
    token = String(answer['nextPageToken']);
    if (token === '' || !all || pages === MAX_PAGES) {
      return { answer: Object.assign(answer, { [field]: records }), records };
    }
  }
}

function table({ schema, columns: names }: RecordKind, records: readonly Message[]): string {
  const rows = records.map((record) => {
    const fields = flatFields(schema, record);
    return names.map((name) => fields.get(name) ?? '-');
  });
  const heads = names.map((name) => name.replace(/^spec\./, '').toUpperCase());
  return `${columns([heads, ...rows]).join('\n')}\n`;
}

/** 0 asks for the service's own size of a page. @throws {UsageError} */
export function readPageSize(size: string | undefined): number {
  if (size === undefined) return 0;
  if (/^\d{1,4}$/.test(size) && Number(size) >= 1 && Number(size) <= MAX_PAGE_SIZE) return Number(size);
  throw new UsageError(`--page-size: must be 1 to ${MAX_PAGE_SIZE}`);
}
