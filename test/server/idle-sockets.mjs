// Opens sockets and says nothing. Arguments: port, how many. Ends when its standard input does.
import { once } from 'node:events';
import { connect } from 'node:net';

const [port, count] = process.argv.slice(2).map(Number);
const AT_ONCE = 100;

async function openOne() {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
}

for (let left = count; left > 0; left -= AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, left) }, openOne));
}
process.stdout.write('open\n');
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
