/** One thing that an implementation must do, as data: the runner and the suite both go through the same list. */
export interface Case<World> {
  /** Stable and unique: what `--only` and a report name it by. */
  readonly id: string;
  /** Where it is written: an invariant or a section of the design. */
  readonly rule: string;
  /** What holds, as one sentence. */
  readonly title: string;
  /** It moves the clock, or changes records that other cases rest on, and so runs while no other does. */
  readonly alone?: true;
  /** Throws where it does not hold. */
  readonly run: (world: World) => Promise<void>;
}

/** What the runner needs of the world that cases run in. */
export interface CaseWorld {
  /** Renews what time has used up. Called before each case that runs alone, and before all others. */
  prepare(): Promise<void>;
  close(): void;
}
