import { admin } from '../../src/cli/admin.js';
import { ACME, type E2eWorld, OPERATOR } from './e2e-world.js';

/** What a command printed, and its exit code. */
export interface CliRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** `surety admin` against a world's service, run in this process. */
export class AdminCli {
  constructor(private readonly world: E2eWorld) {}

  /** How an operator says where everything is; a key of another file where it is given. */
  connection(spiffeId = OPERATOR, signingKey?: string): string[] {
    const { callers, signingKeys, serviceBundle } = this.world.layout;
    const files = callers[spiffeId];
    const pem = signingKey ?? signingKeys[spiffeId]?.pem ?? '';
    return [
      ...['--target', this.world.service.target, '--roots', serviceBundle],
      ...['--cert', files?.cert ?? '', '--key', files?.key ?? '', '--signing-key', pem],
    ];
  }

  async run(args: readonly string[], options = this.connection()): Promise<CliRun> {
    let [out, err] = ['', ''];
    const code = await admin([...args, ...options], {
      out: (text) => (out += text),
      err: (text) => (err += text),
    });
    return { code, out, err };
  }

  /** The head of a domain's log. */
  async head(domainId = ACME): Promise<string> {
    const sql = 'SELECT seq FROM domain_heads WHERE domain_id = $1';
    const { rows } = await this.world.sql.query(sql, [domainId]);
    return String(rows[0].seq);
  }
}

/** The words of a line, in acme.test, for a reason. */
export const inAcme = (line: string): string[] => [
  ...line.split(' '),
  ...['--domain', ACME, '--reason', 'a test'],
];
