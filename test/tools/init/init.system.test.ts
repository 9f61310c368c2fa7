// `npm run init` with real git: what it makes, how an update comes to it, and what it refuses.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createPlace, type Place } from './harness.ts';

const NEXT = { 'src/shared.ts': '1\n2\n3\n4\n5\n6\n7\n8\nnine\n', 'src/new.ts': '' };

const SETTINGS = `
[core]
  autocrlf = true
  safecrlf = true
  hooksPath = ROOT/template/hooks
  excludesFile = ROOT/ignored
[init]
  defaultBranch = trunk
  templateDir = ROOT/template
[commit]
  gpgSign = true
[gpg]
  program = false
[user]
  useConfigOnly = true
[log]
  showSignature = true
[status]
  short = true
[color]
  ui = always
`;

function made(): Place {
  const place = createPlace();
  expect(place.init()).toMatchObject({ status: 0 });
  return place;
}

function commit(place: Place, path: string, text: string): void {
  writeFileSync(join(place.team, path), text);
  place.sh('my-receiver', `git add --all && git commit --quiet --message ours`);
}

/** Everything that an update must not touch. */
function stateOf(place: Place): string {
  return place.sh(
    'my-receiver',
    'git rev-parse HEAD && git status --short --branch && cat src/shared.ts && git stash list',
  );
}

describe('a new repository', () => {
  test('has the files of the commit, without those left out, on the branches main and kit', () => {
    const place = createPlace();
    writeFileSync(join(place.kit, 'src/shared.ts'), 'not committed');
    writeFileSync(join(place.kit, 'src/untracked.ts'), '');
    const { status, out } = place.init();
    expect(status).toBe(0);
    expect(out).toContain('warning: changes that are not committed are left out: git status lists 1');
    expect(out).toContain('left out: .ci, src/tools/dev, src/tools/init (');
    expect(out).toContain('cd ../my-receiver\n  npm ci && npm test');
    expect(readFileSync(join(place.team, 'src/shared.ts'), 'utf8')).toMatch(/^1\n2\n/);
    expect(readdirSync(join(place.team, 'src/tools'))).toEqual(['random.ts']);
    expect(readdirSync(place.team).toSorted()).toEqual(
      [
        '.git',
        '.github',
        '.vscode',
        'LICENSE',
        'knip.json',
        'README.md',
        'package-lock.json',
        'package.json',
        'src',
        'vitest.config.ts',
      ].toSorted(),
    );
    expect(readFileSync(join(place.team, 'README.md'), 'utf8')).toMatch(/^# my-receiver\n/);
    expect(place.sh('my-receiver', 'git branch --format="%(refname:short)" && git status --short')).toBe('kit\nmain');
  });

  test('is called as its folder in package.json and in the lock file', () => {
    const place = made();
    for (const file of ['package.json', 'package-lock.json'])
      expect(JSON.parse(readFileSync(join(place.team, file), 'utf8'))).toMatchObject({ name: 'my-receiver' });
  });

  test('with --tools also has the tools and their scripts, but not npm run init', () => {
    const place = createPlace();
    expect(place.init(place.team, '--tools').status).toBe(0);
    expect(readdirSync(join(place.team, 'src/tools'))).toEqual(['dev', 'random.ts']);
    const { scripts } = JSON.parse(readFileSync(join(place.team, 'package.json'), 'utf8')) as { scripts: object };
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['dev', 'demo', 'service', 'start', 'test', 'check']));
    expect(scripts).not.toHaveProperty('init');
  });

  test('is the same commit for everybody', () => {
    const place = made();
    const other = join(place.root, 'a folder', 'my-receiver');
    const { status, out } = place.init(other);
    expect(status).toBe(0);
    expect(out).toContain(`cd '../a folder/my-receiver'`);
    expect(place.sh('a folder/my-receiver', 'git rev-parse HEAD')).toBe(place.sh('my-receiver', 'git rev-parse HEAD'));
  });

  test('may begin in the empty clone of an empty repository', () => {
    const place = createPlace();
    place.sh('.', 'git init --quiet --bare there && git clone --quiet there my-receiver');
    expect(place.init().status).toBe(0);
    expect(place.sh('my-receiver', 'git status --short && git remote')).toBe('origin');
  });

  test("keeps line ends, signs nothing, runs no hooks and asks nothing, whatever the user's git settings say", () => {
    const place = createPlace();
    const hooks = join(place.root, 'template', 'hooks');
    mkdirSync(hooks, { recursive: true });
    for (const name of ['post-checkout', 'reference-transaction', 'pre-commit', 'post-index-change']) {
      writeFileSync(join(hooks, name), '#!/bin/sh\nexit 1\n');
      chmodSync(join(hooks, name), 0o755);
    }
    writeFileSync(join(place.root, 'ignored'), '*.ts\n');
    writeFileSync(join(place.root, 'gitconfig'), SETTINGS.replaceAll('ROOT', place.root));
    expect(place.init()).toMatchObject({ status: 0 });
    expect(readFileSync(join(place.team, 'src/shared.ts'), 'utf8')).not.toContain('\r');
    expect(place.sh('my-receiver', 'git symbolic-ref --short HEAD')).toBe('main');
    place.release('1.1.0', NEXT);
    expect(place.init()).toMatchObject({ status: 0 });
    expect(place.sh('my-receiver', 'git show kit:src/shared.ts')).not.toContain('\r');
  });
});

