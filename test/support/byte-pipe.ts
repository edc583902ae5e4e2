import type { Socket } from 'node:net';

/** How bytes travel at this moment, shared by all pipes of a proxy. */
export interface Weather {
  /** Nothing arrives any more; what is sent is kept, as by a network that will retransmit. */
  blackhole: boolean;
  /** Everything arrives this much later, in milliseconds. */
  delayMs: number;
}

type Event = { readonly due: number } & (
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'end' }
  | { readonly kind: 'gone' }
);

/** Beyond this the sender is no longer read, and feels it as a full TCP window. */
const maxHeldBytes = 1 << 20;

/** One direction of a connection: what was received from one side, on its way to the other. */
export class BytePipe {
  private readonly events: Event[] = [];
  private heldBytes = 0;
  private timer: NodeJS.Timeout | undefined;
  private blocked = false;

  constructor(
    private readonly from: Socket,
    private readonly to: Socket,
    private readonly weather: Weather,
  ) {
    to.on('drain', () => {
      this.blocked = false;
      this.pump();
    });
  }

  send(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.heldBytes += bytes.length;
    if (this.heldBytes > maxHeldBytes) this.from.pause();
    this.add({ kind: 'bytes', bytes, due: this.due() });
  }

  /** The sender has nothing more to say; it may still listen. */
  end(): void {
    this.add({ kind: 'end', due: this.due() });
  }

  /** The sender's connection is no more. */
  gone(): void {
    this.add({ kind: 'gone', due: this.due() });
  }

  /** Moves what may move now. Called again when the weather has changed. */
  pump(): void {
    clearTimeout(this.timer);
    while (!this.weather.blackhole && !this.blocked) {
      const next = this.events[0];
      if (next === undefined) return;
      const wait = next.due - performance.now();
      if (wait > 0) {
        this.timer = setTimeout(() => this.pump(), wait);
        return;
      }
      this.events.shift();
      this.deliver(next);
    }
  }

  /** Nothing that is still on its way arrives. */
  discard(): void {
    clearTimeout(this.timer);
    this.events.length = 0;
  }

  private add(event: Event): void {
    this.events.push(event);
    this.pump();
  }

  private deliver(event: Event): void {
    if (event.kind === 'end') this.to.end();
    if (event.kind === 'gone') this.to.destroySoon();
    if (event.kind !== 'bytes') return;
    this.heldBytes -= event.bytes.length;
    if (this.heldBytes <= maxHeldBytes) this.from.resume();
    this.blocked = !this.to.write(event.bytes);
  }

  private due(): number {
    return performance.now() + this.weather.delayMs;
  }
}
