// What people change in a store, and what `keep` does to it.
export interface AdminStore {}
