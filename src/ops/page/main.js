// The page of operators.
import { show, views } from './page.js';

show(views);
