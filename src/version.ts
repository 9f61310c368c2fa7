// The version that commands, the status and the store's report name.
export const VERSION = '2.0.0';
