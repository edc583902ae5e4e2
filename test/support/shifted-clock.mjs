// Preloaded (NODE_OPTIONS=--import=…) into a process whose wall clock is to be off: CLOCK_SHIFT_MS says by how much, and
// CLOCK_SHIFT_ONLY, where it is set, which processes, by a word among their arguments. Timers and the monotonic clock go
// on as they are, and so does what is not JavaScript, OpenSSL above all.
const shiftMs = Number(process.env.CLOCK_SHIFT_MS ?? '0');
const only = process.env.CLOCK_SHIFT_ONLY;

if (only === undefined || process.argv.includes(only)) {
  const RealDate = globalThis.Date;
  const realNow = RealDate.now;
  const timeOrigin = performance.timeOrigin;
  RealDate.now = () => realNow() + shiftMs;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now()] : args, newTarget),
    apply: () => new RealDate(RealDate.now()).toString(),
  });
  Object.defineProperty(performance, 'timeOrigin', { value: timeOrigin + shiftMs });
}
