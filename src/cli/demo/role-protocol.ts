/** The parts that a process of the demo can play. */
export type RoleName = 'harness' | 'workload' | 'owner' | 'worker';

/** What the demo asks of one of its processes. */
export interface RoleRequest {
  readonly id: number;
  readonly action: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** What the process answers: plain texts, or why the service refused. */
export type RoleAnswer =
  | { readonly id: number; readonly ok: true; readonly result: Readonly<Record<string, string>> }
  | {
      readonly id: number;
      readonly ok: false;
      readonly code: string;
      readonly reason: string;
      readonly message: string;
      readonly metadata: Readonly<Record<string, string>>;
    };

/** One thing that a role can do. */
export type RoleAction = (
  parameters: Readonly<Record<string, string>>,
) => Promise<Readonly<Record<string, string>>>;
