import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';

/**
 * What a page of a list holds at most, by its size on the wire: half of what a gRPC client takes by default (4 MiB), since
 * the one record that a page has in any case may itself be some hundred KiB.
 */
export const MAX_PAGE_BYTES = 2 * 1024 * 1024;
/** So many records are read at a time, so that what does not fit into the page is not read for nothing. */
const CHUNK = 100;

/** Counts the bytes of a page. */
export class PageBudget {
  private bytes = 0;
  private records = 0;

  constructor(private readonly maxBytes = MAX_PAGE_BYTES) {}

  /** Whether a record of so many bytes still fits. The first one always does: a page without any would lead nowhere. */
  takes(bytes: number): boolean {
    if (this.records > 0 && this.bytes + bytes > this.maxBytes) return false;
    this.bytes += bytes;
    this.records += 1;
    return true;
  }

  /** The same for a message. */
  takesMessage<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): boolean {
    return this.takes(toBinary(schema, message).length);
  }
}

/** How the records of a page are read and shown. */
export interface PageSource<Row, Desc extends DescMessage> {
  readonly schema: Desc;
  /** The rows behind one, or from where the page begins, in the order of the list. */
  readonly read: (after: Row | undefined, limit: number) => Promise<readonly Row[]>;
  /** One message for each row. */
  readonly wire: (
    rows: readonly Row[],
  ) => readonly MessageInitShape<Desc>[] | Promise<readonly MessageInitShape<Desc>[]>;
  /** Of one reading, where rows are much larger than most. */
  readonly chunk?: number;
}

export interface FilledPage<Row, Desc extends DescMessage> {
  readonly messages: MessageShape<Desc>[];
  /** The row behind which the next page begins; undefined: there is nothing behind this page. */
  readonly next: Row | undefined;
}

/** The records of a page: `size` of them, or as many as fit, and at least one. */
export async function fillPage<Row, Desc extends DescMessage>(
  size: number,
  { schema, read, wire, chunk = CHUNK }: PageSource<Row, Desc>,
): Promise<FilledPage<Row, Desc>> {
  const messages: MessageShape<Desc>[] = [];
  const budget = new PageBudget();
  let last: Row | undefined;
  for (;;) {
    const wanted = Math.min(chunk, size - messages.length);
    // One row more than wanted says whether there is anything behind.
    const rows = await read(last, wanted + 1);
    const shown = await wire(rows.slice(0, wanted));
    for (const [index, init] of shown.entries()) {
      const message = create(schema, init);
      if (!budget.takesMessage(schema, message)) return { messages, next: last };
      messages.push(message);
      last = rows[index];
    }
    if (rows.length <= wanted) return { messages, next: undefined };
    if (messages.length >= size) return { messages, next: last };
  }
}
