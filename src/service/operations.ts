// The operations that the client knows (contract 4.2, 4.5). Add one here, once, and the types of its answers, of its pages
// and of its items follow everywhere. What is not named here can be called all the same: plain objects.
import { z } from 'zod';
import * as shapes from './shapes.ts';

export type Plain = Record<string, unknown>;

interface Operation {
  /** Loose: an answer that does not fit it is handed over as it came. Default: a plain object. */
  response?: z.ZodType<Plain>;
  /** Costs money: refused unless PAID_OPERATIONS=allow, and never repeated. */
  paid?: true;
  /** How its list goes on (4.5), and the field of the answer that holds the items, where the contract names it. */
  pages?: { by: 'cursor' | 'page'; items?: string };
}

const { strings, decimals, booleans, list } = shapes;
const ok = z.looseObject(booleans('ok'));
const byCursor = { pages: { by: 'cursor' } } as const;
const byPage = { pages: { by: 'page' } } as const;

export const operations = {
  GetApiKeyIdentity: {},
  ResumeCampaign: { response: ok, paid: true },
  PauseConversationFlow: {
    response: z.looseObject({ active: shapes.flowRun.optional(), recent: list(shapes.flowRun) }),
  },
  GetFlowRun: { response: z.looseObject({ run: shapes.flowRun.optional(), steps: list(shapes.flowStep) }) },
  UpdateCrmOpportunity: { response: z.looseObject({ opportunity: shapes.opportunity.optional() }) },
  ListCrmTasks: {
    response: z.looseObject({ tasks: list(shapes.crmTask), ...strings('next_cursor') }),
    pages: { by: 'cursor', items: 'tasks' },
  },
  ListCrmTags: { response: z.looseObject({ tags: list(shapes.crmTag) }) },
  ListCampaignHistory: {
    response: z.looseObject({
      campaigns: list(shapes.campaign),
      page: shapes.pageMetadata.optional(),
      ...strings('next_cursor'),
    }),
    pages: { by: 'cursor', items: 'campaigns' },
  },
  AddCrmListMembers: { response: z.looseObject(decimals('changed member_count not_found')) },
  PurgeRecoverySequence: {
    response: z.looseObject({ ...booleans('deleted'), ...strings('name'), ...decimals('runs') }),
  },
  EnrollRecovery: { response: z.looseObject(decimals('enrolled skipped')) },
  RemoveGroupParticipants: {
    response: z.looseObject({ ...booleans('supported'), results: list(shapes.participantResult) }),
  },
  DeleteCrmList: { response: z.looseObject({ ...booleans('ok'), ...strings('detail message_id') }) },
  DeleteMessageTemplate: { response: ok },
  CreateMessageTemplate: { response: z.looseObject({ message: shapes.template.optional() }) },
  ListMessages: {
    response: z.looseObject({ messages: list(shapes.message), ...strings('next_cursor') }),
    pages: { by: 'cursor', items: 'messages' },
  },
  AssignConversation: { response: z.looseObject({ conversation: shapes.conversation.optional() }) },
  ImportNetworkContacts: { response: shapes.contactImport },
  ListQuickReplies: {
    response: z.looseObject({ messages: list(shapes.template), page: shapes.pageMetadata.optional() }),
    pages: { by: 'page', items: 'messages' },
  },
  PurgeCrmArchived: {
    response: z.looseObject({ ...booleans('deleted'), ...strings('name'), ...decimals('affected blocking') }),
  },
  ReplayEvents: {
    response: z.looseObject({
      events: list(shapes.storedEvent),
      ...strings('next_cursor'),
      ...booleans('has_more reset_required'),
    }),
  },
  // The contract names these and their way of going on, and no more.
  GetSession: {},
  ImportContacts: {},
  UploadMedia: {},
  ListCalls: byCursor,
  ListCampaignAudience: byCursor,
  ListCampaignDeliveries: byCursor,
  ListCampaigns: byCursor,
  ListContacts: byCursor,
  ListConversations: byCursor,
  ListCrmContacts: byCursor,
  ListCrmListMembers: byCursor,
  ListCrmOpportunities: byCursor,
  ListDialogTrees: byCursor,
  ListFlowRuns: byCursor,
  ListMedia: byCursor,
  ListMessageTemplates: byCursor,
  ListRecoveryRuns: byCursor,
  ListViewOnceMedia: byCursor,
  ListConnectedDevices: byPage,
  ListSessions: byPage,
  ListWarmupDevices: byPage,
} as const satisfies Record<string, Operation>;

type Operations = typeof operations;
/** A known name, or any other. */
export type OperationName = keyof Operations | (string & {});
/** What an operation answers with; of an unknown one, a plain object. */
export type ResponseOf<Name extends OperationName> = Name extends keyof Operations
  ? Operations[Name] extends { response: z.ZodType<infer Answer> }
    ? Answer
    : Plain
  : Plain;
/** One item of a list. */
export type ItemOf<Name extends OperationName> = Name extends keyof Operations
  ? Operations[Name] extends { pages: { items: infer Field } }
    ? ResponseOf<Name> extends { [Key in Field & string]?: (infer Item)[] | undefined }
      ? Item
      : Plain
    : Plain
  : Plain;

export function operationOf(name: string): Operation {
  return Object.hasOwn(operations, name) ? operations[name as keyof Operations] : {};
}
