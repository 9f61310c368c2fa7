// Stub until its owner writes it.
export interface Service {
  stub?: true;
}
export const noService: Service = {};
export const createService = (_options: { apiKey: string; baseUrl: string; paid: boolean }): Service => ({});
export const endingWith = (service: Service, _signal: AbortSignal): Service => service;
