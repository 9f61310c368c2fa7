// Answers before the body was read, so that the answer arrives: closing a socket with unread bytes resets it, and the
// sender would see a broken connection instead of the status. Reads on for a moment, keeps nothing, then closes.
import type { IncomingMessage } from 'node:http';

const LINGER_MS = 1_000;

export function lingerOnClose(request: IncomingMessage): void {
  const { socket } = request;
  socket.destroySoon = () => {
    socket.end();
    request.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('end', () => socket.destroy()).once('close', () => clearTimeout(timer));
  };
}
