// What reconciliation asks of a store.
export interface ReplayStore {}
