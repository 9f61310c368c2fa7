// Entry points that Node may run directly import this file first.
import { refuseRuntime, tooOld } from './runtime.js';

if (tooOld()) refuseRuntime();