describe('an update', () => {
  test('is a commit on the branch kit, and the merge brings it beside the changes of the team', () => {
    const place = made();
    commit(place, 'src/shared.ts', 'one\n2\n3\n4\n5\n6\n7\n8\n9\n');
    place.release('1.1.0', NEXT);
    const before = stateOf(place);
    const { status, out } = place.init();
    expect(status).toBe(0);
    expect(out).toMatch(/kit 1\.1\.0 is on the branch kit of .*, which has 1\.0\.0: 3 files changed/);
    expect(stateOf(place)).toBe(before);
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(readFileSync(join(place.team, 'src/shared.ts'), 'utf8')).toBe('one\n2\n3\n4\n5\n6\n7\n8\nnine\n');
    expect(place.init().out).toContain('has kit 1.1.0 already: up to date');
  });

  test('works in the clone of a colleague, which lacks the branch kit, and gives the same commit', () => {
    const place = made();
    place.sh('.', 'git clone --quiet --no-local my-receiver theirs && git -C theirs branch --list kit');
    place.release('1.1.0', NEXT);
    expect(place.init().status).toBe(0);
    expect(place.init(join(place.root, 'theirs')).status).toBe(0);
    expect(place.sh('theirs', 'git rev-parse kit')).toBe(place.sh('my-receiver', 'git rev-parse kit'));
    expect(place.sh('theirs', 'git show kit:package.json')).toContain('"name": "my-receiver"');
  });

  test('leaves uncommitted work alone, also with a detached HEAD, and with tools as at first', () => {
    const place = createPlace();
    expect(place.init(place.team, '--tools').status).toBe(0);
    place.sh('my-receiver', 'git checkout --quiet --detach');
    writeFileSync(join(place.team, 'src/shared.ts'), 'unfinished\n');
    place.sh('my-receiver', 'git add src/shared.ts');
    writeFileSync(join(place.team, 'src/untracked.ts'), '');
    place.release('1.1.0', NEXT);
    const before = stateOf(place);
    const { status, out } = place.init();
    expect(status).toBe(0);
    expect(out).toContain('git switch main');
    expect(stateOf(place)).toBe(before);
    expect(place.sh('my-receiver', 'git ls-tree --name-only kit src/tools/')).toContain('src/tools/dev');
  });

  test('that was merged as a squash is not taken for a commit of the kit', () => {
    const place = made();
    commit(place, 'src/ours.ts', '');
    place.release('1.1.0', NEXT);
    place.init();
    place.sh(
      'my-receiver',
      'git merge --quiet --squash kit && git commit --quiet --message "$(git show -s --format=%B kit)"',
    );
    place.release('1.2.0', { 'src/new.ts': '// of 1.2\n' });
    const { status, out } = place.init();
    expect(status).toBe(0);
    expect(out).toContain('which has 1.0.0');
    expect(place.sh('my-receiver', 'git show -s --format=%s kit^')).toBe('webhook-receiver-kit 1.0.0');
  });

  test('is not hidden by a commit of the team that names its own tree as if it was of the kit', () => {
    const place = made();
    commit(place, 'src/ours.ts', '');
    const message = place
      .sh('my-receiver', 'git show -s --format=%b kit')
      .replace(/^Kit-Tree:.*/m, '')
      .trim();
    place.sh(
      'my-receiver',
      `git commit --quiet --allow-empty -m "webhook-receiver-kit 1.0.0" -m "${message}\nKit-Tree: $(git write-tree)"`,
    );
    expect(place.sh('my-receiver', 'git show -s --format="%(trailers:key=Kit-Tree,valueonly)" | head -1')).toBe(
      place.sh('my-receiver', 'git show -s --format=%T'),
    );
    place.release('1.1.0', NEXT);
    expect(place.init().status).toBe(0);
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(existsSync(join(place.team, 'src/ours.ts'))).toBe(true);
  });

  test('may come from a pre-release', () => {
    const place = createPlace();
    place.release('1.1.0-rc.9', NEXT);
    place.init();
    for (const version of ['1.1.0-rc.10', '1.1.0']) {
      place.release(version);
      expect(place.init().out).toContain(`kit ${version} is on the branch kit`);
      place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    }
  });

  test('with --tools adds the tools to a repository without them', () => {
    const place = made();
    expect(place.init(place.team, '--tools').out).toContain('is on the branch kit');
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(readdirSync(join(place.team, 'src/tools'))).toEqual(['dev', 'random.ts']);
    expect(place.init().out).toContain('up to date');
  });

  test('may skip a version, or replace one that was not merged', () => {
    const place = made();
    place.release('1.9.0', NEXT);
    place.init();
    place.release('1.10.0', { 'src/new.ts': '// of 1.10\n' });
    expect(place.init().out).toContain('kit 1.10.0 is on the branch kit');
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(readFileSync(join(place.team, 'src/new.ts'), 'utf8')).toBe('// of 1.10\n');
  });
});

