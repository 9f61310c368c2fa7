// The operations of contract 4.2, as one table: those that it documents, and those that it only names. An answer has
// the documented shape (2). An answer that the contract does not show is empty and says that it is invented.
import { z } from 'zod';
import type { Inbox } from './inbox.ts';
import type { Key } from './keys.ts';
import { pageOf, refusePages, type Item, type Paging } from './paging.ts';
import { Refusal } from './refusal.ts';
import { createReplay, type ReplayOptions } from './replay.ts';
import { example, examples } from './shapes.ts';
import { valid } from './valid.ts';

export interface Operation {
  /** The key needs all scopes of one of these, joined by `+`. Empty: every valid key is accepted. */
  scopes: string[];
  /** Needs a quote (contract 7.4, BILLING_QUOTE_REQUIRED). */
  paid: boolean;
  /** The contract does not show the answer. */
  invented: boolean;
  /** The response object. Throws Refusal. */
  answer(request: Item, key: Key): object;
}

/** The answer. For a list, all its items in the one field that holds them. */
type Answering = (request: Item, key: Key) => object;
/** Operation, scopes, paging or price, answer. Without an answer, the contract only names the operation. */
type Row = [name: string, scopes: string, kind?: Paging | 'paid' | '', answer?: Answering];

const ids = (most: number) => z.array(z.string()).min(1).max(most);
const members = oneOf({ contact_ids: ids(1_000), phones: ids(10_000), segment_id: z.string() });
const enrolled = oneOf({ contact_ids: ids(1_000), list_id: z.string(), segment_id: z.string() });
const QUICK_REPLIES = 450;
const CONTACTS = 'product:contacts';
const CRM_READ = 'product:contacts | product:inbox';
const CRM_WRITE = 'product:contacts | product:inbox+messages:send';
const INBOX_WRITE = 'product:inbox | messages:send';
const CAMPAIGNS = 'product:campaigns';
const TEMPLATES = 'product:templates';
/** The contract shows too little of these answers. */
const INVENTED = ['GetApiKeyIdentity', 'ListConversations'];

interface OperationsOptions extends ReplayOptions {
  inbox: Inbox;
}

export function createOperations(options: OperationsOptions): Map<string, Operation> {
  const { keys, inbox } = options;
  return new Map([...documented(options), ...NAMED].map((row) => [row[0], operationOf(row)]));

  function operationOf([name, scopes, kind = '', answering]: Row): Operation {
    const isList = kind !== '' && kind !== 'paid';
    return {
      scopes: scopes === '' ? [] : scopes.split(' | '),
      paid: kind === 'paid',
      invented: !answering || INVENTED.includes(name),
      answer(request, key) {
        checkReach(request, key);
        if (!isList && name !== 'ReplayEvents') refusePages(request);
        const answer = answering?.(request, key) ?? (isList ? { items: [] } : {});
        if (!isList) return answer;
        const [[field, items] = ['items', []]] = Object.entries(answer) as [string, Item[]][];
        return pageOf({ operation: name, paging: kind, field, items }, request, (item) => reaches(key, item));
      },
    };
  }

  /** Throws 404 if the request names a number or conversation that does not exist or that the key may not see (5.4). */
  function checkReach({ session_id, conversation_id: id }: Item, key: Key): void {
    if (session_id !== undefined) keys.reach(key, session_id);
    const one = id === undefined || inbox.conversations().find((conversation) => conversation['id'] === id);
    if (one !== true && !(one && reaches(key, one))) throw new Refusal(404);
  }

  function reaches(key: Key, { session_id, conversation_id }: Item): boolean {
    const number = session_id ?? (conversation_id as string | undefined)?.split('/')[0];
    return number === undefined || keys.reads(key, { sessionId: number as string });
  }
}

/** The operations that the contract only names. It does not state their scopes, which follow from 5.3. */
const NAMED: Row[] = [
  ['ListSessions', 'sessions:read', 'page'],
  ['GetSession', 'sessions:read'],
  ['ListConnectedDevices', 'sessions:read', 'page'],
  ['ListWarmupDevices', 'product:warmup', 'page'],
  ['ListContacts', CONTACTS, 'cursor'],
  ['ListCalls', 'product:inbox', 'cursor'],
  ['ListCampaigns', CAMPAIGNS, 'cursor'],
  ['ListCampaignAudience', CAMPAIGNS, 'cursor'],
  ['ListCampaignDeliveries', CAMPAIGNS, 'cursor'],
  ['ListCrmContacts', CONTACTS, 'cursor'],
  ['ListCrmListMembers', CAMPAIGNS, 'cursor'],
  ['ListCrmOpportunities', CONTACTS, 'cursor'],
  ['ListDialogTrees', TEMPLATES, 'cursor'],
  ['ListFlowRuns', 'product:flows', 'cursor'],
  ['ListMedia', 'product:media', 'cursor'],
  ['ListMessageTemplates', TEMPLATES, 'cursor'],
  ['ListRecoveryRuns', CAMPAIGNS, 'cursor'],
  ['ListViewOnceMedia', 'messages:view_once', 'cursor'],
  ['ImportContacts', CONTACTS],
  ['UploadMedia', 'product:media'],
];

