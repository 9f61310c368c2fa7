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
  // Of these the contract shows the name, and how the lists among them go on.
  ...named('GetApiKeyIdentity GetSession ImportContacts UploadMedia', {}),
  ...named('ListCalls ListCampaignAudience ListCampaignDeliveries ListCampaigns ListContacts', BY_CURSOR),
  ...named('ListConversations ListCrmContacts ListCrmListMembers ListCrmOpportunities ListDialogTrees', BY_CURSOR),
  ...named('ListFlowRuns ListMedia ListMessageTemplates ListRecoveryRuns ListViewOnceMedia', BY_CURSOR),
  ...named('ListConnectedDevices ListSessions ListWarmupDevices', BY_PAGE),
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
