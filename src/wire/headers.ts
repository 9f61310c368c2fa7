// Every header name of the contract (6.1, 6.3, 7.1), defined once.

/** The names of a delivery's headers, without WEBHOOK_HEADER_PREFIX. */
export const DELIVERY = {
  eventId: 'Event-Id',
  eventType: 'Event-Type',
  deliveryId: 'Delivery-Id',
  attempt: 'Attempt',
  timestamp: 'Timestamp',
  signature: 'Signature',
} as const;
export const DEFAULT_PREFIX = 'X-Svc-';

/** The service's error answers carry the id of the request in this header. */
export const REQUEST_ID = 'x-request-id';
/** The event stream continues after the cursor in this header. */
export const LAST_EVENT_ID = 'last-event-id';
