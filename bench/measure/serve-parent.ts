import type { Measured } from './measured.js';

/** What an order from the parent is answered. */
export type ChildAnswer =
  | { readonly ok: true; readonly measured: Measured | undefined }
  | { readonly ok: false; readonly message: string };

/** Runs the parent's orders, one at a time, until it goes away. */
export function serveParent(run: (order: unknown) => Promise<Measured | undefined>): void {
  const answer = (said: ChildAnswer): void => void process.send?.(said);
  process.on('message', (order) => {
    run(order).then(
      (measured) => answer({ ok: true, measured }),
      (error: unknown) => answer({ ok: false, message: error instanceof Error ? error.message : 'failed' }),
    );
  });
  process.once('disconnect', () => process.exit(0));
}