/** The operations that the contract documents, and ListConversations, whose items it documents. */
function documented(options: OperationsOptions): Row[] {
  const { history, inbox } = options;
  return [
    ['ResumeCampaign', CAMPAIGNS, 'paid', () => ({ ok: true })],
    ['PauseConversationFlow', INBOX_WRITE, '', (request) => ({ active: run(request), recent: [run(request, 2)] })],
    ['GetFlowRun', 'product:flows', '', (request) => ({ run: run(request), steps: [example('flowStep', 1)] })],
    ['UpdateCrmOpportunity', CRM_WRITE, '', () => ({ opportunity: example('opportunity', 1) })],
    ['ListCrmTasks', CRM_READ, 'cursor', () => ({ tasks: examples(3, taskOf) })],
    ['ListCrmTags', CRM_READ, '', () => ({ tags: examples(3, (n) => example('tag', n)) })],
    ['ListCampaignHistory', CAMPAIGNS, 'both', () => ({ campaigns: examples(3, (n) => example('campaign', n)) })],
    ['AddCrmListMembers', CAMPAIGNS, '', addMembers],
    ['PurgeRecoverySequence', CAMPAIGNS, '', () => ({ deleted: true, name: 'a sequence', runs: '0' })],
    ['EnrollRecovery', CAMPAIGNS, '', enroll],
    ['RemoveGroupParticipants', 'groups:manage', '', () => ({ supported: true, results: [example('participant', 1)] })],
    ['DeleteCrmList', CAMPAIGNS, '', () => ({ ok: true, detail: '', message_id: '' })],
    ['DeleteMessageTemplate', TEMPLATES, '', () => ({ ok: true })],
    ['CreateMessageTemplate', TEMPLATES, '', () => ({ message: templateOf(1) })],
    ['ListMessages', 'product:inbox', 'cursor', () => ({ messages: inbox.messages() })],
    ['AssignConversation', INBOX_WRITE, '', (request) => inbox.assign(request)],
    ['ImportNetworkContacts', CONTACTS, '', importContacts],
    ['ListQuickReplies', 'product:inbox', 'page', () => ({ messages: examples(QUICK_REPLIES, templateOf) })],
    ['PurgeCrmArchived', CRM_WRITE, '', () => ({ deleted: true, name: 'an item', affected: '0', blocking: '0' })],
    ['ReplayEvents', 'events:read', '', createReplay(options)],
    ['GetApiKeyIdentity', '', '', (request) => valid(z.strictObject({}), request, 'REQUEST_INVALID')],
    ['ListConversations', 'product:inbox', 'cursor', () => ({ conversations: inbox.conversations() })],
  ];

  function run({ session_id = history.numbers[0], conversation_id = '' }: Item, n = 1): Item {
    return example('flowRun', n, { session_id, conversation_id, variables_json: '{}' });
  }

  /** Each number has tasks. */
  function taskOf(n: number): Item {
    return example('task', n, { conversation_id: `${history.numbers[n % history.numbers.length]}/15550101` });
  }

  function addMembers(request: Item): object {
    const { contact_ids, phones } = valid(members, request, 'REQUEST_INVALID') as { [field: string]: string[] };
    const known = new Set(inbox.conversations().map((conversation) => conversation['peer_phone']));
    const given = contact_ids ?? phones ?? ['of the segment'];
    const changed = String(phones ? phones.filter((phone) => known.has(phone)).length : given.length);
    return { changed, member_count: changed, not_found: String(given.length - Number(changed)) };
  }

  function enroll(request: Item): object {
    const { contact_ids } = valid(enrolled, request, 'REQUEST_INVALID') as { contact_ids?: string[] };
    return { enrolled: String(contact_ids?.length ?? 1), skipped: '0' };
  }
}

function templateOf(n: number): Item {
  const parts = [example('part', n)];
  return example('template', n, { id: String(n), parts, responses: [example('response', n, { parts })] });
}

function importContacts(): object {
  const sample = [example('contact', 1, { source: 'network_import' })];
  return example('contactImport', 1, { sample, phones: ['15550101'] });
}

/** Exactly one of these fields is given. */
function oneOf(sources: Record<string, z.ZodType>) {
  const fields = Object.entries(sources).map(([name, schema]) => [name, schema.optional()] as const);
  const given = (request: Item): number => Object.keys(sources).filter((name) => request[name] !== undefined).length;
  return z.looseObject(Object.fromEntries(fields)).refine((request) => given(request) === 1);
}
