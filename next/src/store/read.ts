// What people and metrics read of a store.
export interface ReadStore {}