describe('refused, and nothing is written', () => {
  const file = (place: Place): void => writeFileSync(place.team, '');
  const notEmpty = (place: Place): void => {
    mkdirSync(place.team);
    writeFileSync(join(place.team, 'notes'), '');
  };
  const others = (place: Place): void => {
    notEmpty(place);
    place.sh('my-receiver', 'git init --quiet && git add --all && git commit --quiet --message theirs');
  };

  test.each([
    ['a file', file, 'is a file: choose a folder'],
    ['a folder with files', notEmpty, 'has files and is no git repository: choose a folder that is empty or missing'],
    ['a repository without the kit', others, 'has no commit of the kit in the history of HEAD: choose an empty folder'],
  ])('%s', (_, prepare, words) => {
    const place = createPlace();
    prepare(place);
    const before = place.sh('.', 'find my-receiver | sort');
    expect(place.init()).toEqual({ status: 1, out: expect.stringContaining(words) });
    expect(place.sh('.', 'find my-receiver | sort')).toBe(before);
  });

  test.each([
    ['inside the kit', 'kit/my-receiver', 'is inside the repository'],
    ['a name that npm does not take', 'My Receiver', 'My Receiver is no name for a package'],
  ])('%s', (_, folder, words) => {
    const place = createPlace();
    expect(place.init(join(place.root, folder))).toEqual({ status: 1, out: expect.stringContaining(words) });
    expect(existsSync(join(place.root, folder))).toBe(false);
  });

  test('a folder of a monorepo, even if the kit was copied there', () => {
    const place = made();
    place.sh('my-receiver', 'rm -rf .git && cd .. && git init --quiet');
    expect(place.init().out).toContain('choose a folder outside, and add it to yours as a submodule');
  });

  test('a link to nothing, as the folder or above it', () => {
    const place = createPlace();
    symlinkSync('nothing', place.team);
    const words = `${place.team} is a link to nothing: choose another folder`;
    for (const folder of [place.team, join(place.team, 'receiver')])
      expect(place.init(folder)).toEqual({ status: 1, out: expect.stringContaining(words) });
  });

  test("a folder inside somebody else's repository", () => {
    const place = createPlace();
    place.sh('.', 'git init --quiet theirs && mkdir theirs/ours');
    place.atGit('--show-toplevel', 'export GIT_TEST_ASSUME_DIFFERENT_OWNER=1');
    writeFileSync(join(place.root, 'gitconfig'), `[safe]\ndirectory = ${place.kit}\n`);
    const { status, out } = place.init(join(place.root, 'theirs/ours/my-receiver'));
    expect(status).toBe(1);
    expect(out).toContain(`dubious ownership in repository at '${join(place.root, 'theirs')}'`);
    expect(readdirSync(join(place.root, 'theirs/ours'))).toEqual([]);
  });

  test('a tag named kit, until it has another name', () => {
    const place = made();
    place.sh('my-receiver', 'git tag -a -m ours kit');
    place.release('1.1.0', NEXT);
    const { status, out } = place.init();
    expect(status).toBe(1);
    const [, remedy = ''] = /has a tag named kit, .*: (git tag .*)$/m.exec(out) ?? [];
    expect(place.sh('my-receiver', 'git branch --format="%(refname:short) %(subject)" --list kit')).toContain('1.0.0');
    place.sh('my-receiver', remedy.replace('<another name>', 'ours'));
    expect(place.init().status).toBe(0);
    place.sh('my-receiver', 'git merge --quiet --no-edit kit && git show ours');
    expect(existsSync(join(place.team, 'src/new.ts'))).toBe(true);
  });

  test.each(['1.1.0', '1.2.0'])('kit %s after a merge that was reverted, until the revert is reverted', (next) => {
    const place = made();
    commit(place, 'src/ours.ts', '');
    place.release('1.1.0', NEXT);
    place.init();
    place.sh('my-receiver', 'git merge --quiet --no-edit kit && git revert --no-edit --mainline 1 HEAD');
    if (next !== '1.1.0') place.release(next, { 'src/newer.ts': '' });
    const { status, out } = place.init();
    expect(status).toBe(1);
    expect(out).toContain(
      'merged kit 1.1.0, but its package.json says 1.0.0. If that merge was reverted, git would leave its files out:',
    );
    place.sh('my-receiver', 'git revert --no-edit HEAD');
    expect(place.init().status).toBe(0);
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(existsSync(join(place.team, 'src/new.ts'))).toBe(true);
  });

  test('an older kit', () => {
    const place = createPlace();
    place.release('1.1.0', NEXT);
    place.init();
    place.sh('kit', 'git checkout --quiet v1.0.0');
    const { status, out } = place.init();
    expect(status).toBe(1);
    expect(out).toContain('has kit 1.1.0 (');
    expect(out).toContain('git fetch --tags');
    expect(place.sh('my-receiver', 'git show kit:package.json')).toContain('"version": "1.1.0"');
  });

  test('a branch kit with commits of the team, and a branch kit that is checked out', () => {
    const place = made();
    place.release('1.1.0', NEXT);
    place.sh('my-receiver', 'git switch --quiet kit');
    expect(place.init().out).toContain('has the branch kit checked out, which this would move: git switch main');
    commit(place, 'src/ours.ts', '');
    place.sh('my-receiver', 'git switch --quiet main');
    const before = place.sh('my-receiver', 'git rev-parse kit');
    expect(place.init().out).toContain('has commits of yours: git branch -m kit <another name>');
    expect(place.sh('my-receiver', 'git rev-parse kit')).toBe(before);
  });

  test('a shallow clone of the team, and a history that was rewritten; each remedy helps', () => {
    const place = made();
    commit(place, 'src/ours.ts', '');
    place.release('1.1.0', NEXT);
    place.sh('.', 'git clone --quiet --depth 1 --no-local "file://$PWD/my-receiver" shallow');
    expect(place.init(join(place.root, 'shallow')).out).toContain('git fetch --unshallow, then run this again');
    place.sh('shallow', 'git fetch --quiet --unshallow');
    expect(place.init(join(place.root, 'shallow')).status).toBe(0);

    place.sh(
      'my-receiver',
      'git checkout --quiet --orphan rewritten && git commit --quiet --message all && git branch -D kit',
    );
    const [, remedy = ''] = /then connect the two once: (.*)$/m.exec(place.init().out) ?? [];
    place.sh('kit', 'git checkout --quiet v1.0.0');
    expect(place.init(join(place.root, 'again/my-receiver')).status).toBe(0);
    place.sh('my-receiver', `${remedy.replace('<that folder>', '../again/my-receiver')} --no-edit`);
    place.sh('kit', 'git checkout --quiet v1.1.0');
    expect(place.init().status).toBe(0);
    place.sh('my-receiver', 'git merge --quiet --no-edit kit');
    expect(readFileSync(join(place.team, 'src/shared.ts'), 'utf8')).toContain('nine');
  });

  test('a kit that is no clone', () => {
    const place = createPlace();
    place.sh('kit', 'rm -rf .git');
    expect(place.init().out).toContain('is not a clone of the kit: git clone its repository, and run this there');
    expect(existsSync(place.team)).toBe(false);
  });

  test.each([
    ['--tool', 'a'],
    ['a', 'b'],
  ])('arguments that it does not know: %s %s', (...args) => {
    expect(createPlace().init(...args)).toEqual({
      status: 2,
      out: expect.stringContaining('usage: npm run init <folder>'),
    });
  });
});
