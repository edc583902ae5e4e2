import type { DescMethod, Message } from '@bufbuild/protobuf';
import type { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import type { Measured } from '../measure/measured.js';
import { CallRefused } from './run-load.js';

/** Where a call was not served, sends it once more by the ordinary client, which reads the reason. */
export async function explain(
  running: Promise<Measured>,
  again: (source: number, index: number) => Promise<string>,
): Promise<Measured> {
  try {
    return await running;
  } catch (error) {
    if (!(error instanceof CallRefused)) throw error;
    throw new Error(`${error.message}; sent again: ${await again(error.source, error.index)}`, {
      cause: error,
    });
  }
}

/** Makes a call by the ordinary client. @returns what came of it, in words */
export async function askAgain(
  channel: Channel | undefined,
  method: DescMethod,
  request: object | undefined,
): Promise<string> {
  const service = channel?.service(method.parent) as
    | Record<string, (request: object) => Promise<Message>>
    | undefined;
  try {
    await service?.[method.localName]?.(request ?? {});
    return 'it was served';
  } catch (error) {
    return error instanceof SuretyError ? `${error.reason} (${error.message})` : 'it failed';
  }
}
