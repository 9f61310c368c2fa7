// The operations that the client knows (contract 4.2, 4.5). Others can also be called, as ones that cost nothing.
import type { Conversation, Message, Plain, ReplayPage } from './shapes.ts';

interface Operation {
  /** The operation costs money. It is refused unless PAID_OPERATIONS=allow, and never retried. */
  paid?: true;
  /** For a list: how pages follow each other. */
  by?: 'cursor' | 'page';
  /** For a list: the field with the items, if the contract names it. */
  items?: string;
}

const OPERATIONS = {
  ResumeCampaign: { paid: true },
  ListCampaignHistory: { by: 'cursor', items: 'campaigns' },
  ListCrmTasks: { by: 'cursor', items: 'tasks' },
  ListCrmTags: { items: 'tags' },
  ListMessages: { by: 'cursor', items: 'messages' },
  ListQuickReplies: { by: 'page', items: 'messages' },
  ...named(['ListConnectedDevices', 'ListSessions', 'ListWarmupDevices'], 'page'),
  ...named(['ListCalls', 'ListCampaignAudience', 'ListCampaignDeliveries', 'ListCampaigns', 'ListContacts'], 'cursor'),
  ...named(['ListConversations', 'ListCrmContacts', 'ListCrmListMembers', 'ListCrmOpportunities'], 'cursor'),
  ...named(['ListDialogTrees', 'ListFlowRuns', 'ListMedia', 'ListMessageTemplates', 'ListRecoveryRuns'], 'cursor'),
  ...named(['ListViewOnceMedia'], 'cursor'),
} satisfies Record<string, Operation>;

interface Answers {
  ListMessages: Plain & { messages?: Message[]; next_cursor?: string };
  AssignConversation: Plain & { conversation?: Conversation };
  ReplayEvents: ReplayPage;
}

/** Any operation can be named. The answers of some have a type. */
export type OperationName = keyof Answers | keyof typeof OPERATIONS | (string & {});
export type ResponseOf<Name extends OperationName> = Name extends keyof Answers ? Answers[Name] : Plain;
/** One item of a list. */
export type ItemOf<Name extends OperationName> = Name extends 'ListMessages' ? Message : Plain;

export function operationOf(name: string): Operation {
  return Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name as keyof typeof OPERATIONS] : {};
}

function named<const Name extends string>(names: Name[], by: 'cursor' | 'page'): Record<Name, Operation> {
  return Object.fromEntries(names.map((name) => [name, { by }])) as Record<Name, Operation>;
}
