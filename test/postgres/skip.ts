// Without a server there is nothing to test.
import { beforeEach, inject } from 'vitest';

beforeEach(({ skip }) => skip(inject('postgres') === null, 'no PostgreSQL server'));
