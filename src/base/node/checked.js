// Imported first by the entry points that Node may run directly.
import { refuseRuntime, tooOld } from './runtime.js';

if (tooOld()) refuseRuntime();
