// The operations that the client knows (contract 4.2, 4.5). Add an operation here, and the types of its answers, pages
// and items follow. Operations that are not listed can also be called, with plain objects.
import { z } from 'zod';
import * as shapes from './shapes.ts';

export type Plain = Record<string, unknown>;

interface Operation {
  /** The shape of the answer. An answer that does not fit it is still passed on. Default: a plain object. */
  response?: z.ZodType<Plain>;
  /** The operation costs money. It is refused unless PAID_OPERATIONS=allow, and never retried. */
  paid?: true;
  /** For a list: how pages follow each other (contract 4.5), and the field with the items, if the contract names it. */
  pages?: { by: 'cursor' | 'page'; items?: string };
}

const { strings, decimals, booleans, list, named } = shapes;
const answers = <Fields extends z.ZodRawShape>(fields: Fields) => ({ response: z.looseObject(fields) });
const byCursor = <const Items extends string>(items: Items) => ({ pages: { by: 'cursor', items } }) as const;
const BY_PAGE = { pages: { by: 'page' } } as const;
const BY_CURSOR = { pages: { by: 'cursor' } } as const;
const next = strings('next_cursor');
const page = shapes.pageMetadata.optional();
const ok = answers(booleans('ok'));

export const operations = {
  ResumeCampaign: { ...ok, paid: true },
  PauseConversationFlow: answers({ active: shapes.flowRun.optional(), recent: list(shapes.flowRun) }),
  GetFlowRun: answers({ run: shapes.flowRun.optional(), steps: list(shapes.flowStep) }),
  UpdateCrmOpportunity: answers({ opportunity: shapes.opportunity.optional() }),
  ListCrmTasks: { ...answers({ tasks: list(shapes.crmTask), ...next }), ...byCursor('tasks') },
  ListCrmTags: answers({ tags: list(shapes.crmTag) }),
  ListCampaignHistory: {
    ...answers({ campaigns: list(shapes.campaign), page, ...next }),
    ...byCursor('campaigns'),
  },
  AddCrmListMembers: answers(decimals('changed member_count not_found')),
  PurgeRecoverySequence: answers({ ...booleans('deleted'), ...strings('name'), ...decimals('runs') }),
  EnrollRecovery: answers(decimals('enrolled skipped')),
  RemoveGroupParticipants: answers({ ...booleans('supported'), results: list(shapes.participantResult) }),
  DeleteCrmList: answers({ ...booleans('ok'), ...strings('detail message_id') }),
  DeleteMessageTemplate: ok,
  CreateMessageTemplate: answers({ message: shapes.template.optional() }),
  ListMessages: { ...answers({ messages: list(shapes.message), ...next }), ...byCursor('messages') },
  AssignConversation: answers({ conversation: shapes.conversation.optional() }),
  ImportNetworkContacts: { response: shapes.contactImport },
  ListQuickReplies: { ...answers({ messages: list(shapes.template), page }), pages: { by: 'page', items: 'messages' } },
  PurgeCrmArchived: answers({ ...booleans('deleted'), ...strings('name'), ...decimals('affected blocking') }),
  ReplayEvents: answers({ events: list(shapes.storedEvent), ...next, ...booleans('has_more reset_required') }),
  // For these operations the contract shows only the names and the kind of paging.
  ...named('GetApiKeyIdentity GetSession ImportContacts UploadMedia', {}),
  ...named('ListCalls ListCampaignAudience ListCampaignDeliveries ListCampaigns ListContacts', BY_CURSOR),
  ...named('ListConversations ListCrmContacts ListCrmListMembers ListCrmOpportunities ListDialogTrees', BY_CURSOR),
  ...named('ListFlowRuns ListMedia ListMessageTemplates ListRecoveryRuns ListViewOnceMedia', BY_CURSOR),
  ...named('ListConnectedDevices ListSessions ListWarmupDevices', BY_PAGE),
} as const satisfies Record<string, Operation>;

type Operations = typeof operations;
/** The name of an operation that is listed above, or of any other. */
export type OperationName = keyof Operations | (string & {});
/** The answer of an operation. For an operation that is not listed: a plain object. */
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
