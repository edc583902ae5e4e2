import { loadPackage } from '../packages.js';

/** What is used of the SDK. */
interface RestateModule {
  service(definition: {
    name: string;
    handlers: Record<string, (context: RestateContext, input: string) => Promise<string>>;
  }): object;
  serve(options: { services: object[]; port: number }): Promise<number>;
}

interface RestateContext {
  run(name: string, action: () => Promise<string>): Promise<string>;
}

/** The process of the service that Restate's server calls: one handler with one `ctx.run`. */
const [packages = '', port] = process.argv.slice(2);
const restate = await loadPackage<RestateModule>(packages, '@restatedev/restate-sdk');
const life = restate.service({
  name: 'life',
  handlers: { once: (context, key) => context.run('send', () => Promise.resolve(`sent ${key}`)) },
});
await restate.serve({ services: [life], port: Number(port) });
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
