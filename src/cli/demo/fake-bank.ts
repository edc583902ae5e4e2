import { randomUUID } from 'node:crypto';

/** A provider that remembers what it did: the outside world of the demo. */
export class FakeBank {
  private readonly refunds = new Map<string, number>();

  /** Performs the change, as an executor's request would. */
  refund(order: string): { readonly id: string; readonly text: string } {
    this.refunds.set(order, (this.refunds.get(order) ?? 0) + 1);
    return { id: `receipt-${randomUUID()}`, text: `refunded ${order}` };
  }

  /** Answers a reconciler's question. */
  ask(order: string): { readonly queryId: string; readonly text: string } {
    return { queryId: `query-${randomUUID()}`, text: `refunds of ${order}: ${this.refunds.get(order) ?? 0}` };
  }

  /** How often each order was refunded: never more than once. */
  counts(): readonly number[] {
    return [...this.refunds.values()];
  }
}
