/** Where a started service is, as `surety start` writes it. */
export interface StartedAddresses {
  /** `host:port` of gRPC. */
  readonly grpc: string;
  /** `host:port` of the admin port. */
  readonly admin: string;
}

/** The lines of the start output that say where the service is; {@link readAddresses} reads them. */
export function addressLines({ grpc, admin }: StartedAddresses): string[] {
  return [
    `  gRPC          ${grpc}, TLS 1.3 with client certificates`,
    `  admin         http://${admin}/readyz, /livez, /metrics`,
  ];
}

/** @param output what `surety start` has written so far. @returns undefined while the lines are not there whole */
export function readAddresses(output: string): StartedAddresses | undefined {
  const grpc = /^ {2}gRPC +(\S+), /m.exec(output)?.[1];
  const admin = /^ {2}admin +http:\/\/(\S+)\/readyz, /m.exec(output)?.[1];
  return grpc === undefined || admin === undefined ? undefined : { grpc, admin };
}
