/** A batch that the database would refuse: a bug of a decision. */
export class StoreRuleBroken extends Error {
  constructor(rule: string) {
    super(rule);
    this.name = 'StoreRuleBroken';
  }
}

export function must(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new StoreRuleBroken(rule);
}
