/**
 * A pure function of something that never changes, worked out once for each: rows and commands are such. What was worked
 * out goes with what it was worked out from, so nothing outlives its transaction by it.
 */
export function derived<Of extends object, Value>(make: (of: Of) => Value): (of: Of) => Value {
  const known = new WeakMap<Of, { readonly value: Value }>();
  return (of) => {
    let entry = known.get(of);
    if (entry === undefined) known.set(of, (entry = { value: make(of) }));
    return entry.value;
  };
}
