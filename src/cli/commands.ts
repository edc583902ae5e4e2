/** A command of the CLI, loaded. */
export interface Command {
  /** How to call it and what it does, without a last line break. */
  readonly help: string;
  /** @returns the exit code: 0 done, 1 failed, 2 called or configured wrongly; 141 is `output-gone.ts`'s */
  readonly run: (args: readonly string[]) => Promise<number>;
}

interface CommandEntry {
  /** One line, for the list. */
  readonly summary: string;
  /** Loads the command's own file: none pays for what the others import. */
  readonly load: () => Promise<Command>;
}

/** Every command, in the order in which they are listed. */
export const COMMANDS = {
  start: {
    summary: 'for development: a Postgres, certificates and an operator of its own, and the service',
    load: async () => {
      const { start, START_HELP } = await import('./start.js');
      return { run: start, help: START_HELP };
    },
  },
  serve: {
    summary: 'the service alone, as it is configured',
    load: async () => {
      const { serve, SERVE_HELP } = await import('./serve.js');
      return { run: serve, help: SERVE_HELP };
    },
  },
  migrate: {
    summary: "brings the database's schema up to date",
    load: async () => {
      const { migrateCommand, MIGRATE_HELP } = await import('./migrate.js');
      return { run: migrateCommand, help: MIGRATE_HELP };
    },
  },
  bootstrap: {
    summary: "makes the service's own domain and its first operator, once",
    load: async () => {
      const { bootstrapCommand, BOOTSTRAP_HELP } = await import('./bootstrap.js');
      return { run: bootstrapCommand, help: BOOTSTRAP_HELP };
    },
  },
  restore: {
    summary: 'after the database was brought back from a backup: a new incarnation, and what was in flight',
    load: async () => {
      const { restoreCommand, RESTORE_HELP } = await import('./restore.js');
      return { run: restoreCommand, help: RESTORE_HELP };
    },
  },
  health: {
    summary: 'asks a running service whether it serves',
    load: async () => {
      const { health, HEALTH_HELP } = await import('./health.js');
      return { run: health, help: HEALTH_HELP };
    },
  },
  certs: {
    summary: 'makes development certificates',
    load: async () => {
      const { certs, CERTS_HELP } = await import('./certs.js');
      return { run: certs, help: CERTS_HELP };
    },
  },
  admin: {
    summary: 'an operator at work: every signed command, and every record',
    load: async () => {
      const { admin, ADMIN_HELP } = await import('./admin.js');
      return { run: admin, help: ADMIN_HELP };
    },
  },
  audit: {
    summary: 'exports the log of a domain, and verifies an export offline',
    load: async () => {
      const { audit, AUDIT_HELP } = await import('./audit.js');
      return { run: audit, help: AUDIT_HELP };
    },
  },
  archive: {
    summary: 'exports effects that were settled long ago, and removes them behind their tombstones',
    load: async () => {
      const { archive, ARCHIVE_HELP } = await import('./archive.js');
      return { run: archive, help: ARCHIVE_HELP };
    },
  },
  worker: {
    summary: 'a small worker for governed actions: leases, dispatches once over HTTP, observes, completes',
    load: async () => {
      const { workerCommand, WORKER_HELP } = await import('./worker.js');
      return { run: workerCommand, help: WORKER_HELP };
    },
  },
  demo: {
    summary: 'tells the story of an effect, or of actions, with a process for each part in it',
    load: async () => {
      const { demo, DEMO_HELP } = await import('./demo.js');
      return { run: demo, help: DEMO_HELP };
    },
  },
} as const satisfies Record<string, CommandEntry>;

export type CommandName = keyof typeof COMMANDS;

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}
