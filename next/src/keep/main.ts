// Stub until its owner writes it.
import { beginChild, onOrders } from '../processes/child.ts';
import { say } from '../processes/channel.ts';

beginChild();
onOrders({ wake() {}, stop: () => process.exit(0) });
await say({ type: 'ready', handlers: [], faults: [] });
